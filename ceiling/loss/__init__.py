"""Attention over kept sets inside the model's own forward, and what it costs on the text that follows."""

from ceiling.loss.cells import Cells as Cells
from ceiling.loss.compare import Compared as Compared
from ceiling.loss.compare import Dense as Dense
from ceiling.loss.compare import compare as compare
from ceiling.loss.compare import dense as dense
from ceiling.loss.operator import Attended as Attended
from ceiling.loss.operator import Restricted as Restricted
from ceiling.loss.operator import everything as everything
from ceiling.loss.operator import restricted as restricted

__all__ = [
    "Attended",
    "Cells",
    "Compared",
    "Dense",
    "Restricted",
    "compare",
    "dense",
    "everything",
    "restricted",
]
