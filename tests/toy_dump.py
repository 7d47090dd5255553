"""A small dump of made-up attention, written through the real writer."""

from pathlib import Path

import numpy as np

from ceiling.dump import DumpWriter, Identity, tokens_sha256

LAYERS, HEADS, KV_HEADS, TOKENS, DIM, ROWS = 2, 4, 2, 48, 8, 3


BAD_MASSES = {"nan": np.nan, "negative": -0.5, "sum": 7.0}


def write_toy_dump(folder: Path, *, documents: int = 2, seed: int = 0, spoil: str | None = None) -> Path:
    """Write a dump to `folder`; `spoil` plants one bad number in document 0, layer 1.

    Masses fall off from a random permutation, so that rows differ in how flat they are; layer 1 is
    windowed to 16 keys.
    """
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, 1000, (documents, TOKENS))
    positions = tuple(
        tuple(sorted(rng.choice(np.arange(TOKENS // 4, TOKENS), ROWS, replace=False).tolist()))
        for _ in range(documents)
    )
    identity = Identity("0" * 64, "0" * 64, tokens_sha256(tokens), positions, "float32", "sdpa")
    layout: dict[str, tuple[str, tuple[int, ...]]] = {
        "query_positions": ("I64", (ROWS,)),
        "tokens": ("I64", (TOKENS,)),
    }
    for layer in range(LAYERS):
        layout[f"masses.{layer}"] = ("F32", (HEADS, ROWS, TOKENS))
        layout[f"values.{layer}"] = layout[f"keys.{layer}"] = ("F32", (KV_HEADS, TOKENS, DIM))
    windows = [None, 16]
    with DumpWriter(folder, identity, layers=tuple(range(LAYERS)), queries=False, device="cpu") as writer:
        for document in range(documents):
            with writer.document(document, layout) as file:
                file.write("query_positions", np.array(positions[document], dtype=np.int64))
                file.write("tokens", tokens[document].astype(np.int64))
                for layer in range(LAYERS):
                    masses = _masses(rng, positions[document], windows[layer])
                    bad = spoil if (document, layer) == (0, 1) else None
                    if bad in BAD_MASSES:
                        masses[1, 2, positions[document][2]] = BAD_MASSES[bad]
                    if bad == "zero":
                        masses[1, 2] = 0
                    file.write(f"masses.{layer}", masses)
                    for name in ("values", "keys"):
                        floats = rng.standard_normal((KV_HEADS, TOKENS, DIM)).astype(np.float32)
                        if bad == name:
                            floats[0, 3, 2] = np.inf
                        file.write(f"{name}.{layer}", floats)
        writer.commit(
            {
                "model": {"id": "toy", "weights_sha256": "0" * 64, "config_sha256": "0" * 64},
                "architecture": {
                    "layers": LAYERS,
                    "heads": HEADS,
                    "kv_heads": KV_HEADS,
                    "head_dim": DIM,
                    "windows": windows,
                },
                "tokens": {
                    "documents": documents,
                    "lengths": [TOKENS] * documents,
                    "sha256": tokens_sha256(tokens),
                },
                "text": {"source": "toy", "sha256": "0" * 64},
            },
            documents,
        )
    return folder


def _masses(rng: np.random.Generator, positions: tuple[int, ...], window: int | None) -> np.ndarray:
    """Softmax rows of mixed temperature, float32 [HEADS, ROWS, TOKENS], 0 outside the visible keys."""
    masses = np.zeros((HEADS, ROWS, TOKENS), dtype=np.float32)
    for head in range(HEADS):
        for row, position in enumerate(positions):
            first = 0 if window is None else max(0, position + 1 - window)
            logits = rng.standard_normal(position + 1 - first) * (1 + head)
            weights = np.exp(logits - logits.max())
            masses[head, row, first : position + 1] = weights / weights.sum()
    return masses
