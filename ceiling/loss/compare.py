"""Next-token predictions on a continuation: the model's own, and another's beside them."""

import contextlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ceiling.capture import BLOCKED, attention_of, backend
from ceiling.loss.operator import Choose, Restricted, restricted

BLOCK = 32
"""Predictions whose probabilities are formed at once: 67 MB in float64 over 262 144 words."""


@dataclass(frozen=True, eq=False, slots=True)
class Dense:
    """What the unmodified model predicts of a continuation.

    Attributes
    ----------
    tokens : ndarray of int64, shape (N,)
        Context and continuation.
    context : int
        How many of them are read before the first prediction.
    logits : Tensor of float32, shape (N - context, vocabulary)
    loss : float
        Mean cross-entropy of a next token, nats.
    """

    tokens: np.ndarray
    context: int
    logits: Tensor
    loss: float

    @property
    def positions(self) -> range:
        """Of the rows that predict: the context's last, and all of the continuation but its last."""
        return range(self.context - 1, len(self.tokens) - 1)


class Compared(NamedTuple):
    """A restricted model's predictions beside the unmodified model's, means a token.

    Attributes
    ----------
    loss : float
        Cross-entropy, nats.
    kl : float
        Kullback-Leibler divergence of the unmodified model's distribution from the restricted one, nats.
    agreement : float
        Share of tokens of which both hold the same word most likely.
    deviation : float
        Largest difference of two logits.
    kept_mass : float
        Mean over layers, heads and rows.
    """

    loss: float
    kl: float
    agreement: float
    deviation: float
    kept_mass: float


@torch.inference_mode()
def dense(model: Any, tokens: np.ndarray, context: int) -> Dense:
    """The model's own predictions of ``tokens[context:]``.

    Parameters
    ----------
    model : transformers.PreTrainedModel
    tokens : ndarray of int64, shape (N,)
    context : int
        At least 1, less than N.
    """
    with contextlib.ExitStack() as stack:
        if backend(model) == BLOCKED:  # sdpa knows no soft cap
            stack.enter_context(attention_of(model.get_decoder(), "eager"))
        logits = _logits(model, tokens, context)
    told = _told(logits, tokens[context:])
    return Dense(tokens, context, logits, float(told.mean()))


@torch.inference_mode()
def compare(model: Any, dense: Dense, choose: Choose) -> Compared:
    """Predict a continuation with every row that predicts restricted; see `ceiling.loss.operator.restricted`.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        The one that made `dense`.
    dense : Dense
    choose : callable
        `ceiling.loss.operator.everything` gives the unmodified model back, up to rounding.
    """
    with restricted(model, dense.positions, choose) as kept:
        logits = _logits(model, dense.tokens, dense.context)
    return _compared(dense, logits, kept)


def _logits(model: Any, tokens: np.ndarray, context: int) -> Tensor:
    ids = torch.tensor(tokens[None, :-1]).to(model.get_input_embeddings().weight.device)
    found = model(input_ids=ids, use_cache=False, logits_to_keep=len(tokens) - context)
    logits: Tensor = found.logits[0].float()
    return logits


def _told(logits: Tensor, targets: np.ndarray) -> Tensor:
    """Cross-entropy of each target, float64 (tokens,), on the CPU."""
    wanted = torch.tensor(targets).to(logits.device)
    parts = [
        torch.nn.functional.cross_entropy(block.double(), own, reduction="none")
        for block, own in zip(logits.split(BLOCK), wanted.split(BLOCK), strict=True)
    ]
    return torch.cat(parts).cpu()


def _compared(dense: Dense, logits: Tensor, kept: Restricted) -> Compared:
    divergence, same, deviation = 0.0, 0, torch.zeros((), device=logits.device)
    for own, other in zip(dense.logits.split(BLOCK), logits.split(BLOCK), strict=True):
        p, q = (torch.log_softmax(each.double(), dim=-1) for each in (own, other))
        divergence += float((p.exp() * (p - q)).sum())
        same += int((own.argmax(-1) == other.argmax(-1)).sum())
        deviation = torch.maximum(deviation, (own - other).abs().max())  # which keeps what is not a number
    n = len(logits)
    return Compared(
        loss=float(_told(logits, dense.tokens[dense.context :]).mean()),
        kl=divergence / n,
        agreement=same / n,
        deviation=float(deviation),
        kept_mass=sum(kept.kept_mass.values()) / len(kept.kept_mass),
    )
