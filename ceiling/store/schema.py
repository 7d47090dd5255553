"""The tables of a store and their columns; undefined values are null, never NaN or infinite."""

import polars as pl

SCHEMA_VERSION = 1
"""Raised when a column changes meaning; new nullable columns keep it."""

INSTANCES: dict[str, pl.DataType] = {
    # identity: one query row of one head at one budget
    "dump": pl.String(),
    "config": pl.String(),
    "model": pl.String(),
    "document": pl.Int64(),
    "text_id": pl.String(),  # 12 hex digits of the document's tokens: the same text in another dump
    "layer": pl.Int64(),
    "head": pl.Int64(),
    "kv_head": pl.Int64(),
    "position": pl.Int64(),  # of the query, in tokens from 0
    "n_keys": pl.Int64(),  # of positive mass
    "s": pl.Int64(),  # budget
    # errors, in the units of the values
    "e_top": pl.Float64(),  # top-mass
    "e_pool": pl.Float64(),  # best subset of the pool
    "e_balance": pl.Float64(),  # balancing swaps from top-mass
    "e_geometric": pl.Float64(),  # Frank-Wolfe support, padded with top-mass
    "e_leverage": pl.Float64(),  # largest ridge leverage of the keys
    "free_top": pl.Float64(),  # re-solved weights on the top-mass set
    "free_pool": pl.Float64(),  # re-solved weights on the pool's best set
    "ef_fw": pl.Float64(),  # Frank-Wolfe distance after s steps, an upper bound of EF(s)
    # statistics of the row and ratios of the errors
    "dropped_mass": pl.Float64(),
    "phi": pl.Float64(),
    "radius": pl.Float64(),
    "sigma": pl.Float64(),
    "kappa": pl.Float64(),
    "closable": pl.Float64(),
    "closable_balance": pl.Float64(),
    "recovered": pl.Float64(),
    "pi": pl.Float64(),
    "pool_size": pl.Int64(),
    "subsets": pl.Int64(),  # evaluated
    "excluded": pl.Int64(),  # excluded by proof
    "swaps": pl.Int64(),
    "ties": pl.Int64(),
    "degenerate": pl.Boolean(),
    "status": pl.String(),
    # kept positions, ascending
    "kept_top": pl.List(pl.Int64()),
    "kept_pool": pl.List(pl.Int64()),
    "kept_balance": pl.List(pl.Int64()),
    # provenance; two runs of one unit agree in every column but host and seconds
    "engine": pl.String(),
    "host": pl.String(),
    "seconds": pl.Float64(),  # balancing and enumeration of this instance
}

DOCUMENTS: dict[str, pl.DataType] = {
    "dump": pl.String(),
    "model": pl.String(),
    "document": pl.Int64(),
    "tokens": pl.Int64(),
    "text": pl.String(),
    "text_sha256": pl.String(),
}

ROWS: dict[str, pl.DataType] = {
    "dump": pl.String(),
    "document": pl.Int64(),
    "row": pl.Int64(),
    "position": pl.Int64(),
    "tags": pl.List(pl.String()),
}

TABLES: dict[str, dict[str, pl.DataType]] = {
    "instances": INSTANCES,
    "documents": DOCUMENTS,
    "rows": ROWS,
}
