"""The audit's figures: nothing clipped or small, every mark where the table has it, one look a press."""

from functools import cache

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from ceiling.analysis.audit_bytes import bytes_table
from ceiling.analysis.audit_cells import FLOOR, anchor_table, cell_table
from ceiling.analysis.audit_contrasts import backend_table
from ceiling.analysis.audit_flips import sharp_cell
from ceiling.analysis.audit_join import agreement, ceiling_scores
from ceiling.analysis.audit_reference import (
    VERDICTS,
    numeric,
    paper_anchors,
    paper_axes,
    paper_backends,
    paper_deltas,
    paper_verdicts,
)
from ceiling.analysis.audit_sight import sight_table
from ceiling.analysis.audit_verdicts import verdict_table
from ceiling.cli.figures import scripts_folder
from ceiling.plots.audit_anchors import anchor_dots
from ceiling.plots.audit_backends import backend_dots
from ceiling.plots.audit_ceilings import ceiling_dots
from ceiling.plots.audit_gaps import by_arm, flip_plot, gap_panels
from ceiling.plots.audit_looks import HATCH, looks
from ceiling.plots.audit_shares import DODGE, share_lines
from ceiling.plots.audit_sharp import sharp_dots
from ceiling.plots.audit_sight import sight_dots
from tests.readable import assert_readable
from tests.toy_audit import toy_audit
from tests.toy_ceilings import toy_ceilings

DRAWS = 20
AXES = ("retrieval", "aggregation", "multihop")
SMALL = {"instances": 5, "tasks": ("niah_single_1", "cwe", "vt"), "budgets": ("ratio=0.5", "ratio=0.9")}
FORMS = {"adakv__storage=ragged": (0.0, 0.15), "snapkv__window=16": (0.0, 0.3), "pyramidkv": (0.0, 0.1)}


@cache
def audit(name):
    many = {
        "one": lambda: toy_audit(anchors={"multihop": 0.2}, **SMALL, **FORMS),
        "two": lambda: toy_audit(2, **SMALL),
        "one arm of aware": lambda: toy_audit(arms=("agnostic", "aware-kvpress"), **SMALL),
    }
    return many[name]()


@cache
def reference(name):
    return pl.read_csv(scripts_folder() / "reference" / f"audit_{name}.csv", infer_schema=False)


def last(table):
    return table.filter(model=table["model"][-1])


def flip(frame):
    paper = numeric(paper_verdicts(reference("table2_verdict")), VERDICTS)
    return flip_plot(last(verdict_table(frame, draws=DRAWS)), cell_table(frame, draws=0), paper)


def axes_panels(frame):
    mine = by_arm(last(verdict_table(frame, by_axis=True, draws=DRAWS)))
    theirs = by_arm(numeric(paper_axes(reference("table3_6_axes")), VERDICTS))
    return gap_panels(*({axis: part.filter(axis=axis) for axis in AXES} for part in (mine, theirs)))


def sight(frame):
    table = sight_table(frame, draws=DRAWS)
    paper = numeric(paper_deltas(reference("table2_verdict")), ["delta"])
    return sight_dots(table.filter(model=max(table["model"])), paper)


def anchors(frame):
    paper = numeric(paper_anchors(reference("table1_anchors")), ["anchor"])
    return anchor_dots(anchor_table(frame, draws=DRAWS), paper, FLOOR)


def backends(frame):
    other = frame.filter(pl.col("press").is_in(["full", "keydiff", "streaming_llm"]))
    both = pl.concat([frame, other.with_columns(backend=pl.lit("sdpa"))])
    ends = ("difference", "difference_low", "difference_high")
    return backend_dots(
        backend_table(both, draws=DRAWS), numeric(paper_backends(reference("fig5_backend")), ends)
    )


DRAW = {
    "table1": anchors,
    "figure1": flip,
    "table3": axes_panels,
    "figure2": lambda frame: sharp_dots(sharp_cell(frame, draws=DRAWS)),
    "figure3": sight,
    "figure5": backends,
    "bytes": lambda frame: share_lines(bytes_table(frame, draws=DRAWS)),
    "ceilings": lambda frame: ceiling_dots(ceiling_scores(toy_ceilings(frame), frame, draws=DRAWS)),
}
CASES = [(name, store) for name in DRAW for store in ("one", "two")]


@pytest.mark.parametrize(("name", "store"), [*CASES, ("figure1", "one arm of aware")])
def test_every_text_is_inside_apart_and_large_enough(name, store, monkeypatch):
    assert_readable(DRAW[name](audit(store)), monkeypatch)


def marks(axes, *markers):
    """Every mark (x, y) of the lines that have one of these markers."""
    lines = [line for line in axes.lines if line.get_marker() in markers]
    return [tuple(map(float, xy)) for line in lines for xy in zip(*line.get_data(), strict=True)]


def test_a_press_has_one_colour_and_marker_whatever_stands_beside_it():
    table = verdict_table(audit("one"), draws=0)
    every, few = looks(table), looks(table.filter(pl.col("press").is_in(["snapkv", "random"])))
    assert all(every[label] == look for label, look in few.items())
    assert every["snapkv"][:2] == every["snapkv:window=16"][:2]
    assert every["snapkv"].fill != every["snapkv:window=16"].fill
    default = {label: look for label, look in every.items() if ":" not in label}
    assert len({look.marker for look in default.values()}) == len(default)
    trivial = {"random", "knorm", "streaming_llm"}
    assert {label for label, look in default.items() if isinstance(look.colour, str)} == trivial


def test_figure1_has_a_mean_a_press_and_arm_a_point_a_cell_and_hollow_ones_at_the_floor():
    frame = audit("one")
    table = verdict_table(frame, draws=0)
    (axes,) = flip(frame).axes
    means = by_arm(table)
    assert sorted(x for x, _ in marks(axes, "o", "^", "s")) == sorted(means["gap"])
    cells = cell_table(frame, draws=0)
    assert len(marks(axes, ".")) == cells.height
    hollow = [line for line in axes.lines if line.get_marker() == "." and line.get_mfc() == "white"]
    assert sum(len(line.get_xdata()) for line in hollow) == cells.filter("floor").height > 0
    crosses = [x for x, _ in marks(axes, "x")]
    assert len(crosses) == 6 * 2
    assert {0.171, 0.183, -0.133} <= set(crosses)


def test_figure1_gives_delta_with_its_interval_at_the_margin():
    frame = audit("one")
    row = verdict_table(frame, draws=DRAWS).filter(label="keydiff").row(0, named=True)
    value, low, high = (row[f"delta_aware_scores{end}"] for end in ("", "_low", "_high"))
    texts = [text.get_text() for text in flip(frame).axes[0].texts]
    assert f"{value:+z.3f} [{low:z.2f}, {high:z.2f}]".replace("-", "−") in texts


def test_an_axis_at_the_floor_is_hatched_and_has_no_mark_of_ours():
    retrieval, _, multihop = axes_panels(audit("one")).axes
    assert multihop.get_title() == "multihop (floor)"
    assert not marks(multihop, "o", "^", "s")
    assert [p.get_hatch() for p in multihop.patches if p.get_hatch()] == [HATCH]
    assert len(marks(retrieval, "o", "^", "s")) == 12 * 3
    assert not any(patch.get_hatch() for patch in retrieval.patches)


def test_figure2_marks_the_press_that_the_cell_was_chosen_for():
    cell = sharp_cell(audit("one"), draws=DRAWS)
    (axes,) = sharp_dots(cell).axes
    bold = [tick.get_text() for tick in axes.get_yticklabels() if tick.get_fontweight() == "bold"]
    assert [name.replace("\n", "") for name in bold] == [cell["flipped"][0]]
    assert sorted(x for x, _ in marks(axes, "o", "^")) == sorted(cell["score"])


def test_figure3_is_in_order_and_says_what_each_score_reads():
    frame = audit("one")
    (axes,) = sight(frame).axes
    order = [x for x, _ in sorted(marks(axes, "^"), key=lambda xy: xy[1])]
    assert order == sorted(order, reverse=True)
    texts = [text.get_text() for text in axes.texts]
    assert texts.count("nothing") == 3
    assert texts.count("last queries") == 5  # both forms of SnapKV and AdaKV, TOVA
    assert "0%" in texts


def test_a_press_that_masks_stands_at_all_bytes_and_every_point_is_there():
    table = bytes_table(audit("one"), draws=0)
    panels = share_lines(table).axes
    assert len(panels) == 3
    (masked,) = [line for line in panels[0].lines if line.get_marker() == "P" and line.get_mfc() != "white"]
    reach = DODGE * table["label"].n_unique() / 2
    assert np.abs(masked.get_xdata() - 100).max() <= reach
    presses = table.filter(pl.col("role") != "anchor", arm="agnostic")
    drawn = [y for _, y in marks(panels[0], *{look.marker for look in looks(presses).values()})]
    assert sorted(drawn) == sorted(presses["score"])


def test_ceilings_and_scores_agree_in_a_toy_where_errors_make_the_score():
    frame = audit("one")
    joined = ceiling_scores(toy_ceilings(frame), frame, draws=DRAWS)
    assert joined.select("arm", "rows_of", "budget").n_unique() == 3 * 2 * 2
    assert (
        joined["error_over_top"].is_between(joined["error_over_top_low"], joined["error_over_top_high"]).all()
    )
    assert agreement(joined)["rho"].median() < -0.8
    panels = ceiling_dots(joined).axes
    assert [axes.get_title() for axes in panels[::3]] == ["agnostic, question rows", "agnostic, answer rows"]
    mine = joined.filter(arm="agnostic", rows_of="question")
    drawn = marks(panels[0], *{look.marker for look in looks(mine).values()})
    assert sorted(drawn) == sorted(mine.select("error_over_top", "score").rows())
    low, high = panels[0].get_xlim()
    assert all(low < x < high for x, _ in drawn)


def test_what_was_judged_but_not_answered_is_left_out():
    frame = audit("one")
    ceilings = toy_ceilings(frame)
    more = ceilings.filter(pl.col("instance") == 0).with_columns(instance=pl.lit(99, pl.Int64))
    more = more.with_columns(error_over_top=1e6).select(ceilings.columns)
    whole, torn = (
        ceiling_scores(each, frame, draws=0)
        for each in (ceilings, pl.concat([ceilings, more.cast(dict(ceilings.schema))]))
    )
    assert_frame_equal(whole, torn)


def test_balancing_is_ticked_where_it_was_taken():
    frame = audit("one")
    none, some = toy_ceilings(frame), toy_ceilings(frame).with_columns(
        balance_over_top=pl.when(rows_of="answer").then(0.5 + pl.col("layer") / 10)
    )  # fmt: skip
    plain, figure = (ceiling_dots(ceiling_scores(each, frame, draws=0)) for each in (none, some))
    assert all(not marks(axes, "|") for axes in plain.axes)
    assert "balancing" not in [text.get_text() for text in plain.legends[0].get_texts()]
    assert [text.get_text() for text in figure.legends[0].get_texts()][-1] == "balancing"
    drawn = [{x for x, _ in marks(axes, "|")} for axes in figure.axes]
    assert drawn == [set()] * 3 + [{0.6}] * 3
    assert figure.axes[3].get_xlim()[0] < 0.6


def test_axes_at_the_floor_are_left_out_of_ceilings_too():
    frame = audit("one")
    assert ceiling_scores(toy_ceilings(frame), frame, draws=0)["instances"].unique().to_list() == [10]


def test_figure5_has_every_row_of_ours_and_the_papers_where_it_is_of_one_of_them():
    (axes,) = backends(audit("one")).axes
    names = [tick.get_text() for tick in axes.get_yticklabels()]
    assert names == [
        "full",
        *(f"{label} r={r}" for label in ("keydiff", "streaming_llm") for r in (0.5, 0.9)),
        "pooled",
    ]
    assert {x for x, _ in marks(axes, "x")} == {-0.286, -0.323, -0.037, -0.221}
