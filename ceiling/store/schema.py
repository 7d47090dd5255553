"""The tables of a store and their columns; undefined values are null, never NaN or infinite."""

from typing import NamedTuple

import polars as pl

SCHEMA_VERSION = 1
"""Raised when a column changes meaning; new nullable columns keep it."""


class Column(NamedTuple):
    """A column's type, unit and meaning."""

    type: pl.DataType
    unit: str
    meaning: str


_TEXT, _WHOLE, _REAL, _FLAG = pl.String(), pl.Int64(), pl.Float64(), pl.Boolean()
_BYTES = pl.Binary()
_KEPT, _TAGS = pl.List(pl.Int64()), pl.List(pl.String())
_VALUES = "units of the values"

_INSTANCE: dict[str, Column] = {
    "dump": Column(_TEXT, "", "id of the captured dump, 12 hex digits"),
    "config": Column(_TEXT, "", "id of what determines the results, 8 hex digits: see config.json"),
    "model": Column(_TEXT, "", "id of the model"),
    "document": Column(_WHOLE, "", "document of the dump, from 0"),
    "text_id": Column(_TEXT, "", "12 hex digits of the document's tokens: the same text in another dump"),
    "layer": Column(_WHOLE, "", "layer of the model, from 0"),
    "head": Column(_WHOLE, "", "query head, from 0"),
    "kv_head": Column(_WHOLE, "", "key-value head that the query head reads"),
    "position": Column(_WHOLE, "tokens", "position of the query, from 0"),
    "n_keys": Column(_WHOLE, "keys", "visible keys of positive mass"),
    "s": Column(_WHOLE, "keys", "budget: how many keys are kept"),
}
"""One query row of one head at one budget: what every table of results begins with."""

INSTANCES: dict[str, Column] = _INSTANCE | {
    # errors
    "e_top": Column(_REAL, _VALUES, "forced error of the s largest masses (top-mass)"),
    "e_pool": Column(_REAL, _VALUES, "forced error of the best subset of the pool"),
    "e_balance": Column(_REAL, _VALUES, "forced error after balancing swaps from top-mass"),
    "e_geometric": Column(_REAL, _VALUES, "forced error of the Frank-Wolfe support, padded with top-mass"),
    "e_leverage": Column(_REAL, _VALUES, "forced error of the largest ridge leverages of the keys"),
    "free_top": Column(_REAL, _VALUES, "error of the top-mass set with its weights re-solved"),
    "free_pool": Column(_REAL, _VALUES, "error of the pool's best set with its weights re-solved"),
    "ef_fw": Column(_REAL, _VALUES, "Frank-Wolfe distance after s steps, an upper bound of EF(s)"),
    "ef": Column(
        _REAL,
        _VALUES,
        "least distance attained by re-solved weights on s keys: fully-corrective steps and swaps, ef_fw, "
        "free_top, free_pool, e_pool; a closer upper bound of EF(s)",
    ),
    # statistics of the row and ratios of the errors
    "dropped_mass": Column(_REAL, "probability", "mass outside the top-mass set"),
    "phi": Column(_REAL, _VALUES, "e_top times the mass kept: length of the unnormalised error"),
    "radius": Column(_REAL, _VALUES, "largest distance of a value from the dense output"),
    "sigma": Column(_REAL, _VALUES, "root of the mass-weighted mean squared distance from the dense output"),
    "spectral": Column(
        _REAL,
        "ratio",
        "largest eigenvalue of the second moments of the dropped residuals over their trace; null where they "
        "vanish",
    ),
    "kappa": Column(_REAL, "ratio", "e_top / e_pool; null where e_pool is below what masses resolve"),
    "closable": Column(_REAL, "ratio", "1 - e_pool / e_top: the share of e_top that a better set closes"),
    "closable_balance": Column(_REAL, "ratio", "1 - e_balance / e_top"),
    "recovered": Column(
        _REAL, "ratio", "(e_top - e_balance) / (e_top - e_pool); null where nothing is closable"
    ),
    "pi": Column(_REAL, "ratio", "e_pool / ef_fw, the paper's penalty of forced weights"),
    "pi_improved": Column(
        _REAL,
        "ratio",
        "e_pool / ef, the penalty over the closer bound, at least 1; null where ef is below what masses "
        "resolve",
    ),
    "pool_size": Column(_WHOLE, "keys", "candidates: top-mass and the extra ones"),
    "subsets": Column(_WHOLE, "subsets", "evaluated"),
    "excluded": Column(_WHOLE, "subsets", "excluded by proof, not evaluated"),
    "swaps": Column(_WHOLE, "swaps", "made by balancing"),
    "ties": Column(_WHOLE, "subsets", "that reach e_pool within the tie tolerance"),
    "degenerate": Column(_FLAG, "", "e_top is below what captured masses resolve: left out of ratios"),
    "status": Column(_TEXT, "", "how the answer ended: exact, trivial or degenerate"),
    # kept positions
    "kept_top": Column(_KEPT, "tokens", "positions of the top-mass set, ascending"),
    "kept_pool": Column(_KEPT, "tokens", "positions of the pool's best set, ascending"),
    "kept_balance": Column(_KEPT, "tokens", "positions after balancing, ascending"),
    # provenance; two runs of one unit agree in every column but host and seconds
    "engine": Column(_TEXT, "", "the kernels and their version"),
    "host": Column(_TEXT, "", "name of the computing machine"),
    "seconds": Column(_REAL, "s", "balancing and enumeration of this instance"),
}

CERTIFICATES: dict[str, Column] = _INSTANCE | {
    # the rest of the identity
    "mass_floor": Column(
        _REAL,
        "ratio",
        "rho: sets that keep less than rho times the top-mass set's mass do not count; 0 is none",
    ),
    # the row
    "decile": Column(_WHOLE, "", "of the dropped mass in the manifest's population; null without a manifest"),
    "dropped_mass": Column(_REAL, "probability", "mass outside the top-mass set"),
    "sigma": Column(_REAL, _VALUES, "root of the mass-weighted mean squared distance from the dense output"),
    "e_top": Column(_REAL, _VALUES, "forced error of the s largest masses (top-mass)"),
    "degenerate": Column(_FLAG, "", "e_top is below what captured masses resolve: left out of ratios"),
    # the interval
    "es_lower": Column(_REAL, _VALUES, "proved: no set that meets the floor has a smaller forced error"),
    "es_upper": Column(_REAL, _VALUES, "forced error of the best set known that meets the floor"),
    "closable_lower": Column(_REAL, "ratio", "1 - es_upper / e_top: a set that closes this share is known"),
    "closable_upper": Column(_REAL, "ratio", "1 - es_lower / e_top: no set closes more, proved"),
    "kept": Column(_KEPT, "tokens", "positions of the set that has es_upper, ascending"),
    "kept_mass": Column(_REAL, "probability", "mass of that set: without a floor it may be next to none"),
    "top_share": Column(_REAL, "ratio", "kept_mass over the mass of the top-mass set"),
    "status": Column(_TEXT, "", "how the search ended: optimal (proved), gap or trivial"),
    "stopped_by": Column(_TEXT, "", "what ended it: none, nodes, seconds or memory"),
    "nodes": Column(_WHOLE, "nodes", "of the branch and bound; the limit that decides"),
    "proof": Column(_BYTES, "", "what `ceiling certify --check` replays; null where nothing is proved"),
    "proof_bytes": Column(_WHOLE, "bytes", "length of the proof"),
    # provenance; two runs of one unit agree in every column but host and seconds
    "engine": Column(_TEXT, "", "the solver and its version"),
    "host": Column(_TEXT, "", "name of the computing machine"),
    "seconds": Column(_REAL, "s", "CPU time of search and proof of this instance"),
}

ZERO_ERRORS: dict[str, Column] = _INSTANCE | {
    # the rest of the identity
    "bits": Column(_WHOLE, "bits", "of a rounded mass, and of a component of a value with its sign"),
    # the rounded row
    "rounded_keys": Column(_WHOLE, "keys", "keys whose rounded mass is positive: the others are left out"),
    # the answer
    "status": Column(
        _TEXT,
        "",
        "does a kept set have error zero, exactly: yes, no (proved), unknown; trivial: s keys or fewer",
    ),
    "kept": Column(_KEPT, "tokens", "positions of such a set, ascending; null where none is known"),
    "stopped_by": Column(_TEXT, "", "what ended it: none, nodes (the limit on work), seconds or memory"),
    # provenance; two runs of one unit agree in every column but host and seconds
    "engine": Column(_TEXT, "", "which engine proved it, or was stopped last"),
    "host": Column(_TEXT, "", "name of the computing machine"),
    "seconds": Column(_REAL, "s", "CPU time of the decision of this instance"),
}

SCORES: dict[str, Column] = _INSTANCE | {
    # the rest of the identity
    "selector": Column(_TEXT, "", "the rule, with its parameters where they are not the defaults"),
    "reading": Column(
        _TEXT,
        "",
        "per-query: chosen anew for this query, with sight of it; cache: chosen before the query came, one "
        "set for all query heads of the KV head",
    ),
    "allocation": Column(
        _TEXT, "", "how the budget is spread over heads: uniform, map, mass-greedy, pyramid"
    ),
    # the kept set
    "kept_count": Column(
        _WHOLE, "keys", "kept: s, except where an allocation gives this head another budget"
    ),
    "group": Column(_WHOLE, "heads", "query heads that share the kept set"),
    "error": Column(_REAL, _VALUES, "forced error of the kept set"),
    "kept_mass": Column(_REAL, "probability", "mass of the kept set"),
    "overlap": Column(
        _REAL, "ratio", "share of the kept set that the top-mass set of as many keys also holds"
    ),
    # the row
    "e_top": Column(_REAL, _VALUES, "forced error of the s largest masses (top-mass)"),
    "dropped_mass": Column(_REAL, "probability", "mass outside the top-mass set of s keys"),
    "sigma": Column(_REAL, _VALUES, "root of the mass-weighted mean squared distance from the dense output"),
    "trivial": Column(_FLAG, "", "the row has at most s keys: all are kept, at error 0"),
    "degenerate": Column(_FLAG, "", "e_top is below what captured masses resolve: left out of ratios"),
    # provenance; two runs of one unit agree in every column but host and seconds
    "engine": Column(_TEXT, "", "the scorer and its version"),
    "host": Column(_TEXT, "", "name of the computing machine"),
    "seconds": Column(_REAL, "s", "CPU time of choosing and scoring, the unit's mean"),
}

LOSSES: dict[str, Column] = {
    "dump": Column(_TEXT, "", "id of the captured dump, 12 hex digits: whose texts, and whose map"),
    "config": Column(_TEXT, "", "id of what determines the records, 8 hex digits: see config.json"),
    "model": Column(_TEXT, "", "id of the model"),
    "document": Column(_WHOLE, "", "document of the dump, from 0"),
    "s": Column(_WHOLE, "keys", "kept by every row that predicts, in every head; all where it sees fewer"),
    "rule": Column(_TEXT, "", "selector of the cells (layer, head) that are not balanced, per query"),
    "balanced": Column(
        _TEXT,
        "",
        "cells where balancing chooses instead: none, all, flat (by the map of the other documents), or "
        "random (as many)",
    ),
    "draw": Column(_WHOLE, "", "number of the random choice of cells, from 0; 0 where nothing is drawn"),
    "cells": Column(_WHOLE, "cells", "layers times heads"),
    "balanced_cells": Column(_WHOLE, "cells", "where balancing chooses"),
    "context": Column(
        _WHOLE, "tokens", "before the first prediction; but for the last, their rows are dense"
    ),
    "tokens": Column(_WHOLE, "tokens", "predicted"),
    "loss": Column(_REAL, "nats/token", "cross-entropy of the next token, mean"),
    "dense_loss": Column(_REAL, "nats/token", "the same of the unmodified model"),
    "kl": Column(_REAL, "nats/token", "divergence of the unmodified model's distribution from this, mean"),
    "agreement": Column(_REAL, "ratio", "tokens of which both hold the same word most likely"),
    "kept_mass": Column(_REAL, "probability", "mean over layers, heads and predicting rows"),
    "deviation": Column(
        _REAL, "logits", "largest difference of the unrestricted operator from the unmodified model"
    ),
    "engine": Column(_TEXT, "", "what computed it, with its version"),
    "host": Column(_TEXT, "", "name of the computing machine"),
    "seconds": Column(_REAL, "s", "CPU time of the record"),
}

_AUDITED: dict[str, Column] = {
    "dump": Column(_TEXT, "", "id of the audited model: weights and tokenizer, 12 hex digits"),
    "config": Column(_TEXT, "", "id of what determines the records, 8 hex digits: see config.json"),
    "model": Column(_TEXT, "", "id of the model"),
    "backend": Column(_TEXT, "", "attention of prefill and decoding: eager or sdpa"),
    "dtype": Column(_TEXT, "", "of weights and cache; scores are taken in float32"),
    "task": Column(_TEXT, "", "the task, with its sizes where they are not the defaults"),
    "axis": Column(_TEXT, "", "retrieval, aggregation or multihop"),
    "instance": Column(_WHOLE, "", "of the task, from 0: the same facts for every model"),
    "question": Column(_WHOLE, "", "about the instance's context, from 0"),
    "arm": Column(
        _TEXT,
        "",
        "what scoring sees and eviction may take: agnostic (context, context), aware-scores (both, context), "
        "aware-kvpress (both, both: context and question)",
    ),
    "press": Column(_TEXT, "", "the eviction method; full is the anchor, which keeps everything"),
    "parameters": Column(_TEXT, "", "of the press where they are not the defaults, else empty"),
    "budget": Column(
        _TEXT,
        "",
        "ratio=r: share evicted of what is compressed; slots=n: kept of it a KV head; held=h: share of the "
        "bytes of context and question held when the answer begins; none for the anchor",
    ),
}
"""What tells audit records apart."""

AUDIT: dict[str, Column] = _AUDITED | {
    "role": Column(_TEXT, "", "of the press: real, trivial, anchor or other"),
    "ratio": Column(_REAL, "ratio", "share evicted, as asked for; null for other budgets, 0 for the anchor"),
    # the answer
    "score": Column(_REAL, "ratio", "share of the gold strings found, or whether any is; null if not finite"),
    "answer": Column(_TEXT, "", "greedy, up to a newline, an end token or its room"),
    "answer_tokens": Column(_KEPT, "token ids", "of the answer"),
    "truncated": Column(_FLAG, "", "the answer's room ended it"),
    "status": Column(_TEXT, "", "answered, or not finite: some logit was NaN or infinite"),
    # lengths, in this model's tokens
    "prompt_tokens": Column(_WHOLE, "tokens", "context, question and the answer's beginning"),
    "context_tokens": Column(_WHOLE, "tokens", "before the question"),
    "question_tokens": Column(_WHOLE, "tokens", "of the question"),
    "prefix_tokens": Column(_WHOLE, "tokens", "of the answer's beginning, read after eviction in every arm"),
    "room_tokens": Column(_WHOLE, "tokens", "that the answer may have"),
    # memory
    "nominal_bytes": Column(_WHOLE, "bytes", "that the kept entries take: what the budget promises"),
    "held_bytes": Column(_WHOLE, "bytes", "of the cache's storage after eviction, measured"),
    "full_bytes": Column(_WHOLE, "bytes", "of the same tokens' cache without eviction"),
    "begin_bytes": Column(
        _WHOLE,
        "bytes",
        "held_bytes and what question and answer's beginning add: held when the answer begins",
    ),
    "slots_min": Column(
        _WHOLE, "keys", "attended to after eviction, least over compressed layers and KV heads"
    ),
    "slots_mean": Column(_REAL, "keys", "their mean"),
    "slots_max": Column(_WHOLE, "keys", "their most"),
    "kept_id": Column(_TEXT, "", "16 hex digits of which positions are kept: equal sets, equal digits"),
    # provenance; two runs of one unit agree in every column but host and seconds
    "seed": Column(_WHOLE, "", "of the instances and of random presses"),
    "engine": Column(_TEXT, "", "the harness and its version; how scores were taken: shared or native"),
    "versions": Column(_TEXT, "", "JSON of the libraries' versions"),
    "host": Column(_TEXT, "", "name of the computing machine"),
    "seconds": Column(_REAL, "s", "CPU time of the record: its share of prefill and decoding"),
}

AUDIT_CEILINGS: dict[str, Column] = _AUDITED | {
    "layer": Column(_WHOLE, "", "layer of the model, from 0"),
    "rows_of": Column(_TEXT, "", "whose attention rows: question or answer"),
    "rows": Column(
        _WHOLE,
        "rows",
        "judged: query heads times positions, less those where nothing is evicted or e_top is degenerate",
    ),
    "count": Column(_REAL, "keys", "kept and visible to a row, mean"),
    "kept_mass": Column(_REAL, "probability", "mass of the kept set, mean"),
    "top_mass": Column(_REAL, "probability", "mass of the top-mass set of as many keys, mean"),
    "error": Column(_REAL, "ratio", "forced error of the kept set over sigma, mean"),
    "e_top": Column(_REAL, "ratio", "the same of the top-mass set"),
    "e_balance": Column(
        _REAL,
        "ratio",
        "the same after balancing swaps from top-mass, of the question's last row and the answer's first "
        "alone; null where not taken",
    ),
    "bound": Column(
        _REAL, "ratio", "2 D m / sigma, m the top-mass set's dropped mass: above e_top, proved; mean"
    ),
    "e_lower": Column(
        _REAL,
        "ratio",
        "proved lower bound of any such set's error over sigma, mean of the rows of e_balance; 0 for a row "
        "where no proof ended or more than 32 keys are kept; null where that many are in all, or not taken",
    ),
    "error_over_top": Column(_REAL, "ratio", "median of error / e_top over the rows"),
    "balance_over_top": Column(
        _REAL, "ratio", "median of e_balance / e_top over these two rows; null where not taken"
    ),
    "engine": Column(_TEXT, "", "the judge and its version"),
    "host": Column(_TEXT, "", "name of the computing machine"),
}

DOCUMENTS: dict[str, Column] = {
    "dump": Column(_TEXT, "", "id of the captured dump, 12 hex digits"),
    "model": Column(_TEXT, "", "id of the model"),
    "document": Column(_WHOLE, "", "document of the dump, from 0"),
    "tokens": Column(_WHOLE, "tokens", "length of the document"),
    "text": Column(_TEXT, "", "where the text came from"),
    "text_sha256": Column(_TEXT, "", "SHA-256 of the whole text, hex"),
    "needles": Column(_KEPT, "tokens", "positions of the facts a task asks for; null without a task"),
    "registered": Column(
        _TEXT, "", "JSON of the bounds that were written down before the capture; null where there are none"
    ),
}

ROWS: dict[str, Column] = {
    "dump": Column(_TEXT, "", "id of the captured dump, 12 hex digits"),
    "document": Column(_WHOLE, "", "document of the dump, from 0"),
    "row": Column(_WHOLE, "", "sampled query of the document, from 0"),
    "position": Column(_WHOLE, "tokens", "position of the query, from 0"),
    "tags": Column(_TAGS, "", "what the text says about this position, e.g. needle"),
}

COLUMNS: dict[str, dict[str, Column]] = {
    "instances": INSTANCES,
    "certificates": CERTIFICATES,
    "zero_errors": ZERO_ERRORS,
    "scores": SCORES,
    "losses": LOSSES,
    "audit": AUDIT,
    "audit_ceilings": AUDIT_CEILINGS,
    "documents": DOCUMENTS,
    "rows": ROWS,
}
"""Every table, column by column, as documentation (``ceiling store schema``)."""

TABLES: dict[str, dict[str, pl.DataType]] = {
    table: {name: column.type for name, column in columns.items()} for table, columns in COLUMNS.items()
}
"""The schema of every table."""

_OF_AUDIT = ("task", "instance", "arm", "question", "press", "parameters", "budget")

IDENTITY: dict[str, tuple[str, ...]] = {
    "instances": ("document", "layer", "head", "position", "s"),
    "certificates": ("document", "layer", "head", "position", "s", "mass_floor"),
    "zero_errors": ("document", "layer", "head", "position", "s", "bits"),
    "scores": ("document", "layer", "head", "position", "s", "selector", "reading", "allocation"),
    "losses": ("document", "s", "rule", "balanced", "draw"),
    "audit": _OF_AUDIT,
    "audit_ceilings": (*_OF_AUDIT, "layer", "rows_of"),
    "documents": ("document",),
    "rows": ("document", "row"),
}
"""What tells the rows of one dump and configuration apart; a compacted store is sorted by it."""

CONFIGURED = tuple(table for table, columns in COLUMNS.items() if "config" in columns)
"""Tables of results: a shard a unit, in a folder a configuration."""

AUDITED = tuple(table for table, columns in COLUMNS.items() if "arm" in columns)
"""Tables of the audit, whose units are a task's instance in an arm."""

UNIT: dict[str, tuple[str, ...]] = {
    table: ("task", "instance", "arm")
    if table in AUDITED
    else tuple(name for name in ("document", "layer") if name in columns)
    for table, columns in COLUMNS.items()
}
"""What a shard of each table is named for; its rows agree in it."""
