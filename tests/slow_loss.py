"""Restricted attention as a cache would run it: token by token, row by row, in plain numpy float64.

Imports nothing of the package; what a row keeps is decided here, by its own code.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from transformers import AttentionInterface, AttentionMaskInterface, DynamicCache
from transformers.masking_utils import sdpa_mask

Keep = Callable[[int, int, np.ndarray, np.ndarray], list[int]]
"""``keep(layer, head, masses, values)``: the positions that a row keeps, of those it sees."""


def top_mass(s: int) -> Keep:
    """The `s` largest masses."""
    return lambda layer, head, masses, values: sorted(np.argsort(-masses, kind="stable")[:s].tolist())


def balanced(s: int, extra: int) -> Keep:
    """Top-mass; then the best swap with `extra` candidates of largest ``p|v - mu|``, while any helps."""

    def keep(layer: int, head: int, masses: np.ndarray, values: np.ndarray) -> list[int]:
        mu = masses @ values
        kept = set(top_mass(s)(layer, head, masses, values))
        single = masses * np.linalg.norm(values - mu, axis=1)
        rest = [j for j in np.argsort(-single, kind="stable").tolist() if j not in kept][:extra]
        pool = kept | set(rest)

        def error(of: set[int]) -> float:
            some = sorted(of)
            return float(np.linalg.norm(mu - masses[some] @ values[some] / masses[some].sum()))

        while True:
            swaps = [(kept - {i}) | {j} for i in kept for j in pool - kept]
            best = min(swaps, key=error, default=kept)
            if not error(best) < error(kept) * (1 - 1e-12):
                return sorted(kept)
            kept = best

    return keep


def logits(model: Any, tokens: np.ndarray, context: int, keep: Keep) -> np.ndarray:
    """What the model predicts of ``tokens[context:]``, float [N - context, vocabulary].

    Tokens before the context's last are read as the model reads them; from there on one by one.
    """
    cache = DynamicCache(config=model.config)
    ids = torch.tensor(tokens[None])
    found = []
    AttentionInterface.register("tests_slow", _attention(keep))
    AttentionMaskInterface.register("tests_slow", sdpa_mask)
    before = model.config._attn_implementation
    try:
        with torch.inference_mode():
            model(input_ids=ids[:, : context - 1], past_key_values=cache)
            model.set_attn_implementation("tests_slow")
            for t in range(context - 1, len(tokens) - 1):
                found.append(model(input_ids=ids[:, t : t + 1], past_key_values=cache).logits[0, -1].numpy())
    finally:
        model.set_attn_implementation(before)
        AttentionInterface._global_mapping.pop("tests_slow")
        AttentionMaskInterface._global_mapping.pop("tests_slow")
    return np.stack(found)


def _attention(keep: Keep) -> Callable[..., Any]:
    def attention(
        module: Any, query: Any, key: Any, value: Any, mask: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, None]:
        heads, group = query.shape[1], query.shape[1] // key.shape[1]
        output = np.empty((heads, query.shape[-1]))
        seen = np.ones(key.shape[2], dtype=bool) if mask is None else mask[0, 0, 0, : key.shape[2]].numpy()
        for head in range(heads):
            k, v = (t[0, head // group].double().numpy()[seen] for t in (key, value))
            score = k @ query[0, head, 0].double().numpy() * kwargs["scaling"]
            if (cap := kwargs.get("softcap")) is not None:
                score = cap * np.tanh(score / cap)
            masses = np.exp(score - score.max())
            masses /= masses.sum()
            kept = keep(module.layer_idx, head, masses, v)
            output[head] = masses[kept] @ v[kept] / masses[kept].sum()
        return torch.tensor(output, dtype=query.dtype)[None, None], None

    return attention
