"""The figures of scores and tasks: nothing clipped or small, every mark where the table has it."""

import numpy as np
import polars as pl
import pytest

from ceiling.analysis.allocation import allocation_table
from ceiling.analysis.group_vote import group_vote_table
from ceiling.analysis.selection import selector_table, with_pool
from ceiling.analysis.tasks import task_table
from ceiling.cli.figures import scripts_folder
from ceiling.plots.allocation_lines import allocation_lines
from ceiling.plots.selector_dots import selector_dots
from ceiling.plots.selector_grid import selector_grid
from ceiling.plots.task_bounds import SHOWN, task_bounds
from ceiling.plots.vote_dots import vote_dots
from tests.readable import assert_readable
from tests.toy_store import hand_made, toy_documents, toy_instances, toy_rows, toy_scores

PAPER = pl.read_csv(scripts_folder() / "reference" / "forced_weights_selectors.csv")
FAMILIES = ("smollm2-135m", "gemma3-270m")
NATIVE = (4, 8, 16, 32, 64, 128, 256)
BOUNDS = '{"closable_median_max": 0.09, "headroom_ratio_max": 2, "auc_min": 0.9, "map_agreement_min": 0.8}'


def toys(*models, **options):
    return pl.concat([toy_instances(m, seed=i, **options) for i, m in enumerate(models)])


STORES = {
    "one": lambda: toys("smollm2-135m", documents=5, rows=2, budgets=NATIVE),
    "two": lambda: toys(*FAMILIES, documents=5, rows=2, budgets=(8, 64)),
    "four": lambda: toys(*(f"Instruct-{i}.5B" for i in range(4)), documents=2, rows=2, budgets=(4, 8)),
    "one budget": lambda: toys("smollm2-135m", documents=3, rows=2, budgets=(8,)),
    "hardly anything": lambda: hand_made({}, {"head": 1}),
}


def selectors(instances):
    return selector_table(toy_scores(instances), instances.filter(pl.col("s") <= 32), draws=20)


def with_a_users(instances):
    """With a rule of a long name, and one that is a thousand times worse."""
    scores = toy_scores(instances)
    users = scores.filter(selector="snapkv").with_columns(
        selector=pl.lit("snapkv:window=16,kernel=5,pooling=avg"), error=pl.col("error") * 1000
    )
    return selector_table(pl.concat([scores, users]), instances.filter(pl.col("s") <= 32), draws=20)


def tasks(instances):
    """Two tasks on every model of `instances`, which are the main text."""
    parts = [
        instances.with_columns(dump=pl.concat_str(pl.lit(text[5:8]), "dump"), text=pl.lit(text))
        for text in ("task:needle", "task:variable-chain")
    ]
    documents = pl.concat([toy_documents(part, part["text"][0]) for part in parts])
    frame = pl.concat(parts).drop("text")
    named = documents.with_columns(registered=pl.lit(BOUNDS), needles=pl.lit([1, 2], pl.List(pl.Int64)))
    return task_table(frame, named, toy_rows(frame, (256,)), instances, draws=20)


DRAW = {
    "figure3": lambda frame: selector_dots(with_pool(selectors(frame)), PAPER),
    "figure3 with a user's": lambda frame: selector_dots(with_pool(with_a_users(frame)), PAPER),
    "selection": lambda frame: selector_grid(selectors(frame)),
    "selection with a user's": lambda frame: selector_grid(with_a_users(frame)),
    "group_vote": lambda frame: vote_dots(group_vote_table(toy_scores(frame), draws=20), PAPER),
    "allocation": lambda frame: allocation_lines(allocation_table(toy_scores(frame), draws=20)),
    "tasks": lambda frame: task_bounds(tasks(frame)),
}


CASES = {
    "figure3": ("one", "two", "four", "hardly anything"),
    "figure3 with a user's": ("one budget",),
    "selection": ("two", "hardly anything"),
    "selection with a user's": ("one",),
    "group_vote": ("one", "two", "four", "hardly anything"),
    "allocation": ("one", "two", "hardly anything"),
    "tasks": ("two", "hardly anything"),
}
"""What is drawn of which store: a page of numbers takes seconds to look through."""


@pytest.mark.parametrize(("name", "store"), [(name, s) for name, stores in CASES.items() for s in stores])
def test_every_text_is_inside_apart_and_large_enough(name, store, monkeypatch):
    assert_readable(DRAW[name](STORES[store]()), monkeypatch)


def marks(axes):
    """Every mark (x, y) of the lines that have markers."""
    lines = [line for line in axes.lines if line.get_marker() not in ("", "None", "|", "_")]
    return [tuple(map(float, xy)) for line in lines for xy in zip(*line.get_data(), strict=True)]


def test_figure3_has_a_mark_a_selector_reading_and_budget_in_its_row():
    table = with_pool(selectors(STORES["two"]()))
    names = table["selector"].unique(maintain_order=True).to_list()
    panels = selector_dots(table, PAPER).axes
    assert len(panels) == 4
    for i, axes in enumerate(panels):
        mine = table.filter(model=sorted(FAMILIES)[i // 2], reading=("per-query", "cache")[i % 2])
        drawn = sorted((round(y), x) for x, y in marks(axes))
        wanted = sorted((names.index(row["selector"]), row["excess"]) for row in mine.iter_rows(named=True))
        assert drawn == wanted
        low, high = axes.get_xlim()
        assert all(low < x < high for x, _ in marks(axes))


def test_figure3_draws_the_papers_ranges_behind_its_selectors_only():
    table = with_pool(selectors(STORES["one"]()))
    names = table["selector"].unique(maintain_order=True).to_list()
    bands = [c.get_paths()[0].get_extents() for c in selector_dots(table, PAPER).axes[0].collections]
    found = {names[round((b.y0 + b.y1) / 2)]: (b.x0, b.x1) for b in bands if b.height == 1}
    deployed = dict.fromkeys(("snapkv", "h2o", "quest", "streaming-llm"), (1.4, 2.1))
    assert found == deployed | {"top-mass": (1.02, 1.03), "tova": (1.02, 1.03)}


def test_figure3_draws_no_band_behind_a_selector_without_a_mark_at_the_papers_budget():
    table = with_pool(selectors(STORES["one"]()))
    table = table.filter((pl.col("selector") != "quest") | (pl.col("s") != 8))
    y = table["selector"].unique(maintain_order=True).to_list().index("quest")
    bands = [c.get_paths()[0].get_extents() for c in selector_dots(table, PAPER).axes[0].collections]
    at = [round((b.y0 + b.y1) / 2) for b in bands if b.height == 1]
    assert len(at) == 5
    assert y not in at


def test_the_grid_sets_every_number_or_a_dash():
    table = selectors(STORES["one"]())
    excess, over, better = selector_grid(table).axes
    assert [len(axes.texts) for axes in (excess, over, better)] == [14 * 4, 14 * 7, 14 * 7]
    texts = {text.get_text() for text in excess.texts}
    assert texts == {f"{x:.2f}" for x in table["excess"].drop_nulls()}
    gone = table.with_columns(pl.when(pl.col("s") > 4).then("excess").alias("excess"))
    assert {t.get_text() for t in selector_grid(gone.with_columns(over_top=None)).axes[0].texts} <= texts


def test_group_vote_has_every_cost_and_the_papers_band():
    table = group_vote_table(toy_scores(STORES["two"]()), draws=20)
    (axes,) = vote_dots(table, PAPER).axes
    assert sorted(y for _, y in marks(axes)) == sorted(table["cost"])
    assert {round(x) for x, _ in marks(axes)} == {0, 1}
    (band,) = [p.get_extents().transformed(axes.transData.inverted()) for p in axes.patches]
    assert (band.y0, band.y1) == pytest.approx((1.06, 1.22))


def test_allocation_draws_both_sums_of_every_allocation():
    table = allocation_table(toy_scores(STORES["one"]()), draws=20)
    plain, scaled = allocation_lines(table).axes
    assert sorted(y for _, y in marks(plain)) == sorted(table["median"])
    assert sorted(y for _, y in marks(scaled)) == sorted(table["median_scaled"])


def test_tasks_are_hollow_where_a_bound_does_not_hold():
    table = tasks(STORES["two"]())
    for axes, quantity in zip(task_bounds(table).axes, SHOWN, strict=True):
        mine = table.filter(quantity=quantity)
        lines = [line for line in axes.lines if line.get_marker() not in ("", "None")]
        hollow = sum(line.get_markerfacecolor() == "white" for line in lines)
        assert hollow == (mine["verdict"] == "not held").sum()
        assert len(lines) == mine["value"].count()
        low, high = axes.get_xlim()
        reach = np.array([*mine["value"].drop_nulls(), *mine["bound"].drop_nulls()])
        assert ((low < reach) & (reach < high)).all()
