"""The manifest of a certification: what is drawn, and what is refused when it is read back."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from ceiling import dropped_mass, top_mass
from ceiling.certify.manifest import Instance, Manifest, _shares, draw_manifest, read_manifest, spread
from ceiling.dump import Dump, open_dump
from ceiling.problem import InputError
from tests.toy_dump import HEADS, LAYERS, ROWS, write_toy_dump

BUDGETS = (2, 5)


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Dump:
    return open_dump(write_toy_dump(tmp_path_factory.mktemp("dumps") / "toy"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Dump:
    return open_dump(write_toy_dump(tmp_path_factory.mktemp("dumps") / "other", seed=1))


@pytest.fixture
def drawn(dump: Dump) -> Manifest:
    return draw_manifest([dump], BUDGETS, 50)


def test_instances_are_even_over_budgets_and_deciles(drawn: Manifest):
    counts = Counter((each.s, each.decile) for each in drawn.instances)
    assert len(drawn.instances) == 50
    assert Counter(each.s for each in drawn.instances) == {2: 25, 5: 25}
    assert {key: set(range(1, 11)) for key in BUDGETS} == {
        s: {decile for budget, decile in counts if budget == s} for s in BUDGETS
    }
    assert set(counts.values()) == {2, 3}
    assert len({each.identity for each in drawn.instances}) == 50


def test_deciles_rank_the_dropped_mass_among_all_rows(dump: Dump, drawn: Manifest):
    for s in BUDGETS:
        rows = [
            (document, layer, head, r)
            for document in range(dump.n_documents)
            for layer in range(LAYERS)
            for head in range(HEADS)
            for r in range(ROWS)
        ]
        masses = {}
        for at in rows:
            row = dump.document(at[0]).row(*at[1:])
            masses[at] = dropped_mass(row, top_mass(row, s))
        ranking = sorted(rows, key=masses.__getitem__)
        for each in (each for each in drawn.instances if each.s == s):
            at = each.document, each.layer, each.head, each.row
            assert each.dropped_mass == pytest.approx(masses[at], rel=1e-12)
            assert (each.decile - 1) * len(rows) // 10 <= ranking.index(at) < each.decile * len(rows) // 10
            row = dump.document(each.document).row(each.layer, each.head, each.row)
            assert each.n_keys == row.n_keys
            assert each.position == dump.document(each.document).query_positions[each.row]


def test_a_seed_decides(dump: Dump, drawn: Manifest):
    assert draw_manifest([dump], (5, 2), 50) == drawn
    assert draw_manifest([dump], BUDGETS, 50, seed=1).digest != drawn.digest


def test_rows_of_few_keys_are_left_out(dump: Dump):
    assert {each.layer for each in draw_manifest([dump], (2,), 10, least_keys=17).instances} == {0}
    with pytest.raises(InputError, match=r"instances: 90 are 9 a decile at s = 2; .* has 1 rows of at least"):
        draw_manifest([dump], (2,), 90, least_keys=17)
    assert all(each.n_keys > 16 for each in draw_manifest([dump], (16,), 10).instances)  # not kept whole


def test_dumps_have_equal_shares(dump: Dump, other: Dump):
    both = draw_manifest([dump, other], (4,), 40)
    assert Counter(each.dump for each in both.instances) == {dump.id: 20, other.id: 20}
    assert len(both.of(other.id)) == 20
    with pytest.raises(InputError, match="each once"):
        draw_manifest([dump, dump], (4,), 40)


def test_layers_take_turns():
    stratum = [Instance("d", 0, layer, 0, 9, r, 2, 9, 0.1, 1) for layer in (0, 3, 7) for r in range(5)]
    used = {0: 0, 3: 2, 7: 0}
    found = list(spread(stratum, 10, used, np.random.default_rng(0)))
    assert Counter(each.layer for each in found) == {0: 4, 3: 2, 7: 4}
    assert used == {0: 4, 3: 4, 7: 4}
    assert len(set(found)) == 10
    assert (
        sorted(
            found + list(spread([e for e in stratum if e not in found], 5, used, np.random.default_rng(0)))
        )
        == stratum
    )


def test_a_bad_row_is_named(tmp_path: Path):
    bad = open_dump(write_toy_dump(tmp_path / "bad", spoil="nan"))
    with pytest.raises(InputError, match=r"document 0, layer 1, head 1, row 2: .*not finite"):
        draw_manifest([bad], (2,), 10)


def test_what_is_written_is_read(dump: Dump, other: Dump, drawn: Manifest, tmp_path: Path):
    drawn.write(tmp_path / "new" / "instances.csv")
    assert read_manifest(tmp_path / "new" / "instances.csv", [dump]) == drawn
    assert read_manifest(tmp_path / "new" / "instances.csv", []).digest == drawn.digest
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["instances.csv"]
    with pytest.raises(InputError, match=f"no instance of dump .*{other.id}.*only of {dump.id}"):
        read_manifest(tmp_path / "new" / "instances.csv", [dump, other])


def test_few_instances_lie_about_the_middle_and_many_as_they_always_did():
    assert [k for k, n in enumerate(_shares(3, 10), start=1) if n] == [2, 5, 9]
    assert [k for k, n in enumerate(_shares(1, 10), start=1) if n] == [5]
    assert list(_shares(12, 10)) == [1, 1, 1, 1, 2, 1, 1, 1, 1, 2]  # as in tests/bench/certify48.csv
    assert list(_shares(60, 10)) == [6] * 10
    assert all(sum(_shares(n, 10)) == n for n in range(40))


def test_the_digest_is_of_the_instances_whatever_their_order(drawn: Manifest, dump: Dump, tmp_path: Path):
    drawn.write(tmp_path / "a.csv")
    header, *lines = (tmp_path / "a.csv").read_text().splitlines()
    (tmp_path / "b.csv").write_text("\n".join([header, *reversed(lines)]))
    (tmp_path / "c.csv").write_text("\n".join([header, *lines[1:]]))
    assert read_manifest(tmp_path / "b.csv", [dump]) == drawn
    assert read_manifest(tmp_path / "c.csv", [dump]).digest != drawn.digest


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("dump", "", "dump: empty"),
        ("document", "2", "document: 2 is outside 0..1"),
        ("document", "-1", "document: '-1' is not a whole number"),
        ("layer", "9", "layer: 9 is none of those captured"),
        ("head", "4", "head: 4 is outside 0..3"),
        ("row", "3", "row: 3 is outside 0..2"),
        ("position", "0", "position: 0, the dump has "),
        ("s", "0", "s: 0 is outside 1.."),
        ("s", "47", "s: 47 is outside 1.."),
        ("s", "2.5", "s: '2.5' is not a whole number"),
        ("n_keys", "40", "n_keys: 40, the dump has "),
        ("dropped_mass", "0.5", "dropped_mass: 0.5, the dump has "),
        ("dropped_mass", "nan", "dropped_mass: nan is no probability"),
        ("dropped_mass", "much", "dropped_mass: 'much' is not a number"),
        ("decile", "11", "decile: 11 is outside 1..10"),
    ],
)
def test_a_wrong_field_is_named_with_its_line(
    dump: Dump, drawn: Manifest, tmp_path: Path, field: str, value: str, said: str
):
    path = tmp_path / "instances.csv"
    drawn.write(path)
    lines = path.read_text().splitlines()
    fields = lines[3].split(",")
    fields[Instance._fields.index(field)] = value
    lines[3] = ",".join(fields)
    path.write_text("\n".join(lines))
    with pytest.raises(InputError, match=rf"^manifest: {path}, line 4: {said}"):
        read_manifest(path, [dump])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "starts with 'nothing'"),
        ("dump,document\n", "starts with 'dump,document'"),
        (",".join(Instance._fields) + "\na,b\n", "line 2: 2 fields, expected 10"),
        (",".join(Instance._fields) + "\n", "no instance of dump .*, only of none"),
        ("\ud800", "cannot read"),
    ],
)
def test_a_foreign_file_is_refused(dump: Dump, tmp_path: Path, text: str, said: str):
    path = tmp_path / "instances.csv"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(InputError, match=said):
        read_manifest(path, [dump])


def test_a_repeated_instance_is_refused(dump: Dump, drawn: Manifest, tmp_path: Path):
    drawn.write(tmp_path / "a.csv")
    lines = (tmp_path / "a.csv").read_text().splitlines()
    (tmp_path / "a.csv").write_text("\n".join([*lines, lines[5]]))
    with pytest.raises(InputError, match=f"line {len(lines) + 1}: repeats line 6"):
        read_manifest(tmp_path / "a.csv", [dump])


def test_a_missing_file_is_named(dump: Dump, tmp_path: Path):
    with pytest.raises(InputError, match=r"cannot read .*nowhere"):
        read_manifest(tmp_path / "nowhere.csv", [dump])
