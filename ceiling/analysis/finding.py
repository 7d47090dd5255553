"""What a figure shows, said in one sentence beside its numbers."""

from typing import NamedTuple


class Finding(NamedTuple):
    """One figure's finding, computed from its numbers, so that other data may say the opposite."""

    sentence: str
    """One sentence, with the numbers in it."""

    n: str
    """What was counted, such as "52,140 instances of 12 documents"."""

    interval: str
    """The number the sentence rests on with its interval, "0.066 [0.061, 0.071]", or why it has none."""

    paper: str
    """The paper's number, or why there is none."""
