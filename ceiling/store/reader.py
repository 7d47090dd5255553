"""Reading a store, also one that is still growing."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from ceiling.problem import InputError
from ceiling.store.layout import are_apart
from ceiling.store.schema import CONFIGURED, IDENTITY, TABLES
from ceiling.store.shards import is_whole

COMMANDS = {
    "instances": "enumerate",
    "certificates": "certify",
    "zero_errors": "zero-error",
    "scores": "score",
    "losses": "loss",
    "audit": "audit",
    "audit_ceilings": "audit",
}
"""What fills each table of results."""

APART = {"scores": ("selector", "reading", "allocation"), "losses": ("rule", "s")}
"""What configurations of a dump may differ in and still be read together where only columns tell; of audits
columns do not tell all that `layout.are_apart` asks for."""


def open_store(path: str | Path, config: str | None = None) -> "Store":
    """Open a store for reading.

    Parameters
    ----------
    path : str or Path
        Folder written by ``ceiling enumerate`` or its siblings; or the URI of a copy of one, of a kind
        that polars reads (``s3://bucket/store``, ``gs://``, ``az://``, ``hf://``, ``file:///``).
    config : str, optional
        Read only the results of this configuration (8 hex digits); tables that hold no results of it
        are read whole.

    Returns
    -------
    Store
        With one LazyFrame a table, e.g. ``open_store(path).instances``; a table without shards is
        an empty frame of its schema.

    Raises
    ------
    InputError
        When there is no such folder, or it holds several configurations of one dump and none is
        named: their instances are the same rows measured differently and must not be mixed (scores of
        other rules may). Other tables than ``instances`` are looked at when they are asked for.
    """
    store = RemoteStore(str(path), config) if "://" in str(path) else Store(Path(path), config)
    store.check()
    return store


def scan(table: str, shards: Sequence[Path] | str) -> pl.LazyFrame:
    """Shards of `table`, or what matches a pattern, as one lazy frame of its schema; empty for none."""
    schema = TABLES[table]
    if not shards:
        return pl.LazyFrame(schema=schema)
    return pl.scan_parquet(
        shards if isinstance(shards, str) else list(shards),
        schema=schema,
        glob=isinstance(shards, str),
        hive_partitioning=False,
        missing_columns="insert",
        extra_columns="ignore",
    )


def configurations(store: str | Path, table: str, dump: str = "*") -> list[str]:
    """The ids of the configurations that `table` holds results of, of one dump or all."""
    shards = (Path(store) / table).glob(f"dump={dump}/config=*/*.parquet")
    return sorted({shard.parent.name.removeprefix("config=") for shard in shards})


def can_mix(store: str | Path, table: str, dump: str, configs: Sequence[str]) -> bool:
    """Whether these configurations of one dump may be read together; see `ceiling.store.layout.are_apart`."""
    folder = Path(store) / table / f"dump={dump}"
    return len(configs) < 2 or are_apart(table, [_record(folder, config) for config in configs])


class Store:
    """Lazy frames over the shards of a store.

    Attributes
    ----------
    instances, certificates, zero_errors, scores, losses, audit, audit_ceilings, documents, rows : LazyFrame
        Columns as in `ceiling.store.schema`.
    """

    def __init__(self, path: Path, config: str | None = None) -> None:
        self.path = path
        self.config = config

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r}, tables {', '.join(TABLES)})"

    @property
    def instances(self) -> pl.LazyFrame:
        """One row per query row and budget."""
        return self.table("instances")

    @property
    def certificates(self) -> pl.LazyFrame:
        """One row per certified query row, budget and mass floor."""
        return self.table("certificates")

    @property
    def zero_errors(self) -> pl.LazyFrame:
        """One row per query row, budget and bits of rounding that was asked for a set of error zero."""
        return self.table("zero_errors")

    @property
    def scores(self) -> pl.LazyFrame:
        """One row per query row, head, budget, selector, reading and allocation."""
        return self.table("scores")

    @property
    def losses(self) -> pl.LazyFrame:
        """One row per document, budget, rule, and choice of cells that are balanced instead."""
        return self.table("losses")

    @property
    def audit(self) -> pl.LazyFrame:
        """One row per task, instance, question, arm, press and budget."""
        return self.table("audit")

    @property
    def audit_ceilings(self) -> pl.LazyFrame:
        """One row per row of `audit`, layer, and kind of attention row judged."""
        return self.table("audit_ceilings")

    @property
    def documents(self) -> pl.LazyFrame:
        """One row per document."""
        return self.table("documents")

    @property
    def rows(self) -> pl.LazyFrame:
        """One row per sampled query position."""
        return self.table("rows")

    def table(self, name: str) -> pl.LazyFrame:
        """The table `name` as a lazy frame."""
        if name not in TABLES:
            raise InputError(f"table: {name!r} is none of {', '.join(TABLES)}")
        config = f"config={self.config}" if self.config in self.configurations(name) else "**"
        if config == "**":
            self._check_unambiguous(name)
        shards = sorted((self.path / name).glob(f"dump=*/{config}/*.parquet"))
        if broken := next((shard for shard in shards if not is_whole(shard)), None):
            command = COMMANDS.get(name, "enumerate")
            raise InputError(f"store: {broken} is cut short; `ceiling {command}` again writes it anew")
        frame = scan(name, shards)
        several = len({shard.parent for shard in shards}) > 1
        return _one_anchor(frame) if name == "audit" and several else frame

    def check(self) -> None:
        """Raise `InputError` unless the store exists and its configurations are unambiguous."""
        if not self.path.is_dir():
            raise InputError(f"store: no folder {self.path}; `ceiling enumerate --store` makes one")
        if self.config is None:
            self._check_unambiguous("instances")
            return
        known = sorted({config for table in CONFIGURED for config in self.configurations(table)})
        if known and self.config not in known:
            raise InputError(f"config: {self.config!r} is not in {self.path}; there is {', '.join(known)}")

    def configurations(self, table: str) -> list[str]:
        """The ids of the configurations that `table` holds results of."""
        return configurations(self.path, table)

    def _check_unambiguous(self, table: str) -> None:
        for folder in sorted((self.path / table).glob("dump=*")):
            configs = configurations(self.path, table, folder.name.removeprefix("dump="))
            records = [_record(folder, config) for config in configs]
            if len(configs) > 1 and not are_apart(table, records):
                described = ", ".join(
                    c + _budgets(record) for c, record in zip(configs, records, strict=True)
                )
                raise InputError(
                    f"store: {self.path} holds {len(configs)} configurations of {folder.name} "
                    f"({described}); name one with --config"
                )


class RemoteStore(Store):
    """Lazy frames over a copy of a store that only polars can reach; what is cut short fails when read."""

    def __init__(self, uri: str, config: str | None = None) -> None:
        super().__init__(Path(uri), config)
        self.uri = uri.rstrip("/")

    def table(self, name: str) -> pl.LazyFrame:
        """The table `name` as a lazy frame; without shards an empty one."""
        if name not in TABLES:
            raise InputError(f"table: {name!r} is none of {', '.join(TABLES)}")
        if self.config and name in CONFIGURED:
            frame = self._scan(name, f"dump=*/config={self.config}")
            if frame is not None or name == "instances":
                return scan(name, ()) if frame is None else frame
        frame = self._scan(name, "**")
        if frame is not None and name in CONFIGURED and name != "instances":  # `check` has seen to those
            rule = APART.get(name, ())
            self._check_unique(frame.select("dump", *rule, "config").unique().collect())
        return scan(name, ()) if frame is None else frame

    def _scan(self, table: str, folder: str) -> pl.LazyFrame | None:
        """What a folder pattern of `table` matches; None where that is nothing."""
        pattern = f"{self.uri}/{table}/{folder}/*.parquet"
        try:
            pl.scan_parquet(pattern, hive_partitioning=False).collect_schema()
        except pl.exceptions.ComputeError as error:
            if "paths were empty" not in str(error):
                raise
            return None
        return scan(table, pattern)

    def check(self) -> None:
        """Raise `InputError` unless there are results, and instances of one configuration a dump."""
        pairs = self.instances.select("dump", "config").unique().collect()
        of_config = f"dump=*/config={self.config or '*'}"
        if pairs.is_empty() and all(self._scan(table, of_config) is None for table in CONFIGURED):
            of = f" of configuration {self.config}" if self.config else ""
            raise InputError(f"store: no instances{of} at {self.uri}")
        self._check_unique(pairs)

    def _check_unique(self, answers: pl.DataFrame) -> None:
        """Raise `InputError` where two configurations answer the same of a dump."""
        same = pl.struct(pl.exclude("config")).is_duplicated()
        if repeated := answers.filter(same)["config"].unique().sort().to_list():
            raise InputError(
                f"store: {self.uri} holds several configurations of a dump ({', '.join(repeated)}); "
                "name one with --config"
            )


def _one_anchor(audit: pl.LazyFrame) -> pl.LazyFrame:
    """Every configuration of an audit has run the anchor: of equal records of it, the first one's."""
    of = ["dump", "backend", "dtype", *IDENTITY["audit"]]
    first = pl.col("config") == pl.col("config").min().over(of)
    return audit.filter((pl.col("role") != "anchor") | first)


def _record(folder: Path, config: str) -> dict[str, Any] | None:
    """What a configuration stands for, where its record can be read."""
    try:
        record = json.loads((folder / f"config={config}" / "config.json").read_text())
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def _budgets(record: dict[str, Any] | None) -> str:
    """The budgets and extras of a configuration, its selectors, or its presses and backend."""
    found = record or {}
    if isinstance(extras := found.get("extras"), dict):
        return ": s+extra " + " ".join(f"{s}+{extra}" for s, extra in extras.items())
    if isinstance(chosen := found.get("selectors"), list):
        return ": " + " ".join(str(each.get("name")) for each in chosen if isinstance(each, dict))
    if isinstance(presses := found.get("presses"), list):
        return f": {' '.join(map(str, presses))} on {found.get('backend')}"
    return ""
