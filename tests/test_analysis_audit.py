"""Tables of the audit: against slow numpy written from the definitions, and against planted effects."""

from itertools import combinations
from zlib import crc32

import numpy as np
import polars as pl
import pytest

from ceiling.analysis import (
    audit_bytes,
    audit_cells,
    audit_contrasts,
    audit_flips,
    audit_sight,
    audit_verdicts,
)
from ceiling.problem import InputError
from tests.toy_audit import TOKEN_BYTES, toy_audit

DRAWS = 300
BUDGETS = ("ratio=0.5", "ratio=0.9")
TASKS = ("niah_single_1", "niah_multikey_1", "vt")
TRIVIAL = ("knorm", "random", "streaming_llm")


@pytest.fixture(scope="module")
def frame():
    return toy_audit(instances=8, tasks=TASKS, budgets=BUDGETS)


def resampled(tasks, count, draws=DRAWS):
    """Instances of each task drawn with repetition, as the seeds' rule has it; first all of them once."""
    drawn = {}
    for task in tasks:
        rng = np.random.default_rng(crc32(f"audit/{task}".encode()))
        own = rng.integers(0, count, (draws, count), dtype=np.int32)
        drawn[task] = [list(range(count)), *own.tolist()]
    return drawn


def slow_means(frame, drawn, **where):
    """Mean score of one press in one cell in every resampling, record by record."""
    rows = frame.filter(*(pl.col(name) == value for name, value in where.items()))
    score = {(r["task"], r["instance"]): r["score"] for r in rows.iter_rows(named=True)}
    tasks = sorted({task for task, _ in score})
    return np.array(
        [np.mean([score[t, i] for t in tasks for i in drawn[t][b]]) for b in range(len(drawn[tasks[0]]))]
    )


def test_cells_equal_the_slow_definition(frame):
    cells = audit_cells.cell_table(frame, draws=DRAWS)
    assert cells.height == 2 * 3 * 2 * 9
    drawn = resampled(TASKS, 8)
    for press in ("snapkv", "knorm"):
        where = {"axis": "retrieval", "arm": "agnostic", "budget": "ratio=0.5"}
        row = cells.filter(label=press, **where).row(0, named=True)
        means = {t: slow_means(frame, drawn, press=t, **where) for t in (*TRIVIAL, press)}
        best = max(TRIVIAL, key=lambda t: means[t][0])
        gaps = means[press] - means[best]
        assert row["target"] == best
        assert row["gap"] == pytest.approx(gaps[0])
        assert (row["gap_low"], row["gap_high"]) == pytest.approx(
            tuple(np.quantile(gaps[1:], [0.025, 0.975]))
        )
        assert row["wins"] == (gaps[0] > 1e-9)


def test_verdicts_are_means_over_cells(frame):
    cells = audit_cells.cell_table(frame, draws=DRAWS)
    verdicts = audit_verdicts.verdict_table(frame, draws=DRAWS)
    assert set(verdicts["cells"]) == {4}
    for row in verdicts.iter_rows(named=True):
        mean = {}
        for arm in ("agnostic", "aware-scores", "aware-kvpress"):
            mine = cells.filter(label=row["label"], arm=arm)
            mean[arm] = mine["gap"].mean()
            name = arm.replace("-", "_")
            assert row[f"{name}_gap"] == pytest.approx(mean[arm])
            assert row[f"{name}_wins"] == mine["wins"].sum()
        assert row["delta_aware_scores"] == pytest.approx(mean["aware-scores"] - mean["agnostic"])
    axes = audit_verdicts.verdict_table(frame, by_axis=True, draws=0).filter(axis="retrieval")
    assert set(axes["cells"]) == {2}
    assert axes.filter(label="tova")["agnostic_gap"].item() == pytest.approx(
        cells.filter(label="tova", axis="retrieval", arm="agnostic")["gap"].mean()
    )


def test_delta_is_paired(frame):
    """Its interval is of the difference in each resampling, not of two intervals."""
    (board, other) = audit_cells.boards(frame, DRAWS)
    i = board.labels.index("snapkv")
    agnostic, aware = board.arms.index("agnostic"), board.arms.index("aware-scores")
    each = [b.gaps[aware, k, i] - b.gaps[agnostic, k, i] for b in (board, other) for k in range(2)]
    low, high = np.quantile(np.mean(each, axis=0)[1:], [0.025, 0.975])
    row = audit_verdicts.verdict_table(frame, draws=DRAWS).filter(label="snapkv").row(0, named=True)
    assert (row["delta_aware_scores_low"], row["delta_aware_scores_high"]) == pytest.approx((low, high))
    assert row["delta_aware_scores_low"] < 0.2 < row["delta_aware_scores_high"]  # as planted


def test_blind_presses_have_no_protocol_effect(frame):
    rows = audit_verdicts.protocol_table(frame, draws=DRAWS).filter(role="trivial", reading="aware-scores")
    assert rows.select("effect", "effect_low", "effect_high").unique().rows() == [(0.0, 0.0, 0.0)]


def test_protocol_effects_are_differences_of_scores(frame):
    where = {"press": "snapkv", "budget": "ratio=0.9"}
    drawn = resampled(TASKS, 8)
    axes = [
        slow_means(frame, drawn, arm="aware-scores", axis=axis, **where)
        - slow_means(frame, drawn, arm="agnostic", axis=axis, **where)
        for axis in ("multihop", "retrieval")
    ]
    effects = np.mean(axes, axis=0)
    row = (
        audit_verdicts.protocol_table(frame, draws=DRAWS)
        .filter(axis="all axes", reading="aware-scores", label="snapkv", budget="ratio=0.9")
        .row(0, named=True)
    )
    assert row["effect"] == pytest.approx(effects[0])
    assert row["effect"] == pytest.approx(row["aware"] - row["agnostic"])
    ends = tuple(np.quantile(effects[1:], [0.025, 0.975]))
    assert (row["effect_low"], row["effect_high"]) == pytest.approx(ends)


def test_groups_and_their_fair_choice(frame):
    cells = audit_cells.cell_table(frame, draws=0).filter(arm="agnostic")
    groups = audit_verdicts.group_table(frame, draws=DRAWS).filter(arm="agnostic")
    assert groups.height == 10  # none and each of nine left out
    real = sorted(set(cells.filter(role="real")["label"]))
    for without in (None, "keydiff", "streaming_llm"):
        left = [label for label in real if label != without]
        best, fair = [], []
        for _, cell in cells.group_by("axis", "budget"):
            score = dict(cell.select("label", "score").iter_rows())
            target = max(score[t] for t in TRIVIAL if t != without)
            best.append(max(score[label] for label in left) - target)
            size = 3 - (without in TRIVIAL)
            fair += [max(score[label] for label in some) - target for some in combinations(left, size)]
        row = groups.filter(pl.col("without").eq_missing(pl.lit(without, pl.String))).row(0, named=True)
        assert row["gap"] == pytest.approx(np.mean(best))
        assert row["fair_gap"] == pytest.approx(np.mean(fair))
        assert row["wins"] == sum(gap > 1e-9 for gap in best)
        assert row["fair_wins"] == pytest.approx(4 * np.mean(np.array(fair) > 1e-9))


def test_a_press_enters_a_group_once():
    frame = toy_audit(instances=2, tasks=("vt",), budgets=BUDGETS[:1], **{"snapkv:window=16": (0.4, 0.4)})
    frame = frame.with_columns(
        role=pl.when(pl.col("press") == "snapkv").then(pl.lit("real")).otherwise("role")
    )
    (board,) = audit_cells.boards(frame, 0)
    assert "snapkv:window=16" not in {board.labels[i] for i in board.group("real")}
    (board,) = audit_cells.boards(
        frame.filter((pl.col("press") != "snapkv") | (pl.col("parameters") != "")), 0
    )
    assert "snapkv:window=16" in {board.labels[i] for i in board.group("real")}


def test_an_alias_has_a_gap_interval_that_contains_0(frame):
    alias = frame.filter(press="snapkv").with_columns(press=pl.lit("also_snapkv"), role=pl.lit("other"))
    rows = audit_contrasts.contrast_table(pl.concat([frame, alias]), "also_snapkv", "snapkv", draws=DRAWS)
    assert rows.select("difference", "difference_low", "difference_high").unique().rows() == [(0.0, 0.0, 0.0)]
    same = toy_audit(instances=30, tasks=("vt",), budgets=("ratio=0.5",), streaming_twin=(0.0, 0.0))
    rows = audit_contrasts.contrast_table(same, "streaming_twin", "streaming_llm", draws=2000)
    assert ((rows["difference_low"] <= 0) & (rows["difference_high"] >= 0)).all()
    with pytest.raises(InputError, match="no record of press 'snapvk'; there are adakv, "):
        audit_contrasts.contrast_table(frame, "snapvk", "snapkv")


def test_a_contrast_with_the_anchor_is_what_a_press_loses(frame):
    rows = audit_contrasts.contrast_table(frame, "snapkv", "full", draws=0).filter(arm="agnostic")
    mean = frame.filter(arm="agnostic").group_by("press", "budget").agg(pl.col("score").mean())
    score = {(press, budget): s for press, budget, s in mean.iter_rows()}
    for budget in BUDGETS:
        lost = rows.filter(budget=budget)["difference"].item()
        assert lost == pytest.approx(score["snapkv", budget] - score["full", "none"])
    assert rows["pairs"].to_list() == [48, 24, 24]
    with pytest.raises(InputError, match="has it second: 'snapkv', 'full'"):
        audit_contrasts.contrast_table(frame, "full", "snapkv")


def test_cells_at_the_floor_are_shown_and_not_ranked():
    frame = toy_audit(instances=6, tasks=("cwe", "vt"), budgets=BUDGETS, anchors={"multihop": 0.1})
    anchors = audit_cells.anchor_table(frame, draws=0)
    assert dict(anchors.select("axis", "floor").iter_rows()) == {"aggregation": False, "multihop": True}
    cells = audit_cells.cell_table(frame, draws=0)
    assert cells.filter("floor")["wins"].null_count() == cells.filter("floor").height > 0
    verdicts = audit_verdicts.verdict_table(frame, draws=0)
    assert set(verdicts.select("cells", "floor_cells").iter_rows()) == {(2, 2)}
    assert set(audit_flips.arm_flips(frame, draws=0)["axis"]) == {"aggregation"}
    with pytest.raises(InputError, match=r"no axis of any model has an anchor of 0.3 or more"):
        audit_verdicts.verdict_table(frame.filter(axis="multihop"), draws=0)


def test_few_instances_have_no_interval():
    frame = toy_audit(instances=4, tasks=("vt",), budgets=BUDGETS[:1])
    anchors = audit_cells.anchor_table(frame)
    assert anchors["anchor_low"].to_list() == [None]
    assert anchors["interval"][0].startswith("none: a task has fewer than 5 instances")


def test_flips_equal_the_slow_definition(frame):
    flips = audit_flips.arm_flips(frame, draws=DRAWS)
    where = {"axis": "multihop", "budget": "ratio=0.9"}
    row = flips.filter(first="agnostic", second="aware-scores", **where).row(0, named=True)
    drawn = resampled(["vt"], 8)
    presses = sorted(set(frame["press"]) - {"full"})
    best = {}
    for arm in ("agnostic", "aware-scores"):
        means = np.array([slow_means(frame, drawn, press=p, arm=arm, **where) for p in presses])
        best[arm] = [{p for p, m in zip(presses, b, strict=True) if m >= b.max() - 1e-9} for b in means.T]
    apart = [not (one & other) for one, other in zip(best["agnostic"], best["aware-scores"], strict=True)]
    assert row["disagree"] is apart[0]
    assert set(row["first_winner"].split(" = ")) == best["agnostic"][0]
    assert row["probability"] == pytest.approx(np.mean(apart[1:]))


def test_models_that_are_one_never_disagree_and_unequal_instances_are_refused(frame):
    twin = frame.with_columns(model=pl.lit("twin"))
    flips = audit_flips.model_flips(pl.concat([frame, twin]), draws=DRAWS)
    assert flips.height == 2 * 3 * 2
    assert flips["probability"].max() == 0
    with pytest.raises(InputError, match=r"axis multihop is vt × 8 for toy-1 but vt × 7 for twin"):
        audit_flips.model_flips(pl.concat([frame, twin.filter(pl.col("instance") < 7)]), draws=0)
    for change in (pl.col("instance") + 1, pl.col("seed") + 1):
        with pytest.raises(
            InputError, match=r"toy-1 has \d+ instances that twin lacks, the first vt 0 of seed 0"
        ):
            audit_flips.model_flips(pl.concat([frame, twin.with_columns(change)]), draws=0)
    with pytest.raises(InputError, match="takes two"):
        audit_flips.model_flips(frame, draws=0)


def test_several_models_are_pooled_too(frame):
    both = pl.concat([frame, frame.with_columns(model=pl.lit("twin"))])
    verdicts = audit_verdicts.verdict_table(both, draws=0).filter(label="tova")
    assert verdicts["model"].to_list() == ["toy-1", "twin", "all models"]
    assert verdicts["cells"].to_list() == [4, 4, 8]
    assert verdicts["agnostic_gap"][2] == pytest.approx(verdicts["agnostic_gap"][0])


def test_the_sharp_cell_follows_its_rule(frame):
    sharp = audit_flips.sharp_cell(frame, draws=0)
    assert sharp.height == 2 * 9
    label = sharp["flipped"][0]
    gaps = dict(sharp.filter(label=label).select("arm", "gap").iter_rows())
    assert (gaps["agnostic"] > 0) != (gaps["aware-scores"] > 0)
    wide = (
        audit_cells.cell_table(frame, draws=0)
        .filter(role="real")
        .pivot("arm", index=("axis", "budget", "label"), values="gap")
    )
    turned = wide.filter((pl.col("agnostic") > 1e-9) != (pl.col("aware-scores") > 1e-9))
    largest = (turned["aware-scores"] - turned["agnostic"]).abs().max()
    assert abs(gaps["aware-scores"] - gaps["agnostic"]) == pytest.approx(largest)


@pytest.mark.parametrize("arms", [["agnostic"], ["aware-kvpress", "aware-scores"]])
def test_without_two_sides_there_is_no_effect_of_sight(arms: list[str]):
    frame = toy_audit(tasks=("vt",), instances=3, budgets=("ratio=0.5",)).filter(pl.col("arm").is_in(arms))
    with pytest.raises(InputError, match="audit: no press in both agnostic and one of"):
        audit_sight.sight_table(frame, draws=0)


def test_sight_is_the_share_of_kept_sets_that_differ(frame):
    table = audit_sight.visibility_table(frame, draws=DRAWS)
    seen = dict(table.select("label", "seen").iter_rows())
    assert {seen[press] for press in TRIVIAL} == {0.0}
    assert seen["snapkv"] == 1.0
    keydiff = frame.filter(press="keydiff")
    arms = [
        keydiff.filter(arm=a).sort("task", "instance", "budget")["kept_id"]
        for a in ("agnostic", "aware-scores")
    ]
    assert seen["keydiff"] == pytest.approx((arms[0] != arms[1]).mean())
    sight = audit_sight.sight_table(frame, draws=0).filter(reading="aware-scores")
    assert sight["delta"].is_sorted(descending=True)
    assert sight["label"][0] == "snapkv"
    with pytest.raises(InputError, match="visibility needs the arms agnostic and aware-scores"):
        audit_sight.visibility_table(frame.filter(pl.col("arm") != "aware-scores"))


def test_the_backend_control_finds_what_was_planted():
    backends = ("eager", "sdpa")
    frame = toy_audit(
        instances=20, tasks=("cwe",), budgets=("ratio=0.5",), backends=backends, shifts={"sdpa": 0.2}
    )
    table = audit_contrasts.backend_table(frame, draws=DRAWS)
    assert table["label"].to_list() == ["full", "keydiff", "streaming_llm", "pooled"]
    assert table["pairs"].to_list() == [60, 60, 60, 180]
    pooled = table.row(-1, named=True)
    assert pooled["difference_low"] < -0.1 > pooled["difference_high"] - 0.05
    assert (table["difference_high"] < 0).all()
    means = frame.filter(press="keydiff").group_by("backend").agg(pl.col("score").mean())
    gap = dict(means.iter_rows())
    assert table["difference"][1] == pytest.approx(gap["eager"] - gap["sdpa"])
    with pytest.raises(InputError, match="no record of full, keydiff, streaming_llm on backend sdpa"):
        audit_contrasts.backend_table(frame.filter(backend="eager"))
    short = (pl.col("backend") == "eager") | (pl.col("instance") < 19)
    with pytest.raises(InputError, match=r"9 records have no partner on backend sdpa"):
        audit_contrasts.backend_table(frame.filter(short))


def test_bytes_stand_beside_scores(frame):
    table = audit_bytes.bytes_table(frame, draws=0)
    masks = table.filter(label="adakv")
    assert masks["held_share"].to_list() == [1.0] * masks.height
    assert masks["nominal_share"].max() < 0.51
    row = table.filter(label="snapkv", arm="agnostic", budget="ratio=0.5").row(0, named=True)
    assert row["held_share"] == pytest.approx(465 / 930)
    assert row["begin_bytes"] == (465 + 30) * TOKEN_BYTES
    assert row["begin_share"] == pytest.approx((465 + 30) / (930 + 30))
    anchor = table.filter(label="full", arm="agnostic").row(0, named=True)
    assert (anchor["held_share"], anchor["begin_share"]) == (1.0, 1.0)
    for (_,), arm in table.group_by("arm"):
        for row in arm.iter_rows(named=True):
            fewer, better = pl.col("begin_share") - row["begin_share"], pl.col("score") - row["score"]
            strictly = (fewer < -1e-9) | (better > 1e-9)
            assert row["pareto"] is arm.filter(fewer <= 1e-9, better >= -1e-9, strictly).is_empty()


def test_matched_bytes_leave_out_what_holds_more(frame):
    table = audit_bytes.matched_table(frame, draws=DRAWS).filter(arm="agnostic")
    assert table["level"].unique().sort().to_list() == pytest.approx([92 / 930, 0.5], abs=1e-3)
    assert table.filter(label="adakv")["budget"].to_list() == [None, None]
    cells = audit_cells.cell_table(frame, draws=0).filter(arm="agnostic", budget="ratio=0.5")
    row = table.filter(label="tova", budget="ratio=0.5").row(0, named=True)
    assert row["gap"] == pytest.approx(cells.filter(label="tova")["gap"].mean())
    assert row["wins"] == cells.filter(label="tova")["wins"].sum()
    more = pl.when(pl.col("press") == "tova").then(pl.col("held_bytes") * 102 // 100).otherwise("held_bytes")
    table = audit_bytes.matched_table(frame.with_columns(held_bytes=more), draws=0).filter(arm="agnostic")
    assert table.filter(label="tova")["budget"].to_list() == ["ratio=0.9", None]


def test_cost_by_question_counts_a_shared_cache_once(frame):
    with pytest.raises(InputError, match="one question an instance"):
        audit_bytes.cost_table(frame)
    asked = toy_audit(instances=2, tasks=("vt",), budgets=("ratio=0.5",), questions=4)
    table = audit_bytes.cost_table(asked).filter(label="snapkv")
    held = dict(table.select("arm", "held_bytes").iter_rows())
    assert held["agnostic"] == pytest.approx(465 * TOKEN_BYTES / 4)
    assert held["aware-scores"] == pytest.approx(465 * TOKEN_BYTES)
    assert set(table.select("questions", "answers").iter_rows()) == {(4.0, 8)}


def test_natural_text_is_apart(frame):
    assert audit_cells.natural_table(frame, draws=0).is_empty()
    natural = frame.with_columns(
        axis=pl.when(pl.col("task") == "vt").then(pl.lit("natural")).otherwise("axis")
    )
    assert audit_cells.natural_table(natural, draws=0).height == 3 * 2 * 9
    assert set(audit_verdicts.verdict_table(natural, draws=0)["cells"]) == {2}


def test_other_budgets_are_cells_by_their_string():
    frame = toy_audit(instances=2, tasks=("vt",), budgets=("slots=100", "slots=400", "held=0.5"))
    (board,) = audit_cells.boards(frame, 0)
    assert board.budgets == ("held=0.5", "slots=400", "slots=100")


def test_the_fast_estimate_is_the_plain_one():
    for draws in (0, 1, 2, 39, 1000):
        replicates = np.random.default_rng(draws).integers(0, 9, draws + 1) / 9
        low, high = np.quantile(replicates[1:], [0.025, 0.975]) if draws else (None, None)
        found = {"x": replicates[0], "x_low": low, "x_high": high}
        assert audit_cells.estimate("x", replicates) == pytest.approx(found)
