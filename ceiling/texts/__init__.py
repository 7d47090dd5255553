"""Texts by name, documents cut from them in a model's own tokens, and tasks hidden in them."""

from ceiling.texts.cutting import documents as documents
from ceiling.texts.naming import from_hub as from_hub
from ceiling.texts.naming import path_in as path_in
from ceiling.texts.naming import short_name as short_name
from ceiling.texts.opening import BUILT_INS as BUILT_INS
from ceiling.texts.opening import Text as Text
from ceiling.texts.opening import open_text as open_text
from ceiling.texts.placing import Placed as Placed
from ceiling.texts.placing import place as place
from ceiling.texts.placing import task_documents as task_documents
from ceiling.texts.registered import BOUNDS as BOUNDS
from ceiling.texts.retrieval import with_retrieval as with_retrieval
from ceiling.texts.tasks import MIXED as MIXED
from ceiling.texts.tasks import TASKS as TASKS
from ceiling.texts.tasks import Fact as Fact
from ceiling.texts.tasks import Instance as Instance
from ceiling.texts.tasks import instance as instance

__all__ = [
    "BOUNDS",
    "BUILT_INS",
    "MIXED",
    "TASKS",
    "Fact",
    "Instance",
    "Placed",
    "Text",
    "documents",
    "from_hub",
    "instance",
    "open_text",
    "path_in",
    "place",
    "short_name",
    "task_documents",
    "with_retrieval",
]
