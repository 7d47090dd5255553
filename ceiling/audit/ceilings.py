"""Kept sets on the attention rows of question and answer, beside what as many keys of largest mass cost."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ceiling.audit.bounds import balanced, proved
from ceiling.audit.shared_pass import Request
from ceiling.certify import ENGINE as PROOFS
from ceiling.problem import InputError, Row
from ceiling.search import DEGENERATE

QUESTION, ANSWER = "question", "answer"

QUESTION_ROWS, ANSWER_ROWS = 2, 4
"""Rows judged: the last positions of the question, and the first whose next token is of the right answer."""

TOP, BALANCE, CERTIFY = "top", "balance", "certify"
"""What kept sets are judged against; each takes what the one before it takes, too."""

ENGINES = {
    TOP: "ceilings/1",
    BALANCE: "ceilings/1 balance/1",
    CERTIFY: f"ceilings/1 balance/1 {PROOFS}",
}
"""By mode; raised when a judgement may change."""


class Judge:
    """Judges every request's kept sets, layer by layer, on the rows of one question.

    A row sees, after eviction, the kept positions and all that were never up for eviction: those from the
    end of the compressed span up to its own. Its forced error is compared with that of the top-mass set of
    as many keys. The rows are those of the model that evicted nothing. What takes longer, balancing and
    proofs, depends on a row and a count alone, whatever press kept them; it is taken once for each, on the
    last row of the question and the first of the answer.

    Parameters
    ----------
    context, question, prefix, answer : int
        Their lengths, in tokens, in the order in which they were read.
    mode : {"top", "balance", "certify"}
        Beside top-mass, balancing; and lower bounds where few enough keys are kept.
    """

    def __init__(self, context: int, question: int, prefix: int, answer: int, mode: str = TOP) -> None:
        self.context, self.question, self.mode = context, question, mode
        end, told = context + question, context + question + prefix - 1
        asked = range(max(context, end - QUESTION_ROWS), end)
        answers = range(told, told + min(answer, ANSWER_ROWS))
        self.rows: dict[int, list[str]] = {}
        for kind, positions in ((QUESTION, asked), (ANSWER, answers)):
            for p in positions:
                self.rows.setdefault(p, []).append(kind)
        self.bounded = {*asked[-1:], *answers[:1]} if mode != TOP else set()
        self._found: list[tuple[Request, dict[str, Any]]] = []

    def on_layer(
        self,
        layer: int,
        weights: Tensor | None,
        keys: Tensor,
        values: Tensor,
        kept: Mapping[Request, Sequence[Tensor]],
    ) -> None:
        """Judge one layer; see `ceiling.audit.shared_pass.shared_pass`.

        Parameters
        ----------
        weights : Tensor, shape (heads, N, N)
        values : Tensor, shape (KV heads, N, d)
        kept : mapping of Request to sequence of Tensor
            Kept positions of each KV head.

        Raises
        ------
        InputError
            Where the backend gives no attention weights.
        """
        if weights is None:
            raise InputError("ceilings: attention rows are needed, which only backend eager gives")
        requests = [request for request in kept if request.press.role != "anchor"]
        group = len(weights) // len(values)
        measured: dict[str, list[Tensor]] = {QUESTION: [], ANSWER: []}
        for kv in range(len(values)):
            held, which = self._held(requests, [kept[request][kv] for request in requests], values.shape[1])
            held, which = held.to(values.device), which.to(values.device)
            dense = values[kv].double()
            for p, kinds in self.rows.items():
                rows = weights[kv * group : (kv + 1) * group, p, : p + 1].double()
                for row in rows:
                    masses = row / row.sum()
                    found = _judge(masses, dense[: p + 1], held[:, : p + 1], p)
                    found = torch.cat([found, self._bounds(masses, dense, found, p)], dim=1)[which]
                    for kind in kinds:
                        measured[kind].append(found)
        for kind, parts in measured.items():
            if parts:
                self._aggregate(layer, kind, requests, torch.stack(parts))

    def records(self) -> list[tuple[Request, dict[str, Any]]]:
        """Of every request, layer and kind of row, the columns of `audit_ceilings` that rows determine."""
        return self._found

    def _held(self, requests: Sequence[Request], kept: Sequence[Tensor], n: int) -> tuple[Tensor, Tensor]:
        """What is left of `n` positions, bool (sets, n), equal sets once; and each request's set."""
        left = torch.zeros(len(requests), n, dtype=torch.bool)
        for number, (request, own) in enumerate(zip(requests, kept, strict=True)):
            left[number, own.cpu()] = True
            left[number, request.arm.compressed(self.context, self.question) :] = True
        return torch.unique(left, dim=0, return_inverse=True)

    def _bounds(self, masses: Tensor, values: Tensor, found: Tensor, p: int) -> Tensor:
        """`_TAKEN` of every set at one row, NaN where not taken, shape (sets, 2)."""
        bounds = torch.full((len(found), len(_TAKEN)), torch.nan, dtype=found.dtype, device=found.device)
        fair = found[:, _TOP] > DEGENERATE
        if p in self.bounded and fair.any():
            counts = found[:, _MEASURED.index("count")].long().tolist()
            wanted = {count for count, taken in zip(counts, fair.tolist(), strict=True) if taken}
            row = Row(masses.cpu().numpy(), values[: len(masses)].cpu().numpy())
            upper = balanced(row, wanted)
            lower = proved(row, wanted) if self.mode == CERTIFY else {}
            both = [[upper.get(count, np.nan), lower.get(count, np.nan)] for count in counts]
            bounds = torch.tensor(both, dtype=found.dtype, device=found.device)
            bounds[:, 0] = torch.minimum(bounds[:, 0], found[:, _TOP])  # equal sets, summed in another order
        return bounds

    def _aggregate(self, layer: int, kind: str, requests: Sequence[Request], found: Tensor) -> None:
        """`found` is of shape (rows, requests, `_COLUMNS`)."""
        for number, request in enumerate(requests):
            own = found[:, number]
            own = own[own[:, _TOP] > DEGENERATE]
            told: dict[str, Any] = {"layer": layer, "rows_of": kind, "rows": len(own)}
            means = own[:, : len(_MEASURED)].contiguous().mean(dim=0).tolist()
            told |= {n: mean if len(own) else None for n, mean in zip(_MEASURED, means, strict=True)}
            upper, lower = own[~own[:, _BALANCE].isnan()][:, [_BALANCE, _LOWER]].T
            told["e_balance"] = float(upper.mean()) if len(upper) else None
            some = not lower.isnan().all()  # a row of too many keys then counts as 0, which bounds it too
            told["e_lower"] = float(lower.nan_to_num(0.0).mean()) if some else None
            for name, of in (("error_over_top", "error"), ("balance_over_top", "e_balance")):
                ratio = own[:, _COLUMNS.index(of)] / own[:, _TOP]
                known = ratio[~ratio.isnan()]
                told[name] = float(known.quantile(0.5)) if len(known) else None
            self._found.append((request, told | {"engine": ENGINES[self.mode]}))


_MEASURED = ("count", "kept_mass", "top_mass", "error", "e_top", "bound")
_TAKEN = ("e_balance", "e_lower")
_COLUMNS = _MEASURED + _TAKEN
_TOP, _BALANCE, _LOWER = map(_COLUMNS.index, ("e_top", "e_balance", "e_lower"))


def _judge(masses: Tensor, values: Tensor, held: Tensor, own: int) -> Tensor:
    """`_MEASURED` of every set at one row, errors over sigma, shape (sets, 6).

    Parameters
    ----------
    masses : Tensor of float64, shape (n,)
        They sum to 1.
    values : Tensor of float64, shape (n, d)
    held : Tensor of bool, shape (sets, n)
    own : int
        The row's own position, which it always sees.
    """
    residuals = values - masses @ values
    squares = residuals.square().sum(dim=1)
    sigma = (masses @ squares).sqrt()
    real = masses > 0
    sets = held & real  # keys of zero mass, those outside a window, are no keys
    sets[:, own] = real[own]
    chosen = sets * masses
    mass, counts = chosen.sum(dim=1), sets.sum(dim=1)
    error = (chosen @ residuals).norm(dim=1) / mass
    order = masses.argsort(descending=True, stable=True)
    cumulative = masses[order].cumsum(0)
    top = (masses[order, None] * residuals[order]).cumsum(0).norm(dim=1) / cumulative
    best = (counts - 1).clamp(min=0)
    everything = counts == real.sum()
    top_mass, e_top = cumulative[best], top[best]
    radius = torch.where(real, squares, 0.0).max().sqrt()  # of rows that are not finite too
    bound = 2 * radius * (1 - top_mass).clamp(min=0)
    scale = torch.where(sigma > 0, 1 / sigma, 0.0)
    errors = [torch.where(everything, 0.0, each * scale) for each in (error, e_top, bound)]
    return torch.stack([counts.double(), mass, top_mass, *errors], dim=1)
