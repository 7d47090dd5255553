"""Whiskers: an estimate's interval as a line through its mark, along either axis."""

from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes


def numbers(frame: pl.DataFrame, column: str) -> np.ndarray:
    """A column as float64 with NaN, which matplotlib leaves blank, for null or no such column."""
    if column not in frame.columns:
        return np.full(frame.height, np.nan)
    return frame[column].cast(pl.Float64).fill_null(np.nan).to_numpy()


def whiskers(
    axes: Axes, at: np.ndarray, frame: pl.DataFrame, quantity: str, colour: Any, *, across: bool = False
) -> None:
    """Draw the intervals that `frame` holds of `quantity` at the places `at`; `across`: along x."""
    value, low, high = (numbers(frame, quantity + part) for part in ("", "_low", "_high"))
    known = np.isfinite(low) & np.isfinite(high) & np.isfinite(value)
    # an interval need not hold its own estimate
    reach = np.maximum((value[known] - low[known], high[known] - value[known]), 0)
    x, y = (value[known], at[known]) if across else (at[known], value[known])
    way: dict[str, Any] = {"xerr" if across else "yerr": reach}
    axes.errorbar(x, y, fmt="none", ecolor=colour, capsize=1.5, lw=0.8, zorder=1.5, **way)
