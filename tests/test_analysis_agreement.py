"""Whether two maps agree: labels counted, medians ranked, cells of one side left out."""

import numpy as np
import pytest

from ceiling.analysis import agreement_table, cell_map, map_agreement
from tests.toy_store import hand_made, toy_instances


def map_of(*masses, kappas=None, model="toy"):
    """One cell a head, whose only row drops this mass."""
    kappas = kappas or [1.2 + i / 10 for i in range(len(masses))]
    return cell_map(
        hand_made(
            *(
                {"model": model, "head": h, "dropped_mass": m, "e_pool": 1 / k}
                for h, (m, k) in enumerate(zip(masses, kappas, strict=True))
            )
        )
    )


def test_numbers_by_hand():
    first, second = map_of(0.1, 0.2, 0.3, 0.4), map_of(0.2, 0.3, 0.1, 0.9, kappas=[1.5, 1.4, 1.3, 1.2])
    row = map_agreement(first, second).row(0, named=True)
    assert (row["cells"], row["flat_first"], row["flat_second"]) == (4, 2, 2)
    assert row["same_label"] == 0.5  # heads 0 and 3
    assert row["rho_dropped_mass"] == pytest.approx(np.corrcoef([0, 1, 2, 3], [1, 2, 0, 3])[0, 1])
    assert row["rho_kappa"] == pytest.approx(-1.0)


def test_a_map_agrees_with_itself_and_only_cells_of_both_count():
    whole, part = map_of(0.1, 0.2, 0.3, 0.4), map_of(0.1, 0.2, 0.3)
    row = map_agreement(whole, part).row(0, named=True)
    assert (row["cells"], row["same_label"], row["rho_dropped_mass"]) == (3, 1.0, 1.0)


def test_a_median_beyond_every_number_ranks_last():
    row = map_agreement(map_of(0.1, 0.2, 0.3, kappas=[1.1, 1.2, 1e9]), map_of(0.1, 0.2, 0.3))
    assert row["rho_kappa"].to_list() == [1.0]


def test_every_pair_of_texts_of_every_model_in_both():
    frame = toy_instances("a", documents=1)
    texts = {"x": frame, "y": frame, "z": toy_instances("b", documents=1), "w": frame.filter(s=4)}
    table = agreement_table(texts)
    assert table.select("first", "second", "model", "same_label").rows() == [("x", "y", "a", 1.0)]
    assert agreement_table({"x": frame}).is_empty()
