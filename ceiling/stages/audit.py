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
from ceiling.audit.ladder import default_tasks
from ceiling.audit.press import DEFAULT, FULL, ROSTER, Press, resolve
from ceiling.audit.refusals import facts, refusal
from ceiling.capture import check_length, forward_seconds
from ceiling.problem import InputError
from ceiling.store import TABLES, Shards, config_id, is_whole
from ceiling.texts.posing import Posed, pose
from ceiling.texts.ruler import RULER_GENERATOR, audit_instance, parse_task, task_name

TABLE, CEILINGS = "audit", "audit_ceilings"

ARMS = tuple(Arm)
BUDGETS = ("ratio=0.25", "ratio=0.5", "ratio=0.75", "ratio=0.9")
TOKENS, INSTANCES = 1000, 20

BACKENDS, MODES = ("eager", "sdpa"), ("none", "top")

PASSES = 7.0
"""CPU time of an instance in bare passes over its tokens, for the estimate of ``--dry-run`` only."""

BYTES_PER_RECORD = 60


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
    units, todo : tuple of Unit
    seconds : float
        Time of one core for what is left, about.
    id : str
        Of the model: weights and tokenizer.
    """

    store: Path
    folder: models.ModelFolder
    text: str
    presses: tuple[str, ...]
    budgets: tuple[str, ...]
    refused: tuple[str, ...]
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
    units: tuple[Unit, ...]
    todo: tuple[Unit, ...]
    seconds: float
    id: str

    @cached_property
    def setting(self) -> Setting:
        """What instances are answered under."""
        presses, budgets = map(resolve, self.presses), map(Budget.parse, self.budgets)
        return Setting(tuple(presses), tuple(budgets), self.backend, self.dtype, self.seed, self.ceilings)

    @cached_property
    def configuration(self) -> dict[str, Any]:
        """All that determines a record, but for which tasks, instances and arms there are."""
        digests = {p.label: digest for p in self.setting.presses if (digest := p.kind.digest)}
        return {
            "engine": ENGINE,
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
            "ceilings": self.ceilings,
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
        return self.records * BYTES_PER_RECORD * (1 if self.ceilings == "none" else 40)


def versions() -> dict[str, str]:
    """Of the libraries that records depend on."""
    return {name: version(name) for name in ("ceiling", "kvpress", "torch", "transformers")}


def plan(
    store: str | Path,
    model: str = "smollm2-135m",
    presses: Sequence[str] | None = None,
    *,
    budgets: Sequence[str] = BUDGETS,
    arms: Sequence[str] = ARMS,
    tasks: Sequence[str] | None = None,
    instances: int = INSTANCES,
    tokens: int = TOKENS,
    questions: int = 1,
    text: str = "python-docs",
    backend: str = "eager",
    dtype: str | None = None,
    device: str = "auto",
    ceilings: str = "top",
    seed: int = 0,
) -> Plan:
    """Check everything and find the missing shards; loads no weights.

    Parameters
    ----------
    store : str or Path
    model, text : str
        See `ceiling.models.resolve` and `ceiling.texts.open_text`; the text is the haystack.
    presses : sequence of str, optional
        As `ceiling.audit.press.resolve` takes them; by default the nine of the paper, and AdaKV with its
        choice enforced in storage. The full cache is always run.
    budgets : sequence of str
        ``ratio=0.5``, ``slots=128``, ``held=0.5``; see `ceiling.audit.budget.Budget`.
    arms : sequence of str
    tasks : sequence of str, optional
        By default those that were chosen for the model by its full cache's answers alone.
    instances, questions : int
        Instances a task, questions an instance.
    tokens : int
        Of a context, its longest question and the answer's room together.
    backend : {"eager", "sdpa"}
        Attention of prefill and decoding; H2O needs eager.
    ceilings : {"none", "top"}
        What kept sets are judged against on attention rows of question and answer; eager only.
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
    _check_words(backend, ceilings, instances, questions)
    ceilings = ceilings if backend == "eager" else "none"
    folder = models.resolve(model).fetch()
    device, dtype = models.placement(device, dtype)
    bare = models.skeleton(folder)
    check_length(bare.get_decoder().config, tokens)
    wanted = tuple(Budget.parse(each) for each in _distinct("budgets", budgets))
    chosen_arms = tuple(_arm(each) for each in _distinct("arms", arms))
    chosen = tuple(task_name(*parse_task(task)) for task in _tasks(folder, tasks))
    base = Plan(
        Path(store), folder, text, (), tuple(map(str, wanted)), (), chosen_arms, chosen, instances, questions,
        tokens, seed, backend, dtype, device, ceilings, (), (), 0.0, folder.digest()[:12],
    )  # fmt: skip
    lengths = _lengths(base)
    named = tuple(resolve(each) for each in presses) if presses else tuple(p for p in ROSTER if p != FULL)
    kept, refused = [], []
    for press in named:
        reason = _reason(press, facts(bare), base, wanted, lengths)
        if reason is None:
            kept.append(press)
        elif presses:
            raise InputError(f"presses: {press.label} is refused: {reason}")
        else:
            refused.append(f"{press.label}: {reason}")
    if not kept:
        raise InputError(f"presses: all are refused: {'; '.join(refused)}")
    units = tuple(Unit(task, number, chosen_arms) for number in range(instances) for task in chosen)
    whole = replace(
        base,
        presses=tuple(press.label for press in kept if press != FULL),
        refused=tuple(refused),
        units=units,
    )
    todo = tuple(_missing(whole))
    share = sum(len(unit.arms) for unit in todo) / len(ARMS)
    seconds = (
        PASSES
        * questions
        * forward_seconds(bare.get_decoder(), int(share * tokens), device, models.DTYPES[dtype])
    )
    return replace(whole, todo=todo, seconds=seconds)


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
    shards, posing = Shards(plan.store, plan.id), _Posing(plan)
    for unit in units:
        start = perf_counter()
        arms = [arm for arm in unit.arms if not _is_done(plan, shards, unit, arm)]
        if not arms:
            yield Done(unit, 0, 0.0, kept=True)
            continue
        found = answer_instance(_harness(plan), plan.setting, posing(unit.task, unit.instance), arms)
        records = 0
        for arm, (audit, ceilings) in found.items():
            more = {"dump": plan.id, "config": plan.config, "model": plan.folder.label(), "engine": ENGINE}
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


class _Posing:
    """Instances in the model's tokens."""

    def __init__(self, plan: Plan) -> None:
        coder = models.tokenizer(plan.folder)
        self.plan, self.hay = plan, texts.open_text(plan.text)
        self.encode, self.start = models.encoder(coder), models.start_tokens(coder)

    def __call__(self, task: str, number: int) -> Posed:
        instance = audit_instance(task, self.plan.seed, number, self.plan.questions)
        return pose(instance, self.encode, self.hay, self.plan.tokens, self.start)


def _lengths(plan: Plan) -> list[tuple[str, int, int]]:
    """Task, context and question length of the first instance of each task, all of whose questions fit."""
    posing = _Posing(plan)
    posed = [(task, posing(task, 0)) for task in plan.tasks]
    return [
        (task, len(each.context_ids), len(question.question_ids))
        for task, each in posed
        for question in each.questions
    ]


def _reason(
    press: Press, about: Any, plan: Plan, budgets: Sequence[Budget], lengths: Sequence[tuple[str, int, int]]
) -> str | None:
    """The first reason not to run a press in any of the plan's cells."""
    for arm in plan.arms:
        for budget in budgets:
            for _, context, question in lengths:
                if reason := refusal(press, about, plan.backend, plan.dtype, arm, budget, context, question):
                    return f"{reason} (arm {arm})"
    return None


@lru_cache(maxsize=1)
def _loaded(folder: models.ModelFolder, device: str, dtype: str) -> Harness:
    from ceiling.audit.decode import stop_ids

    model = models.load(folder, device, dtype).model
    coder = models.tokenizer(folder)
    return Harness(model, coder, stop_ids(coder, model))


def _harness(plan: Plan) -> Harness:
    return _loaded(plan.folder, plan.device, plan.dtype)


def _tasks(folder: models.ModelFolder, tasks: Sequence[str] | None) -> Sequence[str]:
    return _distinct("tasks", tasks or default_tasks(folder.id))


def _arm(name: str) -> Arm:
    try:
        return Arm(name)
    except ValueError:
        raise InputError(f"arms: {name!r} is unknown; there are {', '.join(ARMS)}") from None


def _distinct(field: str, names: Sequence[Any]) -> tuple[Any, ...]:
    if not names or len(set(names)) < len(names):
        raise InputError(f"{field}: {', '.join(map(str, names)) or 'none'}; name each once, one at least")
    return tuple(names)


def _check_words(backend: str, ceilings: str, instances: int, questions: int) -> None:
    for field, value, known in (("backend", backend, BACKENDS), ("ceilings", ceilings, MODES)):
        if value not in known:
            raise InputError(f"{field}: {value!r} is unknown; there are {', '.join(known)}")
    for field, number in (("instances", instances), ("questions", questions)):
        if number < 1:
            raise InputError(f"{field}: {number} is not positive")


__all__ = ["ARMS", "DEFAULT", "Done", "Plan", "Unit", "plan", "prepare", "run", "run_units"]
