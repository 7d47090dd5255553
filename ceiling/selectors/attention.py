"""Attention rows recomputed from queries and keys."""

import numpy as np


def weights(
    queries: np.ndarray,
    keys: np.ndarray,
    first: int,
    last: int,
    *,
    scaling: float,
    window: int | None,
    soft_cap: float | None,
) -> tuple[int, np.ndarray, np.ndarray]:
    """Unnormalised attention of the queries ``first .. last - 1``, causal, windowed and soft-capped.

    Parameters
    ----------
    queries : ndarray of float32, shape (g, N, d)
    keys : ndarray of float32, shape (N, d)
    first, last : int
    scaling : float
        Factor on ``q·k``.
    window : int or None
        Keys a query sees at most, its own included.
    soft_cap : float or None
        ``c`` where logits are ``c tanh(q·k·scaling / c)``.

    Returns
    -------
    start : int
        First key that any of the queries sees.
    weights : ndarray of float32, shape (g, last - first, last - start)
        ``exp(logit - largest logit)``; 0 where a key is not visible.
    totals : ndarray of float32, shape (g, last - first)
        Their sums.
    """
    start = 0 if window is None else max(0, first + 1 - window)
    logits = np.multiply(queries[:, first:last], np.float32(scaling)) @ keys[start:last].T
    if soft_cap is not None:
        logits /= np.float32(soft_cap)
        np.tanh(logits, out=logits)
        logits *= np.float32(soft_cap)
    query = np.arange(first, last)[:, None]
    logits[:, :, first - start :] += _barred(np.arange(first, last) > query)
    if (
        window is not None and start <= last - 1 - window
    ):  # keys that the first queries see and the last do not
        logits[:, :, : last - window - start] += _barred(np.arange(start, last - window) <= query - window)
    logits -= logits.max(axis=-1, keepdims=True)
    np.exp(logits, out=logits)
    return start, logits, logits.sum(axis=-1)


def _barred(where: np.ndarray) -> np.ndarray:
    """What to add to logits: minus infinity where a key is not visible."""
    return np.where(where, np.float32(-np.inf), np.float32(0))
