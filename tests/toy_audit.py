"""A toy audit: a frame that looks like a store's `audit`, made from a seed, whose effects are known."""

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np
import polars as pl

from ceiling.audit.budget import Arm, Budget
from ceiling.store import TABLES

AXES = {
    "niah_single_1": "retrieval",
    "niah_multikey_1": "retrieval",
    "niah_multivalue": "retrieval",
    "cwe": "aggregation",
    "fwe": "aggregation",
    "vt": "multihop",
    "qa_1": "multihop",
    "qa_2": "multihop",
}
"""The tasks of a toy audit and their axes."""

ANCHORS = {"retrieval": 0.9, "aggregation": 0.7, "multihop": 0.6}
"""Mean score of the full cache."""

BUDGETS = ("ratio=0.25", "ratio=0.5", "ratio=0.75", "ratio=0.9")
LOST = 0.3
"""Of the anchor's score, by a press without an effect, when nothing were kept."""

EFFECTS = {
    "snapkv": (-0.07, 0.13),
    "h2o": (-0.1, -0.08),
    "tova": (0.08, 0.2),
    "expected_attention": (-0.05, -0.03),
    "adakv": (0.0, 0.15),
    "keydiff": (0.15, 0.16),
    "random": (-0.2, -0.2),
    "knorm": (-0.1, -0.1),
    "streaming_llm": (0.0, 0.0),
}
"""By label of a press, what it adds to the mean score: in the agnostic arm, in the two others."""

SEEN = {"snapkv": 1.0, "h2o": 0.95, "tova": 1.0, "expected_attention": 0.6, "adakv": 1.0, "keydiff": 0.3}
"""Share of records whose kept set the question changes; all of a press that is not named, but the trivial."""

TRIVIAL = ("random", "knorm", "streaming_llm")
CONTEXT, QUESTION, PREFIX, ROOM = 930, 20, 10, 20
TOKEN_BYTES = 46080
"""Of keys and values of a token: 30 layers, 3 KV heads, 64 components, float32."""

GOLDS = 4


def toy_audit(
    models: int = 1,
    instances: int = 20,
    seed: int = 0,
    *,
    tasks: Sequence[str] = tuple(AXES),
    budgets: Sequence[str] = BUDGETS,
    arms: Sequence[str] = tuple(Arm),
    backends: Sequence[str] = ("eager",),
    questions: int = 1,
    anchors: dict[str, float] | None = None,
    shifts: dict[str, float] | None = None,
    **effects: tuple[float, float],
) -> pl.DataFrame:
    """A whole and valid frame of audit records.

    Parameters
    ----------
    models, instances, seed, questions : int
        Models are toy-1, toy-2 ...
    tasks, budgets, arms, backends : sequence of str
    anchors : dict
        Mean score of the full cache by axis, in place of `ANCHORS`.
    shifts : dict
        What a backend adds to every mean score.
    effects : tuple of two floats
        By label of a press, in place of `EFFECTS` or beside it; labels with parameters too. The mean
        score at share r evicted is anchor (1 - 0.3 r) + effect, between 0 and 1.

    Notes
    -----
    A score is the share of four golds found; a gold is found where a number that all records of an
    instance share, or in three of ten golds one of the record's own, is below the mean score. A trivial
    press is blind: its agnostic and aware-scores records agree. AdaKV only masks.
    """
    anchors, shifts = ANCHORS | (anchors or {}), shifts or {}
    added = {label.replace("__", ":"): effect for label, effect in (EFFECTS | effects).items()}
    parts = []
    for m in range(models):
        for task in tasks:
            axis = AXES.get(task) or _axis(task)
            for question in range(questions):
                common = _rng(seed, m, task, question).random((instances, GOLDS))
                for backend in backends:
                    where = {"model": f"toy-{m + 1}", "backend": backend, "task": task, "axis": axis}
                    anchor = anchors[axis] + shifts.get(backend, 0.0)
                    for arm in map(Arm, arms):
                        asked = where | {"question": question, "arm": str(arm), "seed": seed}
                        parts.append(_records(asked, common, "full", None, anchor, seed))
                        for label, effect in added.items():
                            for budget in map(Budget.parse, budgets):
                                evicted = 1 - budget.kept(arm, CONTEXT, QUESTION) / CONTEXT
                                mean = anchor * (1 - LOST * evicted) + effect[arm is not Arm.AGNOSTIC]
                                parts.append(_records(asked, common, label, budget, mean, seed))
    columns = {name: [value for part in parts for value in part[name]] for name in TABLES["audit"]}
    return pl.DataFrame(columns, schema=TABLES["audit"])


def _records(
    where: dict[str, Any], common: np.ndarray, label: str, budget: Budget | None, mean: float, seed: int
) -> dict[str, list[Any]]:
    """Columns of the records of one press and budget, one an instance."""
    n, arm, after = len(common), Arm(where["arm"]), where["arm"] != Arm.AWARE_KVPRESS
    press, _, parameters = label.partition(":")
    blind = press in (*TRIVIAL, "full") and after
    own = {name: value for name, value in where.items() if name != "seed"} | {"arm": "" if blind else arm}
    rng = _rng(seed, *own.values(), label, budget)
    noise = np.where(rng.random(common.shape) < 0.3, rng.random(common.shape), common)
    score = ((common if label == "full" else noise) < mean).mean(axis=1)
    changed = after and rng.random(n) < SEEN.get(press, 1.0) * (arm is Arm.AWARE_SCORES) * (not blind)
    kept_ids = [
        f"{crc32(repr((where['task'], i, label, str(budget), str(arm) if seen else '')).encode()):016x}"
        for i, seen in enumerate(np.broadcast_to(changed, n))
    ]
    whole = arm.compressed(CONTEXT, QUESTION)
    kept = whole if budget is None else budget.kept(arm, CONTEXT, QUESTION)
    held = whole if press == "adakv" and "ragged" not in parameters else kept
    role = {"full": "anchor"} | dict.fromkeys(TRIVIAL, "trivial")
    columns = where | {
        **{"dump": where["model"].encode()[-6:].hex(), "config": f"{crc32(where['backend'].encode()):08x}"},
        **{"dtype": "float32", "instance": np.arange(n), "press": press, "parameters": parameters},
        "role": role.get(press, "real" if press in EFFECTS else "other"),
        **{"budget": "none" if budget is None else str(budget), "ratio": budget.ratio if budget else 0.0},
        **{"score": score, "answer": "toy", "answer_tokens": [[1, 2]] * n, "status": "answered"},
        **{"truncated": rng.random(n) < 0.02, "prompt_tokens": CONTEXT + QUESTION + PREFIX},
        **{"context_tokens": CONTEXT, "question_tokens": QUESTION, "prefix_tokens": PREFIX},
        **{"room_tokens": ROOM, "nominal_bytes": kept * TOKEN_BYTES, "held_bytes": held * TOKEN_BYTES},
        "full_bytes": whole * TOKEN_BYTES,
        "begin_bytes": (held + PREFIX + QUESTION * after) * TOKEN_BYTES,
        **{"slots_min": kept, "slots_mean": float(kept), "slots_max": kept, "kept_id": kept_ids},
        **{"engine": "toy", "versions": "{}", "host": "toy", "seconds": rng.lognormal(-1, 0.2, n)},
    }
    return {k: v if isinstance(v, list) else np.broadcast_to(v, n).tolist() for k, v in columns.items()}


def _axis(task: str) -> str:
    return "retrieval" if task.startswith("niah") else "aggregation" if task in ("cwe", "fwe") else "multihop"


def _rng(*names: object) -> np.random.Generator:
    return np.random.default_rng(crc32("/".join(map(str, names)).encode()))
