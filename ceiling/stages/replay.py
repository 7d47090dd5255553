"""Replay of stored proofs: is what table ``certificates`` says true of the dump it names?"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ceiling.certify import Certificate
from ceiling.dump import Dump, open_dump
from ceiling.problem import InputError, Status, check_budget
from ceiling.stages.certify import measured
from ceiling.store import open_store
from ceiling.store.schema import IDENTITY

SAMPLE = 40
"""Proofs replayed unless more are asked for: exact arithmetic takes far longer than the search did."""

SAME = 1e-9
"""How far a stored statistic may lie from the one computed again, relative, and for e_top in units of sigma:
both are float64 sums of at most some thousand terms, 1e-12 apart on another machine."""


UNCHECKED = ("nodes", "seconds", "stopped_by")
"""Columns that tell how the search went, which a proof cannot show."""


class Replayed(NamedTuple):
    """One certificate, and what is wrong with it; None where the proof was accepted."""

    where: str
    wrong: str | None


class Chosen(NamedTuple):
    """What is to be replayed.

    Attributes
    ----------
    dump : Dump
    certificates : polars.LazyFrame
        All of the dump.
    wanted : polars.DataFrame
        Identities of the chosen ones.
    gap : float
        Up to which an interval is called optimal.
    proved, unproved : int
        Certificates of the dump that carry a proof, and bounds above 0 that do not: proofs too large to
        store.
    """

    dump: Dump
    certificates: pl.LazyFrame
    wanted: pl.DataFrame
    gap: float
    proved: int
    unproved: int


def choose(
    dump: str | Path,
    store: str | Path,
    *,
    sample: int | None = SAMPLE,
    seed: int = 0,
    config: str | None = None,
) -> Chosen:
    """Choose the proofs to replay.

    Parameters
    ----------
    dump, store : str or Path
    sample : int or None
        How many, at most, drawn with `seed`; None for all.
    seed : int
    config : str, optional
        Configuration, where the store holds several.

    Raises
    ------
    InputError
        When the store holds no proof of the dump.
    """
    opened = open_dump(dump)
    certificates = open_store(store, config).certificates.filter(dump=opened.id)
    identity = list(IDENTITY["certificates"])
    frame = certificates.select("config", *identity, "status", "es_lower", "proof_bytes").collect()
    claimed = pl.col("proof_bytes").is_not_null() | (pl.col("status") == Status.OPTIMAL)
    wanted = frame.filter(claimed).sort(identity)
    if wanted.is_empty():
        raise InputError(f"store: {store} holds no proof of dump {opened.path} ({opened.id})")
    unproved = frame.filter(~claimed & (pl.col("es_lower") > 0)).height
    proved = wanted.height
    if sample is not None:
        wanted = wanted.sample(min(check_budget(sample, field="sample"), proved), seed=seed).sort(identity)
    gap = _gap(Path(store) / "certificates" / f"dump={opened.id}" / f"config={wanted['config'][0]}")
    return Chosen(opened, certificates, wanted.select(identity), gap, proved, unproved)


def replay(chosen: Chosen) -> Iterator[Replayed]:
    """Replay what was chosen, one by one, with arithmetic that shares nothing with the search."""
    identity = list(IDENTITY["certificates"])
    for (document, layer), wanted in chosen.wanted.group_by("document", "layer", maintain_order=True):
        unit = chosen.certificates.filter(document=document, layer=layer).collect()
        records = unit.join(wanted, on=identity, how="semi").sort(identity)
        for record in records.iter_rows(named=True):
            where = ", ".join(f"{name.replace('_', ' ')} {record[name]:g}" for name in identity)
            yield Replayed(where, _wrong(chosen.dump, record, chosen.gap))


def _gap(folder: Path) -> float:
    """The gap of a configuration, of its record."""
    try:
        return float(json.loads((folder / "config.json").read_text(encoding="utf-8"))["gap"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"store: cannot read the record {folder / 'config.json'} ({error})") from None


def _wrong(dump: Dump, record: dict[str, Any], gap: float) -> str | None:
    """What is wrong with one certificate."""
    from ceiling.certify.check import check_proof

    try:
        document = dump.document(record["document"])
        positions = document.query_positions.tolist()
        if record["position"] not in positions:
            return f"the dump has no row at position {record['position']}"
        r, n = positions.index(record["position"]), record["position"] + 1
        row = document.row(record["layer"], record["head"], r)
    except InputError as error:
        return str(error)
    if record["proof"] is None:
        return "optimal, without a proof"
    kept = np.array(record["kept"], dtype=np.int64)
    if len(kept) == 0 or kept.min() < 0 or kept.max() >= n or not (np.diff(kept) > 0).all():
        return "kept: not ascending positions of the row"
    s, floor = record["s"], record["mass_floor"] or None
    lower, upper = record["es_lower"], record["es_upper"]
    masses = document.masses(record["layer"])[record["head"], r, :n].astype(np.float64)  # as stored
    if wrong := check_proof(masses, row.values, s, lower, upper, kept, floor, record["proof"]):
        return wrong
    if record["status"] == Status.OPTIMAL and not upper <= lower * (1 + gap):
        return f"called optimal, with bounds {lower!r} .. {upper!r}"
    bounds = Certificate(lower, upper, kept, Status(record["status"]), 0, 0.0, "", floor, record["proof"])
    again = measured(row, s, bounds)
    for name, value in again.items():
        scale = again["sigma"] if name == "e_top" else 1.0
        if name not in UNCHECKED and not _same(record[name], value, scale):
            return f"{name}: {record[name]!r}, its bounds and its row give {value!r}"
    return None


def _same(stored: Any, value: Any, scale: float) -> bool:
    if isinstance(value, float) and isinstance(stored, float):
        return math.isclose(stored, value, rel_tol=SAME, abs_tol=SAME * scale)
    return bool(stored == value)
