"""Texts by name, documents cut from them in a model's own tokens, and tasks hidden in them."""

from ceiling.texts.answers import Question as Question
from ceiling.texts.answers import Scorer as Scorer
from ceiling.texts.answers import score as score
from ceiling.texts.cutting import documents as documents
from ceiling.texts.naming import from_hub as from_hub
from ceiling.texts.naming import path_in as path_in
from ceiling.texts.naming import short_name as short_name
from ceiling.texts.opening import BUILT_INS as BUILT_INS
from ceiling.texts.opening import Text as Text
from ceiling.texts.opening import open_text as open_text
from ceiling.texts.parts import AuditInstance as AuditInstance
from ceiling.texts.placing import Placed as Placed
from ceiling.texts.placing import place as place
from ceiling.texts.placing import task_documents as task_documents
from ceiling.texts.posing import Posed as Posed
from ceiling.texts.posing import PosedQuestion as PosedQuestion
from ceiling.texts.posing import pose as pose
from ceiling.texts.registered import BOUNDS as BOUNDS
from ceiling.texts.retrieval import with_retrieval as with_retrieval
from ceiling.texts.ruler import AXES as AXES
from ceiling.texts.ruler import RULER_GENERATOR as RULER_GENERATOR
from ceiling.texts.ruler import RULER_TASKS as RULER_TASKS
from ceiling.texts.ruler import SIZES as SIZES
from ceiling.texts.ruler import audit_instance as audit_instance
from ceiling.texts.ruler import parse_task as parse_task
from ceiling.texts.ruler import task_name as task_name
from ceiling.texts.tasks import MIXED as MIXED
from ceiling.texts.tasks import TASKS as TASKS
from ceiling.texts.tasks import Fact as Fact
from ceiling.texts.tasks import Instance as Instance
from ceiling.texts.tasks import instance as instance

__all__ = [
    "AXES",
    "BOUNDS",
    "BUILT_INS",
    "MIXED",
    "RULER_GENERATOR",
    "RULER_TASKS",
    "SIZES",
    "TASKS",
    "AuditInstance",
    "Fact",
    "Instance",
    "Placed",
    "Posed",
    "PosedQuestion",
    "Question",
    "Scorer",
    "Text",
    "audit_instance",
    "documents",
    "from_hub",
    "instance",
    "open_text",
    "parse_task",
    "path_in",
    "place",
    "pose",
    "score",
    "short_name",
    "task_documents",
    "task_name",
    "with_retrieval",
]
