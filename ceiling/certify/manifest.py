"""The manifest of a certification: its instances, drawn and written down before anything is solved."""

import csv
import hashlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ceiling import durable
from ceiling.dump import Document, Dump
from ceiling.problem import MASS_SUM_TOLERANCE, InputError, check_budget, check_budgets

DECILES = 10
"""Strata of dropped mass at each budget, as in the paper's manifest of 960 (section on certification)."""

DROPPED_TOLERANCE = 1e-9
"""Probability: how far a manifest's dropped mass may lie from the dump's. Both are float64 sums of the same
masses, 1e-12 apart at most; a row of another dump lies much further."""


class Instance(NamedTuple):
    """One query row at one budget; the fields are the columns of the file."""

    dump: str  # id of the dump, 12 hex digits
    document: int
    layer: int
    head: int
    position: int  # of the query, tokens
    row: int  # index among the document's sampled positions
    s: int  # budget, keys
    n_keys: int  # visible keys of positive mass
    dropped_mass: float  # outside the top-mass set, probability
    decile: int  # of the dropped mass among the eligible rows of its dump and budget, from 1

    @property
    def identity(self) -> tuple[str, int, int, int, int, int]:
        """What tells it from the others."""
        return self.dump, self.document, self.layer, self.head, self.row, self.s


@dataclass(frozen=True)
class Manifest:
    """Instances of one or more dumps.

    Attributes
    ----------
    instances : tuple of Instance
        Sorted, each once.
    """

    instances: tuple[Instance, ...]

    @property
    def digest(self) -> str:
        """Sixteen hex digits of which instances these are."""
        text = "\n".join(",".join(map(str, instance.identity)) for instance in self.instances)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def budgets(self) -> tuple[int, ...]:
        """Ascending."""
        return tuple(sorted({instance.s for instance in self.instances}))

    def of(self, dump: str) -> tuple[Instance, ...]:
        """The instances of one dump."""
        return tuple(instance for instance in self.instances if instance.dump == dump)

    def write(self, path: str | Path) -> None:
        """Write the file, whole or not at all.

        Raises
        ------
        OSError
            When the disk is full or not writable.
        """
        lines = io.StringIO()
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(Instance._fields)
        writer.writerows(self.instances)
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        durable.write(path, lines.getvalue().encode())


def draw_manifest(
    dumps: Sequence[Dump], budgets: Sequence[int], instances: int, *, seed: int = 0, least_keys: int = 1
) -> Manifest:
    """Draw instances evenly over dump, budget and decile of dropped mass, and over layers within those.

    Parameters
    ----------
    dumps : sequence of Dump
        One a model family, in the paper.
    budgets : sequence of int
    instances : int
        How many in all.
    seed : int
    least_keys : int
        Rows with fewer keys are left out, as are those that a budget keeps whole.

    Returns
    -------
    Manifest
        The same for the same dumps, options and seed.

    Raises
    ------
    InputError
        When a number is wrong, or a stratum has too few rows.

    Notes
    -----
    Deciles are of the eligible rows of one dump at one budget. Each draw falls on a layer that was drawn
    least so far, among those with rows in the stratum: equal numbers a layer, not a sample of the rows.
    """
    budgets, instances = check_budgets(budgets), check_budget(instances, field="instances")
    if not dumps or len({dump.id for dump in dumps}) < len(dumps):
        raise InputError(f"dump: {[dump.id for dump in dumps]}; name at least one, and each once")
    rng, drawn = np.random.default_rng(seed), list[Instance]()
    shares = _shares(instances, len(dumps) * len(budgets))
    for dump in dumps:
        population, used = list(_population(dump, budgets)), dict.fromkeys(dump.layers, 0)
        for s in budgets:
            least = max(least_keys, s + 1)
            eligible = [each for each in population if each.s == s and each.n_keys >= least]
            eligible.sort(key=lambda each: each.dropped_mass)
            share = next(shares)
            for decile, count in enumerate(_shares(share, DECILES), start=1):
                first, last = ((decile + k) * len(eligible) // DECILES for k in (-1, 0))
                stratum = [each._replace(decile=decile) for each in eligible[first:last]]
                if len(stratum) < count:
                    raise InputError(
                        f"instances: {instances} are {count} a decile at s = {s}; dump {dump.path} has "
                        f"{len(stratum)} rows of at least {least} keys there"
                    )
                drawn += spread(stratum, count, used, rng)
    return Manifest(tuple(sorted(drawn)))


def spread(
    stratum: Sequence[Instance], count: int, used: dict[int, int], rng: np.random.Generator
) -> Iterator[Instance]:
    """Draw `count` of a stratum, each from a layer that `used` counts least; keeps count in `used`."""
    left: dict[int, list[Instance]] = {}
    for instance in stratum:
        left.setdefault(instance.layer, []).append(instance)
    for _ in range(count):
        fewest = min(used[layer] for layer in left)
        layers = [layer for layer in left if used[layer] == fewest]
        layer = layers[rng.integers(len(layers))]
        used[layer] += 1
        yield left[layer].pop(rng.integers(len(left[layer])))
        if not left[layer]:
            del left[layer]


def read_manifest(path: str | Path, dumps: Sequence[Dump]) -> Manifest:
    """Read a manifest and check every line, against the dump where it is one of `dumps`.

    Parameters
    ----------
    path : str or Path
        Written by `Manifest.write`.
    dumps : sequence of Dump
        Each must have instances in it; lines of other dumps are only read.

    Raises
    ------
    InputError
        Naming the file, the line and what is wrong.
    """
    path, opened = Path(path), {dump.id: dump for dump in dumps}
    try:
        lines = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"))))
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"manifest: cannot read {path} ({error})") from None
    if not lines or tuple(lines[0]) != Instance._fields:
        found = ",".join(lines[0])[:200] if lines else "nothing"
        raise InputError(f"manifest: {path} starts with {found!r}, expected {','.join(Instance._fields)!r}")
    checks = {dump.id: _Check(dump) for dump in dumps}
    seen: dict[tuple, int] = {}
    instances = []
    for number, fields in enumerate(lines[1:], start=2):
        where = f"manifest: {path}, line {number}"
        try:
            instance = _parsed(fields)
            if (first := seen.setdefault(instance.identity, number)) != number:
                raise InputError(f"repeats line {first}")
            if instance.dump in checks:
                checks[instance.dump](instance)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        instances.append(instance)
    found_dumps = {instance.dump for instance in instances}
    if absent := [dump for dump in opened.values() if dump.id not in found_dumps]:
        raise InputError(
            f"manifest: {path} has no instance of dump {absent[0].path} ({absent[0].id}), "
            f"only of {', '.join(sorted(found_dumps)) or 'none'}"
        )
    return Manifest(tuple(sorted(instances)))


def find_manifest(store: str | Path, digest: str) -> Path | None:
    """The file beside a store that holds the instances of a digest, if there is one."""
    header = ",".join(Instance._fields)
    for path in sorted(Path(store).absolute().parent.glob("*.csv")):
        try:
            with path.open(encoding="utf-8") as file:
                found = file.readline(len(header) + 1).rstrip() == header  # other files may be large
            if found and read_manifest(path, ()).digest == digest:
                return path
        except (OSError, ValueError):  # also InputError: not a manifest, or a spoilt one
            continue
    return None


def _parsed(fields: Sequence[str]) -> Instance:
    """One line; whole numbers are >= 0 and everything is in its own range."""
    if len(fields) != len(Instance._fields):
        raise InputError(f"{len(fields)} fields, expected {len(Instance._fields)}")
    found: dict[str, str | int | float] = {}
    for (name, kind), text in zip(Instance.__annotations__.items(), fields, strict=True):
        if kind is int and not text.isdecimal():
            raise InputError(f"{name}: {text!r} is not a whole number >= 0")
        try:
            found[name] = kind(text)
        except ValueError:
            raise InputError(f"{name}: {text!r} is not a number") from None
    instance = Instance(**found)  # type: ignore[arg-type]
    if not instance.dump:
        raise InputError("dump: empty; it is the id of a dump, 12 hex digits")
    if not 0 <= instance.dropped_mass <= 1:
        raise InputError(f"dropped_mass: {instance.dropped_mass} is no probability")
    if not 1 <= instance.decile <= DECILES:
        raise InputError(f"decile: {instance.decile} is outside 1..{DECILES}")
    if not 1 <= instance.s < instance.n_keys:
        raise InputError(f"s: {instance.s} is outside 1..{instance.n_keys - 1}: a budget below n_keys")
    return instance


class _Check:
    """Compares instances with their dump; keeps the last document open."""

    def __init__(self, dump: Dump) -> None:
        self.dump = dump
        self.document: Document | None = None

    def __call__(self, instance: Instance) -> None:
        """Raise `InputError` unless the dump has this row, with these keys and masses."""
        dump = self.dump
        if self.document is None or self.document.index != instance.document:
            self.document = dump.document(instance.document)
        positions = self.document.query_positions
        if instance.layer not in dump.layers:
            raise InputError(f"layer: {instance.layer} is none of those captured in dump {dump.path}")
        for field, stop in (("head", dump.heads), ("row", len(positions))):
            if (value := getattr(instance, field)) >= stop:
                raise InputError(f"{field}: {value} is outside 0..{stop - 1} of dump {dump.path}")
        where = instance.head, instance.row
        n_keys, dropped = _measured(self.document, instance.layer, (instance.s,), where)
        for field, found in (("position", positions[instance.row]), ("n_keys", n_keys[0])):
            if getattr(instance, field) != found:
                raise InputError(f"{field}: {getattr(instance, field)}, the dump has {found} there")
        if abs(dropped[0, 0] - instance.dropped_mass) > DROPPED_TOLERANCE:
            raise InputError(f"dropped_mass: {instance.dropped_mass}, the dump has {dropped[0, 0]} there")


def _population(dump: Dump, budgets: Sequence[int]) -> Iterator[Instance]:
    """Every row of a dump at every budget, without its decile."""
    for index in range(dump.n_documents):
        document = dump.document(index)
        positions = document.query_positions.tolist()
        for layer in dump.layers:
            n_keys, dropped = _measured(document, layer, budgets)
            for at, keys in enumerate(n_keys.tolist()):
                head, row = divmod(at, len(positions))
                for s, mass in zip(budgets, dropped[:, at].tolist(), strict=True):
                    yield Instance(dump.id, index, layer, head, positions[row], row, s, keys, mass, 0)


def _measured(
    document: Document, layer: int, budgets: Sequence[int], only: tuple[int, int] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Keys [heads * rows] and dropped masses [budgets, heads * rows] of a layer, or of one row of it."""
    masses = document.masses(layer)
    if only is not None:
        masses = masses[only]
    flat = masses.reshape(-1, masses.shape[-1]).astype(np.float64)
    total = flat.sum(axis=1)
    if (bad := ~(abs(total - 1) <= MASS_SUM_TOLERANCE) | ~(flat.min(axis=1) >= 0)).any():
        at, rows = int(np.argmax(bad)), len(document.query_positions)
        document.row(layer, *(only or divmod(at, rows)))  # raises, and says what is wrong
    cut = max(flat.shape[1] - max(budgets), 0)
    parts = np.partition(flat, cut, axis=1) if cut else flat
    rest, top = parts[:, :cut].sum(axis=1), -np.sort(-parts[:, cut:], axis=1)
    dropped = np.array([(rest + top[:, s:].sum(axis=1)) / total for s in budgets])
    return np.count_nonzero(flat, axis=1), dropped


def _shares(total: int, parts: int) -> Iterator[int]:
    """`total` in `parts` whole numbers, as equal as can be, the larger ones spread out.

    Fewer than `parts` lie about the middle, three of ten at the second, fifth and ninth; more end with a
    larger one, as the manifests that were drawn so have it.
    """
    half = parts if total < parts else 0
    ends = [(2 * k * total + half) // (2 * parts) for k in range(parts + 1)]
    return (last - first for first, last in pairwise(ends))
