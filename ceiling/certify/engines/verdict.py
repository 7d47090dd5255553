"""What an engine says about a `Balance`."""

from typing import NamedTuple

from ceiling.certify.balance import Vector
from ceiling.problem import Status


class Verdict(NamedTuple):
    """How a search for a balanced choice ended.

    Attributes
    ----------
    status : Status
        ``yes``, ``no`` (proved) or ``unknown``.
    chosen : tuple of int or None
        How many of each vector, where the answer is yes.
    stopped_by : str
        ``none``; ``nodes``, the limit on work that a rerun meets at the same point; ``seconds``, the guard.
    """

    status: Status
    chosen: Vector | None = None
    stopped_by: str = "none"


NO = Verdict(Status.NO)
OUT_OF_TIME = Verdict(Status.UNKNOWN, None, "seconds")
