"""Held-out loss: a dump's documents continued with restricted attention, one shard a document."""

import platform
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from ceiling import models
from ceiling.capture import backend, check_model, forward_seconds
from ceiling.dump import Dump
from ceiling.loss import Cells, Dense, compare, dense, everything
from ceiling.objective import default_extra
from ceiling.problem import InputError, check_budgets
from ceiling.search import ENGINE as SEARCH_ENGINE
from ceiling.selectors import resolve
from ceiling.selectors.allocation import FLAT
from ceiling.stages.panel import ENGINE as RULES_ENGINE
from ceiling.stages.panel import Choice
from ceiling.stages.scoring import TOP_MASS
from ceiling.stages.spread import MAP_BUDGET, median_dropped
from ceiling.stages.units import Target, open_source
from ceiling.store import SCHEMA_VERSION, TABLES, config_id

TABLE = "losses"

BUDGETS = (8,)
"""Keys kept: the budget that the map of flat cells is made at."""

SELECTORS = (TOP_MASS, "snapkv", "h2o", "quest", "streaming-llm")
"""Top-mass and the deployed rules; TOVA, per query, is top-mass."""

TOKENS, DRAWS = 1024, 5

LIMIT = {"float32": 1e-4, "bfloat16": 2.0, "float16": 0.5}
"""Largest difference (logits) of the unrestricted operator from the unmodified model, by dtype. Rounding
alone makes up to 6e-5, 0.8 and 0.1 on SmolLM2-135M, 8e-5 in float32 on Gemma-3-270M, with logits of 40: the
coarse types round every layer's output, where sums in another order differ by their last place. Rows that
keep 8 keys make 10 to 29 there."""

ENGINE = "loss/1"
"""Raised when the arithmetic, the arms or the choice of cells changes."""

SECONDS_PER_SET, BYTES_PER_RECORD = 5e-5, 300
"""One core, and on disk, for the estimate of ``--dry-run`` only."""


class Unit(NamedTuple):
    """What one shard holds."""

    document: int


class Arm(NamedTuple):
    """One way to choose what every cell keeps: a rule, and the cells that balancing takes from it."""

    s: int
    rule: str
    balanced: str
    draw: int = 0


class Done(NamedTuple):
    """A unit that was committed, its arms, and the seconds it took.

    `kept` where its shard was there already, from another run that is at it too.
    """

    unit: Unit
    arms: int
    seconds: float
    kept: bool = False


@dataclass(frozen=True)
class Plan:
    """What is to be done, and what is done already; all that a worker needs.

    Attributes
    ----------
    dump, store : Path
    folder : ModelFolder
    choices : tuple of Choice
        The rules.
    budgets : tuple of int
    draws, seed : int
        Random choices of cells.
    tokens, context : int
        Of a document; how many of them are read before the first prediction.
    device, dtype, backend : str
    units, todo : tuple of Unit
        The documents, and those whose shards do not exist yet.
    id : str
        Of the dump.
    seconds : float
        Time of one core for what is left, about.
    """

    dump: Path
    store: Path
    folder: models.ModelFolder
    choices: tuple[Choice, ...]
    budgets: tuple[int, ...]
    draws: int
    seed: int
    tokens: int
    context: int
    device: str
    dtype: str
    backend: str
    units: tuple[Unit, ...]
    todo: tuple[Unit, ...]
    id: str
    seconds: float = 0.0

    @property
    def configuration(self) -> dict[str, Any]:
        """All that determines the content of a shard beside the dump."""
        return {
            "schema": SCHEMA_VERSION,
            "engine": ENGINE,
            "search": SEARCH_ENGINE,
            "rules": RULES_ENGINE,
            "candidates": {str(s): default_extra(s) for s in self.budgets},
            "budgets": list(self.budgets),
            "selectors": [
                {"name": each.name, "parameters": dict(each.parameters), "digest": each.digest}
                for each in self.choices
            ],
            "map": {"budget": MAP_BUDGET, "flat": FLAT, "of": "the other documents"},
            "draws": self.draws,
            "seed": self.seed,
            "tokens": self.tokens,
            "context": self.context,
            "backend": self.backend,
            "dtype": self.dtype,
        }

    @property
    def config(self) -> str:
        """Id of the configuration, as in the store."""
        return config_id(self.configuration)

    @property
    def target(self) -> Target:
        """Where its shards come from and go to."""
        return Target(self.dump, self.store, self.id, TABLE, self.config)

    @property
    def arms(self) -> tuple[Arm, ...]:
        """What is compared on every document."""
        found = []
        for s in self.budgets:
            for choice in self.choices:
                if s < resolve(choice.name).least:
                    continue
                own = ("none", "all", "flat") if choice.name == TOP_MASS else ("none", "flat")
                found += [Arm(s, choice.name, balanced) for balanced in own]
                if choice.name == TOP_MASS:
                    found += [Arm(s, choice.name, "random", draw) for draw in range(self.draws)]
        return tuple(found)

    @property
    def bytes(self) -> int:
        """Disk space of what is left, about."""
        return len(self.todo) * len(self.arms) * BYTES_PER_RECORD


def plan(
    dump: str | Path,
    store: str | Path,
    selectors: Sequence[str] | None = None,
    *,
    model: str | None = None,
    budgets: Sequence[int] = BUDGETS,
    documents: int | None = None,
    tokens: int | None = None,
    context: int | None = None,
    draws: int = DRAWS,
    seed: int = 0,
    device: str = "auto",
    dtype: str | None = None,
    verify: bool = False,
) -> Plan:
    """Check everything and find the missing shards; loads no weights.

    Parameters
    ----------
    dump, store : str or Path
        Folder of the captured dump, whose documents are continued and whose sampled rows, wherever they
        lie in the other documents, make the map of flat cells; and of the store (made by `run` if missing).
    selectors : sequence of str, optional
        As `ceiling.selectors.resolve` takes them, with reading ``per-query``; by default `SELECTORS`.
    model : str, optional
        See `ceiling.models.resolve`; by default the one the dump names. Its weights must be the dump's.
    budgets : sequence of int
    documents : int, optional
        The first so many; by default all. The map of a document is made of all others of the dump.
    tokens, context : int, optional
        Tokens of a document, by default 1024 or all there are; how many of them come before the first
        prediction, by default half. All of these but the last are rows of the model's own.
    draws, seed : int
        Random choices of as many cells as are flat.
    device, dtype : str
        See `ceiling.models.load`; by default the dump's dtype.
    verify : bool
        Also compare the dump's files with the digests in its manifest.

    Raises
    ------
    InputError
        Naming what is wrong, before any work.
    """
    opened = open_source(dump, store, verify)
    folder = _folder(opened, model)
    device, dtype = models.placement(device, dtype or str(opened.manifest["dtype"]))
    bare = models.skeleton(folder)
    check_model(bare)
    checked = check_budgets(budgets)
    count = _within("documents", documents, 1, opened.n_documents, opened.n_documents)
    shortest = min(opened.manifest["tokens"]["lengths"])
    length = _within("tokens", tokens, 2, shortest, min(TOKENS, shortest))
    before = _within("context", context, 1, length - 1, length // 2)
    seen = min(before, max(window or length for window in opened.windows))
    if max(checked) >= seen:
        raise InputError(f"budgets: {max(checked)} keys; the first prediction sees {seen}, ask for fewer")
    if opened.n_documents < 2:
        raise InputError(f"dump: {dump} has one document; the map of a document is made of the others'")
    if len(opened.layers) < opened.n_layers:
        raise InputError(f"dump: {dump} holds {len(opened.layers)} of {opened.n_layers} layers; capture all")
    if draws < 1 or seed < 0:
        raise InputError(f"draws: {draws}, seed: {seed}; at least 1 and 0 are needed")
    units = tuple(Unit(i) for i in range(count))
    whole = Plan(
        dump=Path(dump),
        store=Path(store),
        folder=folder,
        choices=_choices(selectors or SELECTORS),
        budgets=checked,
        draws=draws,
        seed=seed,
        tokens=length,
        context=before,
        device=device,
        dtype=dtype,
        backend=backend(bare),
        units=units,
        todo=units,
        id=opened.id,
    )
    if not whole.arms:
        least = min(resolve(choice.name).least for choice in whole.choices)
        raise InputError(f"budgets: none is as large as the {least} keys that the rules take at least")
    todo = whole.target.missing(units)
    passes = len(todo) * (len(whole.arms) + 2)
    each = forward_seconds(bare.get_decoder(), length, device, models.DTYPES[dtype])
    each += SECONDS_PER_SET * opened.n_layers * opened.heads * (length - before)
    return replace(whole, todo=todo, seconds=passes * each)


def run(plan: Plan) -> Iterator[Done]:
    """Prepare the store at once; do every missing unit in this process as the iterator is consumed."""
    prepare(plan)
    return run_units(plan, plan.todo)


def prepare(plan: Plan) -> None:
    """Make the store, its small tables and the configuration's record."""
    plan.target.prepare(plan.configuration)


def run_units(plan: Plan, units: Iterable[Unit]) -> Iterator[Done]:
    """Do and commit units one by one: what a cluster task runs; see `Target.commit`.

    Raises
    ------
    InputError
        Also when the source of a user's rule is no longer the planned one.
    ArithmeticError
        When the unrestricted operator does not give the unmodified model back.
    """
    for unit, columns, seconds in plan.target.commit(units, lambda dump, unit: _continue(plan, dump, unit)):
        if columns is None:
            yield Done(unit, 0, 0.0, kept=True)
        else:
            yield Done(unit, len(columns["s"]), seconds)


def _continue(plan: Plan, dump: Dump, unit: Unit) -> dict[str, list[Any]]:
    """The columns of one document."""
    rules = {choice.name: choice.selector() for choice in plan.choices}
    model = _loaded(plan.folder, plan.device, plan.dtype)
    own = dense(model, dump.document(unit.document).tokens[: plan.tokens], plan.context)
    deviation = _check(plan, unit, model, own)
    flat = median_dropped(dump, without=unit.document) > FLAT
    same = {
        "dump": dump.id,
        "config": plan.config,
        "model": dump.model,
        "document": unit.document,
        "cells": flat.size,
        "context": plan.context,
        "tokens": plan.tokens - plan.context,
        "dense_loss": own.loss,
        "deviation": deviation,
        "engine": ENGINE,
        "host": platform.node(),
    }
    records = []
    for arm in plan.arms:
        start = process_time()
        balanced = chosen_cells(arm, flat, [plan.seed, unit.document, arm.draw])
        found = compare(model, own, Cells(arm.s, rules[arm.rule], balanced))
        measured = {**found._asdict(), **same, **arm._asdict(), "balanced_cells": int(balanced.sum())}
        records.append(measured | {"seconds": process_time() - start})
    return {name: [record[name] for record in records] for name in TABLES[TABLE]}


def chosen_cells(arm: Arm, flat: np.ndarray, seed: Sequence[int]) -> np.ndarray:
    """Cells that balancing takes, bool of the shape of `flat`, (layers, heads); random ones by `seed`."""
    if arm.balanced == "flat":
        return flat
    chosen = np.full(flat.shape, arm.balanced == "all")
    if arm.balanced == "random":
        drawn = np.random.default_rng(seed).choice(flat.size, int(flat.sum()), replace=False)
        chosen.flat[drawn] = True
    return chosen


def _check(plan: Plan, unit: Unit, model: Any, own: Dense) -> float:
    """The deviation of the unrestricted operator; ArithmeticError where it is more than rounding makes."""
    deviation, limit = compare(model, own, everything).deviation, LIMIT[plan.dtype]
    if not deviation <= limit:  # also where it is NaN
        raise ArithmeticError(
            f"document {unit.document}: with nothing restricted, logits differ by {deviation:.3g} from the "
            f"unmodified model's (limit {limit:g} in {plan.dtype})"
        )
    return deviation


def _folder(dump: Dump, model: str | None) -> models.ModelFolder:
    """The model that the dump was captured from."""
    recorded = dump.manifest["model"]
    try:
        folder = models.resolve(model or str(recorded["id"])).fetch()
    except InputError as error:
        if model is not None:
            raise
        raise InputError(f"model: {recorded['id']} was captured; say where it is with --model") from error
    for what, digest in (("weights", folder.weights_sha256()), ("config", folder.config_sha256())):
        if digest != recorded[f"{what}_sha256"]:
            raise InputError(f"model: {folder.path} has other {what} than the model of dump {dump.path}")
    return folder


def _choices(names: Sequence[str]) -> tuple[Choice, ...]:
    """The rules, those of `SELECTORS` first; InputError for one that is unknown, repeated or of no use."""
    found: dict[str, Choice] = {}
    for text in names:
        selector = resolve(text)
        if "per-query" not in selector.rules:
            raise InputError(f"selector: {selector.name} has no reading per-query, only that is continued")
        if selector.name in found:
            raise InputError(f"selector: {selector.name} is repeated; name each once")
        parameters = tuple(selector.parameters.items())
        found[selector.name] = Choice(selector.name, ("per-query",), parameters, selector.digest)
    ranks = {name: rank for rank, name in enumerate(SELECTORS)}
    return tuple(sorted(found.values(), key=lambda each: (ranks.get(each.name, len(ranks)), each.name)))


def _within(field: str, number: int | None, least: int, most: int, default: int) -> int:
    if number is None:
        return default
    if not least <= number <= most:
        raise InputError(f"{field}: {number} is not in {least}..{most}")
    return number


@lru_cache(maxsize=1)
def _loaded(folder: models.ModelFolder, device: str, dtype: str) -> Any:
    return models.load(folder, device, dtype).model
