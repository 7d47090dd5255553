"""The result store: parquet shards written once, read as lazy frames, queried with SQL (schema 1)."""

from ceiling.store.check import Health as Health
from ceiling.store.check import Problem as Problem
from ceiling.store.check import Wanted as Wanted
from ceiling.store.check import check_store as check_store
from ceiling.store.compact import compact_store as compact_store
from ceiling.store.query import run_sql as run_sql
from ceiling.store.reader import Store as Store
from ceiling.store.reader import open_store as open_store
from ceiling.store.schema import COLUMNS as COLUMNS
from ceiling.store.schema import SCHEMA_VERSION as SCHEMA_VERSION
from ceiling.store.schema import TABLES as TABLES
from ceiling.store.shards import Shards as Shards
from ceiling.store.shards import config_id as config_id
from ceiling.store.shards import is_whole as is_whole

__all__ = [
    "COLUMNS",
    "SCHEMA_VERSION",
    "TABLES",
    "Health",
    "Problem",
    "Shards",
    "Store",
    "Wanted",
    "check_store",
    "compact_store",
    "config_id",
    "is_whole",
    "open_store",
    "run_sql",
]
