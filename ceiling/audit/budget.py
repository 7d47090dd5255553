"""How much may be kept: what is scored and what is evicted in each arm, and the three kinds of budget."""

from dataclasses import dataclass
from enum import StrEnum

from ceiling.problem import InputError, check_budget


class Arm(StrEnum):
    """What a score sees, and what eviction may take."""

    AGNOSTIC = "agnostic"  # the context is scored alone, before there is a question
    AWARE_KVPRESS = "aware-kvpress"  # context and question are scored and evicted together
    AWARE_SCORES = "aware-scores"  # context and question are scored, only the context is evicted

    def scored(self, context: int, question: int) -> int:
        """How many of the tokens, from the first, a score sees."""
        return context if self is Arm.AGNOSTIC else context + question

    def compressed(self, context: int, question: int) -> int:
        """How many of the tokens, from the first, are chosen among."""
        return context + question if self is Arm.AWARE_KVPRESS else context


@dataclass(frozen=True, slots=True)
class Budget:
    """How many keys each KV head of each layer keeps.

    Attributes
    ----------
    kind : str
        ``ratio``: share evicted of what is compressed, as kvpress rounds it; ``slots``: kept of it;
        ``held``: share of the keys of context and question held when the answer's beginning is read, in
        every arm alike.
    value : float or int
        0 <= ratio < 1, slots >= 1, 0 < held <= 1.

    Raises
    ------
    InputError
    """

    kind: str
    value: float

    def __post_init__(self) -> None:
        if self.kind == "slots":
            object.__setattr__(self, "value", check_budget(self.value, field="budget: slots"))  # type: ignore[arg-type]
        elif self.kind == "ratio" and not 0 <= self.value < 1:
            raise InputError(f"budget: ratio={self.value:g}; the share evicted is 0 or more and below 1")
        elif self.kind == "held" and not 0 < self.value <= 1:
            raise InputError(f"budget: held={self.value:g}; the share held is above 0 and at most 1")
        elif self.kind not in ("ratio", "held"):
            raise InputError(f"budget: {self.kind!r}; one of ratio, slots, held")

    @classmethod
    def parse(cls, text: str) -> "Budget":
        """The budget that ``ratio=0.5``, ``slots=256`` or ``held=0.25`` says; a bare number is a ratio."""
        kind, equals, value = text.partition("=")
        if not equals:
            kind, value = "ratio", kind
        try:
            return cls(kind, int(value) if kind == "slots" else float(value))
        except ValueError as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"budget: {text!r}; e.g. ratio=0.5, slots=256 or held=0.25") from None

    def __str__(self) -> str:
        return f"{self.kind}={self.value!r}"

    @property
    def ratio(self) -> float | None:
        """The share evicted, where that is what was asked for."""
        return self.value if self.kind == "ratio" else None

    def kept(self, arm: Arm, context: int, question: int) -> int:
        """Keys that a KV head keeps of what `arm` compresses.

        Parameters
        ----------
        arm : Arm
        context, question : int
            Their lengths, in tokens.

        Raises
        ------
        InputError
            Where that is less than one key or more than there are.
        """
        length = arm.compressed(context, question)
        if self.kind == "ratio":
            return max(1, int(length * (1 - self.value)))  # as kvpress rounds, floating point included
        if self.kind == "slots":
            kept = int(self.value)
        else:
            kept = round(self.value * (context + question)) - (context + question - length)
        if not 1 <= kept <= length:
            raise InputError(
                f"budget: {self} keeps {kept} of {length} keys in arm {arm} (context {context}, "
                f"question {question}); it must keep at least 1 and at most all"
            )
        return kept


def ratio_for(kept: int, length: int) -> float:
    """A ratio at which kvpress keeps exactly `kept` of `length` keys.

    Raises
    ------
    InputError
        Unless 1 <= `kept` <= `length`.
    """
    if not 1 <= kept <= length:
        raise InputError(f"kept: {kept} of {length} keys; at least 1 and at most all can be kept")
    # Half a key away from the next count on either side, so that no rounding changes it.
    return 0.0 if kept == length else 1 - (kept + 0.5) / length
