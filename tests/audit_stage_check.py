"""The audit's stage on tiny models: resumed, in any order, and its negative controls.

Run by its test or by hand, ``python -m tests.audit_stage_check``; in a process of its own, since importing
kvpress replaces transformers' attention functions. Prints one line a check.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl
import torch
from safetensors.torch import load_file, save_file

from ceiling import open_store
from ceiling.stages import audit as stage
from ceiling.store import check_store
from ceiling.store.schema import IDENTITY
from tests.tiny_models import save

TASKS = ("niah_single_2", "vt:hops=1")
PRESSES = ("snapkv:window=16", "random", "adakv:window=16", "adakv:storage=ragged,window=16")
BUDGETS = ("ratio=0.5", "ratio=0.9")
OPTIONS: dict[str, Any] = {"tasks": TASKS, "presses": PRESSES, "budgets": BUDGETS} | {
    "tokens": 480,
    "instances": 3,
    "device": "cpu",
}
OWN = ("host", "seconds")
"""Columns in which two runs of one unit may differ."""

Frames = tuple[pl.DataFrame, pl.DataFrame]


def plan(model: Path, store: Path, **changes: Any) -> stage.Plan:
    return stage.plan(store, str(model), **OPTIONS | changes)


def tables(store: Path) -> Frames:
    """Both tables, in order."""
    opened = open_store(store)
    return tuple(
        opened.table(name).drop(OWN, strict=False).collect().sort(IDENTITY[name])
        for name in ("audit", "audit_ceilings")
    )  # type: ignore[return-value]


def ran(model: Path, store: Path, **changes: Any) -> pl.DataFrame:
    """The records of a whole run."""
    list(stage.run(plan(model, store, **changes)))
    return tables(store)[0]


def same(one: Frames, other: Frames) -> list[str]:
    return [f"{a.height} and {b.height}" for a, b in zip(one, other, strict=True) if not a.equals(b)]


def resumed(model: Path, folder: Path) -> Iterator[tuple[str, list[str]]]:
    whole = plan(model, folder / "whole")
    done = list(stage.run(whole))
    frames = tables(folder / "whole")
    runs = len(PRESSES) * len(BUDGETS)
    expected = len(done) * 3 * (runs + 1), len(done) * 3 * runs * 3 * 2
    yield "records and judgements", [] if tuple(f.height for f in frames) == expected else [str(expected)]
    yield "the store is sound", [str(p) for p in check_store(folder / "whole").problems]
    counted = sum(each.records for each in done) == frames[0].height == whole.records
    yield "records are counted", [] if counted and len(done) == 6 else [str(done)]

    part = plan(model, folder / "part")
    list(islice(stage.run(part), 3))
    left = plan(model, folder / "part").todo
    yield "three of six are left", [] if left == part.units[3:] else [str(left)]
    for shard in (folder / "part" / "audit").rglob("vt*.00000.aware-scores.parquet"):
        shard.unlink()  # as where a run is killed between two arms
    again = plan(model, folder / "part")
    arms = [len(unit.arms) for unit in again.todo]
    yield "one unit lacks one arm", [] if arms == [1, 3, 3, 3] else [str(arms)]
    list(stage.run(again))
    yield "killed and resumed equals uninterrupted", same(frames, tables(folder / "part"))
    yield "nothing is left", [str(u) for u in plan(model, folder / "part").todo]
    kept = [each.kept for each in stage.run_units(part, part.units)]
    yield "what exists is kept", [] if all(kept) else [str(kept)]

    turned = plan(model, folder / "turned")
    stage.prepare(turned)
    list(stage.run_units(turned, reversed(turned.units)))
    yield "instances in another order", same(frames, tables(folder / "turned"))
    more = plan(model, folder / "whole", instances=4)
    yield "more instances go on", [] if len(more.todo) == 2 and more.config == whole.config else ["no"]
    yield from contents(frames[0])


def contents(audit: pl.DataFrame) -> Iterator[tuple[str, list[str]]]:
    """What the records of one run say of each other."""
    anchors = audit.filter(press="full")
    by_arm = anchors.group_by("task", "instance").agg(pl.col("answer").n_unique(), pl.len())
    yield "the anchor answers alike in every arm", [str(r) for r in by_arm.rows() if r[2:] != (1, 3)]
    whole = anchors.filter(pl.col("held_bytes") != pl.col("full_bytes"))
    yield "the anchor holds everything", [str(row) for row in whole.rows()]
    masked = (pl.col("press") == "adakv") & ~pl.col("parameters").str.contains("ragged")
    wrong = audit.filter(masked & (pl.col("held_bytes") != pl.col("full_bytes")))
    yield "a press that only masks holds everything", [str(row) for row in wrong.rows()]
    wrong = audit.filter(~masked & (pl.col("held_bytes") != pl.col("nominal_bytes")))
    yield "all others hold what is nominal", [str(row) for row in wrong.rows()]
    key = ("task", "instance", "budget", "arm")
    one, other = (audit.filter(masked), audit.filter((pl.col("press") == "adakv") & ~masked))
    pairs = one.join(other, on=key).filter(
        (pl.col("kept_id") != pl.col("kept_id_right")) | (pl.col("answer") != pl.col("answer_right"))
    )
    yield "masked and enforced choose and answer alike", [str(row) for row in pairs.rows()]
    blind = audit.filter(pl.col("role") == "trivial", pl.col("arm") != "aware-kvpress")
    seen = blind.group_by("task", "instance", "press", "budget").agg(pl.col("kept_id", "answer").n_unique())
    yield "a question changes nothing for blind presses", [str(r) for r in seen.rows() if r[4:] != (1, 1)]


def controls(model: Path, folder: Path) -> Iterator[tuple[str, list[str]]]:
    presses = ("snapkv:window=16", "knorm", "streaming_llm")
    audit = ran(model, folder / "ends", presses=presses, budgets=("ratio=0.0", "ratio=0.99"), instances=1)
    told = ("answer_tokens", "score", "kept_id", "held_bytes")
    anchors = audit.filter(press="full").select("task", "arm", *told)
    everything = audit.filter(budget="ratio=0.0").join(anchors, on=("task", "arm"))
    wrong = [
        f"{row['press']} {name}"
        for row in everything.iter_rows(named=True)
        for name in told
        if row[name] != row[f"{name}_right"]
    ]
    yield "what keeps everything is the anchor", wrong if everything.height == 18 else ["too few"]
    little = audit.filter(budget="ratio=0.99").join(anchors, on=("task", "arm"))
    unlike = little.filter(pl.col("answer_tokens") != pl.col("answer_tokens_right")).height
    yield "what keeps next to nothing answers otherwise", [] if unlike > 9 else [f"{unlike} of 18"]

    asked = ran(model, folder / "asked", presses=presses[:1], instances=1, questions=2, tasks=TASKS[:1])
    sets = asked.filter(press="snapkv").group_by("arm", "budget").agg(pl.col("kept_id").n_unique())
    counts = {(arm, n) for arm, _, n in sets.rows()}
    right = {("agnostic", 1), ("aware-kvpress", 2), ("aware-scores", 2)}
    yield "questions share the agnostic arm's cache alone", [] if counts == right else [str(counts)]

    slots = ran(model, folder / "slots", presses=presses[:1], budgets=("slots=40", "held=0.5"), instances=1)
    exact = slots.filter(budget="slots=40").filter(
        (pl.col("slots_min") != 40) | (pl.col("slots_max") != 40) | (pl.col("slots_mean") != 40)
    )
    yield "slots are those asked for", [str(row) for row in exact.rows()]
    begin = slots.filter(budget="held=0.5").group_by("task").agg(pl.col("begin_bytes").n_unique())
    yield "at matched bytes all arms hold as much", [str(row) for row in begin.rows() if row[1] != 1]


def engines(model: Path, folder: Path) -> Iterator[tuple[str, list[str]]]:
    presses = ("snapkv:window=16", "knorm", "keydiff")
    options: dict[str, Any] = {"presses": presses, "instances": 1, "tasks": TASKS[:1]}
    shared = ran(model, folder / "shared", **options)
    alone = ran(model, folder / "alone", engine="native", **options)
    both = shared.join(alone, on=IDENTITY["audit"])
    wrong = [
        f"{row['press']} {row['arm']} {name}"
        for row in both.iter_rows(named=True)
        for name in ("answer_tokens", "kept_id", "held_bytes", "nominal_bytes", "slots_mean")
        if row[name] != row[f"{name}_right"]
    ]
    yield "kvpress by itself says the same", wrong if both.height == 2 * 7 else [str(both.height)]
    yield "engines are told apart", [] if set(alone["engine"]) == {"audit/1 native"} else ["no"]
    arms = ("agnostic", "aware-kvpress")
    uneven = ran(model, folder / "uneven", **options | {"presses": ("pyramidkv:window=16",)}, arms=arms)
    # at the larger ratio less is left than a pyramid needs, and kvpress falls back to equal layers
    spread = uneven.filter(pl.col("budget") == "ratio=0.5", pl.col("slots_max") <= pl.col("slots_min"))
    yield "layers of unequal lengths answer", [str(row) for row in spread.rows()]


def families(folder: Path) -> Iterator[tuple[str, list[str]]]:
    gemma = save(folder / "gemma", "gemma3_text", max_position_embeddings=1024)
    audit = ran(gemma, folder / "windowed", presses=("snapkv:window=16",), instances=1, ceilings="balance")
    wrong = audit.filter((pl.col("held_bytes") != pl.col("nominal_bytes")) | (pl.col("status") != "answered"))
    yield "windowed layers are held as they are", [str(row) for row in wrong.rows()]
    shares = audit.filter(budget="ratio=0.9").select(pl.col("held_bytes") / pl.col("full_bytes"))
    yield "and never evicted", [] if shares.to_series().min() > 0.1 else [str(shares)]  # type: ignore[operator]
    judged = tables(folder / "windowed")[1]
    taken = judged.filter(pl.col("e_balance").is_not_null(), pl.col("balance_over_top").is_between(0, 1))
    right = taken.height == judged.filter(pl.col("rows") > 0).height > 0 and set(taken["layer"]) == {1}
    yield "and balancing is taken where keys are evicted", [] if right else [str(judged)]

    broken = save(folder / "broken", max_position_embeddings=1024)
    weights = load_file(broken / "model.safetensors")
    last = next(name for name in weights if name.endswith("norm.weight") and "layers" not in name)
    for name in (last, next(name for name in weights if name.endswith("layers.0.input_layernorm.weight"))):
        weights[name] = torch.full_like(weights[name], torch.finfo(torch.float32).max)
        save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
        audit = ran(broken, folder / f"nan-{name}", presses=("knorm",), instances=1)
        told = set(audit.select("status", "score", "truncated").rows())
        said = [] if told == {("not finite", None, False)} else [str(told)]
        yield f"what is not finite from {name} on has no score", said


def main() -> int:
    """Print what was checked; 1 where anything is wrong."""
    torch.set_num_threads(1)
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = save(folder / "llama", max_position_embeddings=1024)
        checks: Sequence[tuple[Callable[..., Iterator[tuple[str, list[str]]]], tuple[Path, ...]]] = (
            (resumed, (model, folder)),
            (controls, (model, folder)),
            (engines, (model, folder)),
            (families, (folder,)),
        )
        for check, given in checks:
            for what, wrong in check(*given):
                failed |= bool(wrong)
                print(f"{what}: {'; '.join(wrong[:5]) if wrong else 'as it should be'}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
