"""The audit: published presses on generated tasks, one shard a task, instance and arm."""

import importlib.util
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from ceiling import models, texts
from ceiling.audit.answering import ENGINE, Harness, Setting, answer_instance
from ceiling.audit.budget import Arm, Budget
from ceiling.audit.ceilings import ENGINES as JUDGES
from ceiling.audit.decode import stop_ids
from ceiling.audit.ladder import default_tasks
from ceiling.audit.press import FULL, ROSTER, Press, resolve
from ceiling.audit.refusals import facts
from ceiling.capture import check_length, forward_seconds
from ceiling.problem import InputError
from ceiling.stages.auditing import SWAPPING, Cells, Posing, able, check_words, distinct, named_arm
from ceiling.store import TABLES, Shards, config_id, is_whole
from ceiling.texts.ruler import RULER_GENERATOR, parse_task, task_name

TABLE, CEILINGS = "audit", "audit_ceilings"

ARMS = tuple(Arm)
NATIVE_ARMS = (Arm.AGNOSTIC, Arm.AWARE_KVPRESS)
BUDGETS = ("ratio=0.25", "ratio=0.5", "ratio=0.75", "ratio=0.9")
TOKENS, INSTANCES = 1000, 20

PASSES = 7.0
"""CPU time of an instance in bare passes over its tokens, for the estimate of ``--dry-run`` only."""

BALANCING = 0.4
"""More of it where rows are balanced; proofs, which vary a hundredfold, are not in the estimate."""

BYTES_PER_RECORD = {"none": 350, "top": 2150, "balance": 2400, "certify": 2400}
"""On disk, by what kept sets are judged against; the judgements are those of 30 layers (smollm2-135m)."""


class Unit(NamedTuple):
    """What is answered together: one instance in those of its arms that are missing."""

    task: str
    instance: int
    arms: tuple[Arm, ...]


class Done(NamedTuple):
    """A unit that was committed, how many records it holds, and the seconds it took.

    `kept` where its shards were there already, from another run that is at it too.
    """

    unit: Unit
    records: int
    seconds: float
    kept: bool = False


@dataclass(frozen=True)
class Plan:
    """What is to be done, and what is done already; all that a worker needs.

    Attributes
    ----------
    store : Path
    folder : ModelFolder
    text : str
        Haystack of the tasks whose facts hide in prose.
    presses, budgets : tuple of str
        Presses by label, without the anchor.
    refused : tuple of str
        Presses of the default roster that cannot run here, with the reason.
    arms, tasks : tuple
    instances, questions, tokens, seed : int
    backend, dtype, device, ceilings : str
    alone : bool
        Every press is run by kvpress itself; see `ceiling.audit.answering.Setting`.
    units : tuple of Unit
    id : str
        Of the model: weights and tokenizer.
    todo : tuple of Unit
        With the arms that are missing.
    seconds : float
        Time of one core for what is left, about.
    """

    store: Path
    folder: models.ModelFolder
    text: str
    presses: tuple[str, ...]
    budgets: tuple[str, ...]
    refused: tuple[str, ...]
    notes: tuple[str, ...]
    arms: tuple[Arm, ...]
    tasks: tuple[str, ...]
    instances: int
    questions: int
    tokens: int
    seed: int
    backend: str
    dtype: str
    device: str
    ceilings: str
    alone: bool
    units: tuple[Unit, ...]
    id: str
    todo: tuple[Unit, ...] = ()
    seconds: float = 0.0

    @cached_property
    def setting(self) -> Setting:
        """What instances are answered under."""
        presses, budgets = map(resolve, self.presses), map(Budget.parse, self.budgets)
        own = (self.backend, self.dtype, self.seed, self.ceilings, self.alone)
        return Setting(tuple(presses), tuple(budgets), *own)

    @property
    def engine(self) -> str:
        """What made the records."""
        return f"{ENGINE} native" if self.alone else ENGINE

    @cached_property
    def configuration(self) -> dict[str, Any]:
        """All that determines a record, but for which tasks, instances and arms there are."""
        digests = {p.label: digest for p in self.setting.presses if (digest := p.kind.digest)}
        return {
            "engine": self.engine,
            "generator": RULER_GENERATOR,
            "model": {"weights": self.folder.weights_sha256(), "config": self.folder.config_sha256()},
            "presses": list(self.presses),
            "sources": digests,
            "budgets": list(self.budgets),
            "backend": self.backend,
            "dtype": self.dtype,
            "tokens": self.tokens,
            "questions": self.questions,
            "text": texts.open_text(self.text).sha256,
            "seed": self.seed,
            "ceilings": JUDGES[self.ceilings] if self.ceilings in SWAPPING else self.ceilings,
            "versions": versions(),
        }

    @property
    def config(self) -> str:
        """Id of the configuration, as in the store."""
        return config_id(self.configuration)

    @property
    def records(self) -> int:
        """Records left to make."""
        each = self.questions * (len(self.presses) * len(self.budgets) + 1)
        return each * sum(len(unit.arms) for unit in self.todo)

    @property
    def bytes(self) -> int:
        """Disk space of what is left, about."""
        return self.records * BYTES_PER_RECORD[self.ceilings]


def versions() -> dict[str, str]:
    """Of the libraries that records depend on."""
    return {name: version(name) for name in ("ceiling", "kvpress", "torch", "transformers")}


def plan(
    store: str | Path,
    model: str = "smollm2-135m",
    presses: Sequence[str] | None = None,
    *,
    budgets: Sequence[str] = BUDGETS,
    arms: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    instances: int = INSTANCES,
    tokens: int = TOKENS,
    questions: int = 1,
    text: str = "python-docs",
    backend: str = "eager",
    dtype: str | None = None,
    device: str = "auto",
    engine: str = "shared",
    ceilings: str | None = None,
    seed: int = 0,
) -> Plan:
    """Check everything and find the missing shards; loads no weights.

    Parameters
    ----------
    store : str or Path
    model, text : str
        See `ceiling.models.resolve` and `ceiling.texts.open_text`; the text is the haystack.
    presses : sequence of str, optional
        As `ceiling.audit.press.resolve` takes them; by default the nine of the paper, AdaKV with its
        choice enforced in storage, and SnapKV at a window of 16. The full cache is always run.
    budgets : sequence of str
        ``ratio=0.5``, ``slots=128``, ``held=0.5``; see `ceiling.audit.budget.Budget`.
    arms : sequence of str, optional
        By default all that the engine has; kvpress by itself has no `aware-scores`.
    tasks : sequence of str, optional
        By default those that were chosen for the model by its full cache's answers alone.
    instances, questions : int
        Instances a task, questions an instance.
    tokens : int
        Of a context, its longest question and the answer's room together.
    backend : {"eager", "sdpa"}
        Attention of prefill and decoding; H2O needs eager.
    engine : {"shared", "native"}
        One prefill for all presses, or each by kvpress itself in a prefill of its own: the reference.
    ceilings : {"none", "top", "balance", "certify"}, optional
        What kept sets are judged against on attention rows of question and answer: by default ``top`` where
        there are such rows, in the shared prefill of backend eager. ``balance`` adds balancing swaps, and
        ``certify`` to these lower bounds of up to 32 kept keys; see `ceiling.audit.ceilings.Judge`.
    dtype, device : str
        See `ceiling.models.load`.
    seed : int
        Of the instances and of random presses.

    Raises
    ------
    InputError
        Naming what cannot be run, and why: before any work.
    """
    if importlib.util.find_spec("kvpress") is None:
        raise InputError("audit: kvpress is missing; pip install 'ceiling[audit]' (Python below 3.13)")
    check_words(backend, engine, ceilings, instances, questions, tokens, seed)
    folder = models.resolve(model).fetch()
    device, dtype = models.placement(device, dtype)
    bare = models.skeleton(folder)
    check_length(bare.get_decoder().config, tokens)
    alone = engine == "native"
    wanted = distinct("budgets", map(Budget.parse, budgets))
    chosen_arms = distinct("arms", map(named_arm, (NATIVE_ARMS if alone else ARMS) if arms is None else arms))
    tasks = default_tasks(folder.id) if tasks is None else tasks
    chosen = distinct("tasks", (task_name(*parse_task(task)) for task in tasks))
    roster = tuple(press for press in ROSTER if press != FULL)
    named = roster if presses is None else distinct("presses", map(resolve, presses))
    posing = Posing(folder, text, seed, questions, tokens)
    cells = Cells(facts(bare), backend, dtype, chosen_arms, wanted, alone)
    lengths = sorted(set().union(*(posing.lengths(task, 0) for task in chosen)))
    tried = list(able(cells, named, lengths))
    kept = [press for press in tried if isinstance(press, Press)]
    refused = tuple(reason for reason in tried if isinstance(reason, str))
    if refused and (presses or not kept):
        raise InputError(f"presses: refused: {'; '.join(refused)}")
    judged = any(press.route == "shared" and press != FULL for press in kept)
    judged &= backend == "eager" and not alone
    whole = Plan(
        store=Path(store),
        folder=folder,
        text=text,
        presses=tuple(press.label for press in kept if press != FULL),
        budgets=tuple(map(str, wanted)),
        refused=refused,
        notes=cells.notes(kept, lengths),
        arms=chosen_arms,
        tasks=chosen,
        instances=instances,
        questions=questions,
        tokens=tokens,
        seed=seed,
        backend=backend,
        dtype=dtype,
        device=device,
        ceilings=(ceilings or "top") if judged else "none",
        alone=alone,
        units=tuple(Unit(task, number, chosen_arms) for number in range(instances) for task in chosen),
        id=folder.digest()[:12],
    )
    todo = tuple(_missing(whole))
    cells.check(((unit.task, unit.instance) for unit in todo), posing, kept)
    share = sum(len(unit.arms) for unit in todo) / len(ARMS)
    more = BALANCING if judged and ceilings in SWAPPING else 0.0
    passes = questions * (PASSES * (1 + more) + alone * len(kept) * len(wanted))
    bare_pass = forward_seconds(bare.get_decoder(), int(share * tokens), device, models.DTYPES[dtype])
    return replace(whole, todo=todo, seconds=passes * bare_pass)


def run(plan: Plan) -> Iterator[Done]:
    """Prepare the store at once; do every missing unit in this process as the iterator is consumed."""
    prepare(plan)
    return run_units(plan, plan.todo)


def prepare(plan: Plan) -> None:
    """Make the store and the configuration's record."""
    shards = Shards(plan.store, plan.id)
    shards.open()
    for table in _tables(plan):
        shards.write_config(plan.configuration, table)


def run_units(plan: Plan, units: Iterable[Unit]) -> Iterator[Done]:
    """Do and commit units one by one: what a cluster task runs."""
    shards = Shards(plan.store, plan.id)
    posing = Posing(plan.folder, plan.text, plan.seed, plan.questions, plan.tokens)
    for unit in units:
        start = perf_counter()
        arms = [arm for arm in unit.arms if not _is_done(plan, shards, unit, arm)]
        if not arms:
            yield Done(unit, 0, 0.0, kept=True)
            continue
        found = answer_instance(_harness(plan), plan.setting, posing(unit.task, unit.instance), arms)
        records = 0
        for arm, (audit, ceilings) in found.items():
            more = {"dump": plan.id, "config": plan.config, "model": plan.folder.label()}
            more["engine"] = plan.engine
            if plan.ceilings != "none":  # first, so that an arm whose records exist is whole
                _write(plan, shards, CEILINGS, unit, arm, ceilings, more)
            told = more | {"versions": json.dumps(plan.configuration["versions"])}
            records += _write(plan, shards, TABLE, unit, arm, audit, told)
        yield Done(unit, records, perf_counter() - start)


def _write(
    plan: Plan,
    shards: Shards,
    table: str,
    unit: Unit,
    arm: Arm,
    columns: dict[str, list[Any]],
    more: dict[str, str],
) -> int:
    count = len(columns["task"])
    path = shards.path(table, unit.task, unit.instance, str(arm), config=plan.config)
    known = {name: [value] * count for name, value in more.items()} | columns
    shards.write(table, path, {name: known[name] for name in TABLES[table]})
    return count


def _is_done(plan: Plan, shards: Shards, unit: Unit, arm: Arm) -> bool:
    return all(
        is_whole(shards.path(table, unit.task, unit.instance, str(arm), config=plan.config))
        for table in _tables(plan)
    )


def _missing(plan: Plan) -> Iterator[Unit]:
    """Units with those of their arms that lack a shard."""
    shards = Shards(plan.store, plan.id)
    for unit in plan.units:
        if arms := tuple(arm for arm in unit.arms if not _is_done(plan, shards, unit, arm)):
            yield unit._replace(arms=arms)


def _tables(plan: Plan) -> tuple[str, ...]:
    return (TABLE,) if plan.ceilings == "none" else (TABLE, CEILINGS)


@lru_cache(maxsize=1)
def _loaded(folder: models.ModelFolder, device: str, dtype: str) -> Harness:
    model = models.load(folder, device, dtype).model
    coder = models.tokenizer(folder)
    return Harness(model, coder, stop_ids(coder, model))


def _harness(plan: Plan) -> Harness:
    return _loaded(plan.folder, plan.device, plan.dtype)


__all__ = ["ARMS", "Done", "Plan", "Unit", "plan", "prepare", "run", "run_units"]
