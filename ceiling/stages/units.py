"""What the stages that fill a store share: their units, those that are missing, and how one is committed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

from threadpoolctl import threadpool_limits

from ceiling.dump import MANIFEST, Dump, open_dump
from ceiling.problem import InputError
from ceiling.stages.small_tables import check_same, write_small_tables
from ceiling.store import Shards, is_whole

Columns = dict[str, list[Any]]
"""A shard's content."""


class Unit(NamedTuple):
    """What one shard holds."""

    document: int
    layer: int


Numbered = TypeVar("Numbered", bound=tuple[int, ...])
"""A unit, whose fields are the numbers that its shard is named for."""


class Target(NamedTuple):
    """Where shards come from and go to; all that finds one beside its unit.

    Attributes
    ----------
    dump, store : Path
    id : str
        Of the dump.
    table, config : str
    """

    dump: Path
    store: Path
    id: str
    table: str
    config: str

    def missing(self, units: Iterable[Numbered]) -> tuple[Numbered, ...]:
        """The units whose shards do not exist yet."""
        shards = Shards(self.store, self.id)
        return tuple(u for u in units if not is_whole(shards.path(self.table, *u, config=self.config)))

    def prepare(self, configuration: dict[str, Any]) -> None:
        """Make the store, its tables ``documents`` and ``rows``, and the record of the configuration."""
        dump = open_dump(self.dump)
        check_same(dump, self.id)
        shards = Shards(self.store, dump.id)
        shards.open()
        shards.write_config(configuration, self.table)
        write_small_tables(dump, shards)

    def commit(
        self, units: Iterable[Numbered], compute: Callable[[Dump, Numbered], Columns]
    ) -> Iterator[tuple[Numbered, Columns | None, float]]:
        """Do and commit units one by one; yields each with its content and seconds.

        The content is None where another run committed the unit in the meantime: its shard is kept. Serial,
        BLAS included: the arrays are small, and on a cluster Ray owns the cores.

        Raises
        ------
        InputError
            Also when the dump is no longer the planned one: a shard never holds what another dump was.
        """
        dump = open_dump(self.dump)
        check_same(dump, self.id)
        shards = Shards(self.store, self.id)
        for unit in units:
            start, path = perf_counter(), shards.path(self.table, *unit, config=self.config)
            if is_whole(path):
                yield unit, None, 0.0
                continue
            with threadpool_limits(1):
                columns = compute(dump, unit)
            check_same(open_dump(self.dump), self.id)  # files are opened by name, unit by unit
            shards.write(self.table, path, columns)
            yield unit, columns, perf_counter() - start


def open_source(dump: str | Path, store: str | Path, verify: bool) -> Dump:
    """The dump of a run, with `verify` also its digests; InputError where the store is no folder for one."""
    opened = open_dump(dump, verify)
    if Path(store).exists() and (not Path(store).is_dir() or (Path(store) / MANIFEST).exists()):
        raise InputError(f"store: {store} is a {'dump' if Path(store).is_dir() else 'file'}; name a folder")
    return opened


def units_of(dump: Dump) -> tuple[Unit, ...]:
    """All units of a dump."""
    return tuple(Unit(document, layer) for document in range(dump.n_documents) for layer in dump.layers)


def rows_of(dump: Dump) -> int:
    """Query rows a unit: heads times sampled positions."""
    return dump.heads * len(dump.document(0).query_positions)


def visible_keys(dump: Dump) -> int:
    """Keys that a captured row has at most."""
    longest = max(dump.manifest["tokens"]["lengths"])
    return max(min(dump.windows[layer] or longest, longest) for layer in dump.layers)


def check_visible(dump: Dump, field: str, budgets: Sequence[int]) -> None:
    """`InputError` unless some row of the dump has as many keys as the largest budget."""
    if (most := max(budgets)) > (visible := visible_keys(dump)):
        raise InputError(f"{field}: {most} keys are more than the {visible} that any row of {dump.path} sees")
