"""Greedy answers from several held caches in one batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from ceiling.audit.held import HeldCache
from ceiling.audit.ragged import RaggedBatch, attending


@dataclass(frozen=True, slots=True)
class Answered:
    """A greedy answer.

    Attributes
    ----------
    tokens : tuple of int
        Without the stop token.
    ended : bool
        Whether a stop token ended it, not its room.
    finite : bool
        Whether all logits were; a NaN or infinite one ends the answer.
    """

    tokens: tuple[int, ...]
    ended: bool
    finite: bool


@torch.inference_mode()
def decode(
    model: Any,
    caches: Sequence[HeldCache],
    tokens: Sequence[int],
    room: int,
    stop: frozenset[int],
    *,
    backend: str,
) -> list[Answered]:
    """Read `tokens` from every cache, then continue greedily.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        A causal language model in evaluation mode; left as found.
    caches : sequence of HeldCache
        Of equal `seen`: the position of the first of `tokens`.
    tokens : sequence of int
        At least one.
    room : int
        Most tokens of an answer.
    stop : frozenset of int
        Tokens that end an answer and are not part of it.
    backend : str
        ``eager`` or ``sdpa``.

    Returns
    -------
    list of Answered
    """
    if not caches:
        return []
    batch = RaggedBatch(caches, backend)
    device = model.get_input_embeddings().weight.device
    written: list[list[int]] = [[] for _ in caches]
    ended, finite = [False] * len(caches), [True] * len(caches)
    rows = list(range(len(caches)))  # those still in the batch
    live = set(rows)
    recent = DynamicCache()
    ids = torch.tensor(tokens, device=device).expand(len(caches), -1)
    read = 0
    with attending(model, batch):
        while True:
            logits = _step(model, ids, recent, batch.seen + read, read)
            read += ids.shape[1]
            chosen = logits.argmax(dim=-1).tolist()
            sound = torch.isfinite(logits).all(dim=-1).tolist()
            for row, token, good in zip(rows, chosen, sound, strict=True):
                if row not in live:
                    continue
                if not good:
                    finite[row] = False
                elif token in stop:
                    ended[row] = True
                else:
                    written[row].append(token)
                if not good or token in stop or len(written[row]) == room:
                    live.discard(row)
            if not live:
                break
            ids = torch.tensor(chosen, device=device)[:, None]
            if 2 * len(live) <= len(rows):
                keep = torch.tensor([row in live for row in rows], device=device)
                batch.select(keep)
                recent.batch_select_indices(keep.nonzero()[:, 0])
                ids, rows = ids[keep], [row for row in rows if row in live]
    return [Answered(tuple(w), e, f) for w, e, f in zip(written, ended, finite, strict=True)]


def _step(model: Any, ids: Tensor, recent: DynamicCache, position: int, read: int) -> Tensor:
    """Logits (B, vocabulary) after `ids`, whose first stands at `position`."""
    steps = torch.arange(ids.shape[1], device=ids.device)
    output = model(
        input_ids=ids,
        position_ids=(position + steps)[None].expand(len(ids), -1),
        cache_position=read + steps,
        past_key_values=recent,
        use_cache=True,
        logits_to_keep=1,
    )
    return output.logits[:, -1].float()


def stop_ids(tokenizer: Any, model: Any) -> frozenset[int]:
    """Tokens that end an answer: the model's end tokens, and all whose text has a newline."""
    ends = model.generation_config.eos_token_id
    ends = [ends] if isinstance(ends, int) else list(ends or [])
    if tokenizer.eos_token_id is not None:
        ends.append(tokenizer.eos_token_id)
    texts = tokenizer.batch_decode([[token] for token in range(len(tokenizer))])
    return frozenset(ends) | {token for token, text in enumerate(texts) if "\n" in text}
