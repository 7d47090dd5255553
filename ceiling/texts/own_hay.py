"""Haystacks that tasks bring along, in a model's tokens: what is asked for in them, and where it is."""

from collections.abc import Iterator, Sequence
from random import Random

from ceiling.texts import lists, multihop, needles
from ceiling.texts.parts import AuditInstance, Encode, Hay

HAYS: dict[str, Hay] = {**needles.HAYS, **lists.HAYS, **multihop.HAYS}
"""Haystack -> what makes its parts."""


class OwnHay:
    """The haystack of an instance, encoded part by part as it is taken.

    Parameters
    ----------
    instance : AuditInstance
        Not of prose.
    encode : callable
        Text to token ids, without special tokens.
    """

    def __init__(self, instance: AuditInstance, encode: Encode) -> None:
        self.instance, self.encode = instance, encode
        self._taken: list[tuple[str, bool, int, int]] = []

    def parts(self) -> Iterator[Sequence[int]]:
        """Token ids of the parts; the same each time."""
        made = self.instance
        rng = Random(f"hay {made.task} {made.seed} {made.index}")
        self._taken.clear()
        at = 0
        for texts, wanted in HAYS[made.hay](rng, made):
            pieces = [list(self.encode(text)) for text in texts]
            at += sum(map(len, pieces))
            self._taken.append((texts[-1], wanted, at - len(pieces[-1]), at))
            yield [token for piece in pieces for token in piece]

    def asked(self, start: int, stop: int) -> tuple[tuple[int, int], ...]:
        """Spans of what is asked for in a context that holds nothing else from `start` to `stop`.

        Raises
        ------
        InputError
            When what is asked for does not come most often, since there is too little of it.
        """
        whole = [one for one in self._taken if start + one[3] <= stop]
        if self.instance.hay in lists.HAYS:
            lists.check_lead(self.instance, [text for text, _, _, _ in whole])
        return tuple((start + first, start + end) for _, wanted, first, end in whole if wanted)
