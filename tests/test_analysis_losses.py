"""Held-out loss: means and contrasts against plain numpy, planted effects found, planted holes refused."""

from itertools import product

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ceiling.analysis.bootstrap import document_weights
from ceiling.analysis.losses import (
    MOST_FLIPPED,
    PAIRS,
    contrasts,
    documents_of,
    loss_finding,
    loss_table,
    losses_note,
    sign_flip,
)
from ceiling.problem import InputError
from tests.toy_losses import DEPLOYED, toy_losses


def arm(frame, rule="top-mass", balanced="none", s=8, column="loss"):
    """One value a document, draws averaged, by plain numpy."""
    rows = frame.filter(rule=rule, balanced=balanced, s=s)
    return np.array(
        [rows.filter(document=d)[column].to_numpy().mean() for d in sorted(set(rows["document"]))]
    )


def one(table, **where):
    (row,) = table.filter(**where).iter_rows(named=True)
    return row


def test_an_arm_is_its_documents_mean_excess_with_draws_averaged_first():
    frame = toy_losses(draws=4)
    excess = arm(frame, balanced="random") - arm(frame, balanced="random", column="dense_loss")
    row = one(loss_table(frame, draws=200), rule="top-mass", balanced="random")
    assert row["excess"] == pytest.approx(excess.mean())
    resampled = [excess[np.repeat(np.arange(6), w)].mean() for w in document_weights(6, draws=200)[1:]]
    assert [row["excess_low"], row["excess_high"]] == pytest.approx(np.quantile(resampled, [0.025, 0.975]))
    assert row["relative"] == pytest.approx(excess.mean() / row["dense_loss"])
    assert (row["documents"], row["draws"], row["n"], row["balanced_share"]) == (6, 4, 6 * 511, 0.3)


def test_arms_stand_in_order_and_intervals_need_five_documents():
    table = loss_table(toy_losses(documents=4, budgets=(8, 16)), draws=20)
    first = table.filter(s=8).select("rule", "balanced").rows()
    assert first[:4] == [("top-mass", balanced) for balanced in ("none", "flat", "random", "all")]
    assert first[4:] == list(product(("snapkv", "h2o", "quest", "streaming-llm"), ("none", "flat")))
    assert table["excess_low"].null_count() == table.height
    assert table["interval"][0] == "none: 4 documents, at least 5 needed"


def test_a_contrast_is_the_paired_difference():
    frame = toy_losses()
    table = contrasts(frame)
    for first, second in PAIRS:
        difference = arm(frame, balanced=first) - arm(frame, balanced=second)
        row = one(table, rule="top-mass", first=first, second=second)
        assert row["difference"] == pytest.approx(difference.mean())
        assert row["positive"] == (difference > 0).sum()
    wanted = [("top-mass", *pair) for pair in PAIRS] + [(rule, "none", "flat") for rule in DEPLOYED]
    assert table.select("rule", "first", "second").rows() == wanted


def test_pairing_sees_what_documents_alone_would_hide():
    """Documents differ by ten times the effect, arms within one hardly."""
    frame = toy_losses(noise=0.001)
    spread = arm(frame).std()
    row = one(contrasts(frame), rule="top-mass", first="random", second="flat")
    assert row["difference_high"] - row["difference_low"] < spread / 10
    assert row["verdict"] == "flat better: less loss in 6 of 6 documents"
    assert (row["p"], row["draws_beaten"], row["draws"]) == (2 / 2**6, 3, 3)


PLANTED = [
    ({"flat": 0.05, "random": 0.02}, "better", "the flat cells beat as many random ones"),
    ({"flat": 0.02, "random": 0.05}, "worse", "as many random cells beat the flat ones"),
    ({"flat": 0.03, "random": 0.03}, "open", "it is open whether the flat cells beat"),
]


@pytest.mark.parametrize(("gains", "word", "sentence"), PLANTED)
def test_a_planted_effect_is_found_and_said_either_way(gains, word, sentence):
    frame = toy_losses(gains=gains, noise=0.005)
    arms, pairs = loss_table(frame), contrasts(frame)
    row = one(pairs, rule="top-mass", first="random", second="flat")
    assert word in row["verdict"]
    finding = loss_finding(arms, pairs)
    assert f"on toy-1 {sentence}" in finding.sentence
    assert f"{row['difference']:.3g} [{row['difference_low']:.3g}, " in finding.interval
    assert finding.n == "3,066 predictions of 6 documents (toy-1)"


def test_equal_arms_are_open_and_certain_of_nothing():
    frame = toy_losses(noise=0)
    same = frame.with_columns(loss=pl.col("dense_loss") + 0.1)
    table = contrasts(same)
    assert set(table["p"]) == {1.0}
    assert all(verdict.startswith("open: less loss in 0 of 6") for verdict in table["verdict"])


def test_a_family_without_random_cells_or_with_few_documents_is_said():
    frame = pl.concat([toy_losses("a", gains={"all": 0.1}), toy_losses("b", documents=3, budgets=(16,))])
    arms, pairs = loss_table(frame), contrasts(frame)
    finding = loss_finding(arms, pairs)
    assert "a was not run with both flat and random cells" in finding.sentence
    assert "on b it is open" in finding.sentence
    assert "at s = 16" in finding.sentence
    assert one(pairs, model="b", first="random")["verdict"].endswith("3 documents, too few for an interval")
    assert losses_note(arms).startswith("a, s = 8: n = 3,066 predictions of 6 documents after at least 512")


@pytest.mark.parametrize(("count", "said"), [(0, "no cells are flat"), (100, "all cells are flat")])
def test_where_no_cell_or_every_cell_is_flat_nothing_is_said_of_the_map(count, said):
    restricted = pl.col("balanced").is_in(["flat", "random"])
    losses = toy_losses().with_columns(
        balanced_cells=pl.when(restricted).then(count).otherwise("balanced_cells").cast(pl.Int64)
    )
    finding = loss_finding(loss_table(losses), contrasts(losses))
    assert f"on toy-1 {said}, so there is nothing to compare" in finding.sentence
    assert finding.interval == "none: no such pair"


def test_documents_of_every_arm_add_up_to_the_table():
    frame = toy_losses()
    points = documents_of(frame).group_by("rule", "balanced").agg(pl.col("excess").mean())
    both = loss_table(frame).join(points, on=["rule", "balanced"], suffix="_points")
    assert both["excess"].to_list() == pytest.approx(both["excess_points"].to_list())
    assert both.height == points.height == 12


@given(st.lists(st.integers(-40, 40), min_size=1, max_size=7))
def test_the_sign_flip_counts_every_pattern(differences):
    sums = [abs(sum(map(int.__mul__, differences, s))) for s in product((1, -1), repeat=len(differences))]
    wanted = sum(each >= abs(sum(differences)) for each in sums) / len(sums)
    assert sign_flip(np.array(differences) / 7) == wanted


def test_too_many_signs_are_not_tried():
    assert sign_flip(np.ones(MOST_FLIPPED + 1)) is None


DRAW_2 = (pl.col("draw") == 2) & (pl.col("document") == 3)
QUEST = (pl.col("rule") == "quest") & (pl.col("balanced") == "flat") & (pl.col("document") == 5)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: f.clear(), "the store holds none; run `ceiling loss`"),
        (lambda f: f.drop("kl"), "no column 'kl'"),
        (
            lambda f: f.with_columns(loss=pl.lit(float("nan"))),
            "loss holds a number that is null or not finite",
        ),
        (lambda f: f.with_columns(kl=None), "kl holds a number that is null"),
        (lambda f: f.with_columns(balanced=pl.lit("some")), "balanced is 'some', none of none, flat"),
        (lambda f: f.filter(~DRAW_2), "model toy-1, s = 8, document 3: top-mass, random .draw 2. is missing"),
        (lambda f: f.filter(~QUEST), "document 5: quest, flat is missing"),
        (lambda f: pl.concat([f, f.filter(QUEST)]), "document 5: quest, flat stands there 2 times"),
        (lambda f: f.with_columns(config=pl.when(QUEST).then(pl.lit("2")).otherwise("config")), "--config"),
        (lambda f: f.with_columns(dump=pl.when(QUEST).then(pl.lit("2")).otherwise("dump")), "--text"),
        (
            lambda f: f.with_columns(tokens=pl.when(QUEST).then(500).otherwise("tokens")),
            "document 5: 2 different tokens",
        ),
        (
            lambda f: f.with_columns(dense_loss=pl.col("dense_loss") + QUEST.cast(pl.Float64) * 0.01),
            "document 5: its dense_loss differs",
        ),
    ],
)
@pytest.mark.parametrize("table", [loss_table, contrasts])
def test_what_is_no_whole_grid_is_refused_by_name(change, said, table):
    with pytest.raises(InputError, match=f"losses: .*{said}"):
        table(change(toy_losses()))


def test_a_rule_or_budget_run_later_stands_beside_the_others():
    frame = toy_losses(budgets=(8, 16))
    later = pl.when((pl.col("rule") == "quest") | (pl.col("s") == 16)).then(pl.lit("2" * 8))
    assert loss_table(frame.with_columns(config=later.otherwise("config"))).equals(loss_table(frame))


def test_many_holes_are_counted_and_one_rule_alone_has_no_contrast():
    with pytest.raises(InputError, match=r"and \d+ more$"):
        loss_table(toy_losses().filter((pl.col("document") < 2) | (pl.col("rule") == "quest")))
    with pytest.raises(InputError, match="no two arms of one rule"):
        contrasts(toy_losses().filter(pl.col("balanced") == "none"))
