"""Searches over kept sets, and the measurement of every column of an instance."""

from ceiling.search.batch import head_of as head_of
from ceiling.search.candidates import balance as balance
from ceiling.search.candidates import best_in_pool as best_in_pool
from ceiling.search.measurement import DEGENERATE as DEGENERATE
from ceiling.search.measurement import ENGINE as ENGINE
from ceiling.search.measurement import Task as Task
from ceiling.search.measurement import measure as measure

__all__ = ["DEGENERATE", "ENGINE", "Task", "balance", "best_in_pool", "head_of", "measure"]
