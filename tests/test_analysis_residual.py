"""The value-side residual: fits against plain least squares, planted effects found, the split exact."""

import numpy as np
import polars as pl
import pytest

from ceiling import objective
from ceiling.analysis.bootstrap import document_weights
from ceiling.analysis.residual import (
    out_of_document,
    residual_finding,
    residual_table,
    split_table,
)
from ceiling.problem import InputError, Row
from tests.toy_store import hand_made, toy_instances, toy_scores


def planted(mass, offset, noise=0.02, spread=0.5, **options):
    """Instances whose closable share rises so much with the logit of the mass and the log of the offset."""
    frame = toy_instances(**options).filter(status="exact")
    rng = np.random.default_rng(1)
    m, away = rng.uniform(0.1, 0.9, frame.height), rng.lognormal(0, spread, frame.height)
    closable = 0.5 + mass * np.log(m / (1 - m)) + offset * np.log(away) + rng.normal(0, noise, frame.height)
    e_top = m * away * frame["sigma"].to_numpy()
    return frame.with_columns(dropped_mass=pl.Series(m), e_top=pl.Series(e_top), closable=pl.Series(closable))


def by_hand(frame, columns):
    """Out-of-document R² by numpy's normal equations, and the sums it is made of."""
    y, x = frame["closable"].to_numpy(), np.column_stack([np.ones(frame.height), *columns])
    document = frame["document"].to_numpy()
    fit, mean = [], []
    for d in sorted(set(document)):
        own = document == d
        beta = np.linalg.solve(x[~own].T @ x[~own], x[~own].T @ y[~own])
        fit.append(((y[own] - x[own] @ beta) ** 2).sum())
        mean.append(((y[own] - y[~own].mean()) ** 2).sum())
    return 1 - sum(fit) / sum(mean), np.array(fit), np.array(mean)


def test_r2_is_that_of_the_other_documents_fit_with_its_interval():
    frame = toy_instances(documents=6, budgets=(8,)).filter(status="exact")
    table = residual_table(frame, draws=100)
    for layer, part in [(None, frame), (2, frame.filter(layer=2))]:
        m, sigma = part["dropped_mass"].to_numpy(), part["sigma"].to_numpy()
        mass = [np.log(m / (1 - m))]
        values = [
            np.log(part["e_top"].to_numpy() / m / sigma),
            np.log(part["radius"].to_numpy() / sigma),
            part["spectral"].to_numpy(),
        ]
        # radius / sigma is one number in toys: the fit must not mind a predictor that says nothing
        known = [values[0], values[2]]
        (row,) = table.filter(pl.col("layer").eq_missing(layer)).iter_rows(named=True)
        assert row["mass"] == pytest.approx(by_hand(part, mass)[0])
        assert row["values"] == pytest.approx(by_hand(part, known)[0])
        both, fit, mean = by_hand(part, [*mass, *known])
        assert row["both"] == pytest.approx(both)
        weights = document_weights(6, draws=100)[1:]
        wanted = np.quantile(1 - (weights @ fit) / (weights @ mean), [0.025, 0.975])
        assert [row["both_low"], row["both_high"]] == pytest.approx(wanted)
        assert row["only_mass"] == pytest.approx(row["both"] - row["values"])
        assert row["n"] == part.height


@pytest.mark.parametrize(
    ("mass", "offset", "said"),
    [(0.1, 0, "mass explains more"), (0, 0.2, "values explain more"), (0, 0, "is open")],
)
def test_a_planted_side_is_found_and_said(mass, offset, said):
    table = residual_table(planted(mass, offset, budgets=(8,), layers=2), draws=200)
    row = table.filter(pl.col("layer").is_null()).row(0, named=True)
    assert (row["mass"] > 0.8) == (mass > 0)
    assert (row["values"] > 0.8) == (offset > 0)
    assert (row["both"] > 0.8) == (mass + offset > 0)
    finding = residual_finding(table, pl.DataFrame())
    assert said in finding.sentence
    assert f"{row['n']:,} instances of 8 documents (toy-1)" == finding.n
    assert f"{row['both']:.4g} [" in finding.interval


def test_sides_that_hide_each_other_explain_more_together():
    frame = planted(0.1, 0.1, noise=0.01, spread=1.1, budgets=(8,), layers=2)
    m = frame["dropped_mass"]
    hidden = frame.with_columns(e_top=pl.col("e_top") * (1 - m) / m)  # a large mass, a small offset
    gone = hidden.with_columns(closable=frame["closable"])
    row = residual_table(gone, draws=0).row(0, named=True)
    assert row["only_mass"] > row["mass"]


def test_noise_predicts_worse_than_the_mean():
    rng = np.random.default_rng(0)
    cluster = np.repeat(np.arange(4), 6)
    fit, mean = out_of_document(rng.normal(size=(24, 8)), rng.normal(size=24), cluster, 4)
    assert 1 - fit.sum() / mean.sum() < 0


def test_a_document_alone_has_no_sums():
    fit, mean = out_of_document(np.ones((3, 1)), np.arange(3.0), np.ones(3, dtype=np.int64), 2)
    assert not fit.any()
    assert not mean.any()


def test_undefined_predictors_are_left_out_and_counted():
    frame = toy_instances(documents=3, budgets=(8,), layers=1)
    some = frame.with_columns(
        spectral=pl.when(pl.col("head") == 0).then(None).otherwise("spectral"),
        dropped_mass=pl.when(pl.col("head") == 1).then(1.0).otherwise("dropped_mass"),
    )
    whole, layer = residual_table(some, draws=0).rows(named=True)
    measured = frame.filter(status="exact")
    lost = measured.filter(pl.col("head") < 2).height
    assert whole["undefined"] == layer["undefined"] == lost
    assert whole["n"] == measured.height - lost
    assert whole["with_spectral"]


def test_a_store_without_the_spectral_statistic_has_two_values():
    frame = toy_instances(documents=3, budgets=(8,), layers=1).with_columns(spectral=None)
    row = residual_table(frame, draws=0).row(0, named=True)
    assert not row["with_spectral"]
    assert row["n"] > 0
    assert row["both"] is not None


def test_one_document_is_refused():
    with pytest.raises(InputError, match=r"each model has one document.*run `ceiling capture --documents 5`"):
        residual_table(toy_instances(documents=1))


def test_constant_shares_have_no_r2():
    frame = hand_made(*({"document": d, "head": h} for d in range(5) for h in range(3)))
    row = residual_table(frame).row(0, named=True)
    assert row["mass"] is None
    assert "too few documents" in residual_finding(residual_table(frame), pl.DataFrame()).sentence


def rows_of(masses, values, s, rng, documents=5, each=8):
    """Scores and what their split should be, of kept sets on real rows: top-mass and another set."""
    instances, expected = [], []
    for document in range(documents):
        for head in range(each):
            p, v = masses(rng), values(rng)
            mu = p @ v
            top = np.sort(np.argsort(-p, kind="stable")[:s])
            other = np.sort(np.append(top[1:], np.setdiff1d(np.arange(len(p)), top)[0]))
            errors = {}
            for name, kept in (("top", top), ("other", other)):
                inside = np.isin(np.arange(len(p)), kept)
                m_a, m_out = (np.average(v[side], axis=0, weights=p[side]) for side in (inside, ~inside))
                error = np.linalg.norm(mu - m_a)
                assert error == pytest.approx(objective.forced_error(Row(masses=p, values=v), kept))
                offset = np.linalg.norm(m_out - m_a)
                assert error == pytest.approx(p[~inside].sum() * offset)  # e(A) = m(A) offset(A)
                errors[name] = error, p[inside].sum(), offset
            instances.append({"document": document, "head": head, "s": s, "e_top": errors["top"][0]})
            expected.append(errors)
    return hand_made(*instances), expected


def test_the_split_is_exact_on_rows():
    rng = np.random.default_rng(3)
    frame, expected = rows_of(lambda r: r.dirichlet(np.ones(12)), lambda r: r.normal(size=(12, 3)), 4, rng)
    base = (
        toy_scores(frame)
        .filter(pl.col("selector").is_in(["top-mass", "balancing"]))
        .filter(allocation="uniform")
    )
    top, other = (base.filter(selector=name) for name in ("top-mass", "balancing"))
    scores = pl.concat(
        part.with_columns(
            error=pl.Series([e[name][0] for e in expected]),
            kept_mass=pl.Series([e[name][1] for e in expected]),
        )
        for part, name in ((top, "top"), (other, "other"))
    )
    whole = split_table(scores, draws=0).row(0, named=True)
    better = [e for e in expected if e["other"][0] < e["top"][0]]
    mass = np.array([np.log((1 - e["top"][1]) / (1 - e["other"][1])) for e in better])
    offset = np.array([np.log(e["top"][2] / e["other"][2]) for e in better])
    gain = np.array([np.log(e["top"][0] / e["other"][0]) for e in better])
    assert gain == pytest.approx(mass + offset)
    assert (mass <= 1e-12).all()
    assert whole["n"] == len(better) > 5
    assert whole["unchanged"] == len(expected) - len(better)
    for name, values in (("gain", gain), ("mass_part", mass), ("offset_part", offset)):
        assert whole[name] == pytest.approx(np.median(values))


def test_the_split_has_every_layer_and_needs_both_selectors():
    frame = toy_instances(documents=5, budgets=(4, 8), layers=3)
    table = split_table(toy_scores(frame), draws=50)
    assert table.select("s", "layer").rows() == [(s, x) for s in (4, 8) for x in (None, 0, 1, 2)]
    assert table["gain_low"].null_count() == 0
    said = residual_finding(residual_table(frame, draws=20), table).sentence
    assert "it multiplies dropped mass by 1.00 and offset by 0." in said  # toys keep the mass they had
    lone = toy_scores(frame).filter(selector="top-mass")
    assert split_table(lone).is_empty()
    assert split_table(lone.clear()).is_empty()


def test_masses_too_small_to_subtract_are_counted_and_left_out():
    frame = toy_instances(documents=2, budgets=(8,), layers=1)
    tiny = toy_scores(frame).with_columns(
        kept_mass=pl.when(pl.col("head") == 0).then(1 - 1e-12).otherwise("kept_mass")
    )
    row = split_table(tiny, draws=0).row(0, named=True)
    measured = frame.filter(status="exact")
    assert row["unresolved"] == measured.filter(head=0).height
    assert row["n"] + row["unchanged"] == measured.filter(pl.col("head") > 0).height
