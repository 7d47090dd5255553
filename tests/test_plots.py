"""Figures: nothing clipped, nothing small, no interval without documents; files whole and repeatable."""

import json
import os
from pathlib import Path

import matplotlib as mpl
import polars as pl
import pytest
from matplotlib.collections import LineCollection

from ceiling.analysis import budget_profile, ceiling_table, cell_map, map_table
from ceiling.analysis.finding import Finding
from ceiling.cli.figures import arguments
from ceiling.plots import ceiling_bars, cell_maps, files, profile_lines, write
from ceiling.plots.style import COLUMN
from ceiling.problem import InputError
from tests.readable import assert_readable
from tests.toy_store import hand_made, toy_instances

REFERENCE = Path(__file__).parents[1] / "figures" / "reference"
TEXT = pl.read_csv(REFERENCE / "forced_weights_text.csv")
TABLE8 = pl.read_csv(REFERENCE / "forced_weights_table8_budget_profile.csv")

STORES = {
    "one": lambda: toy_instances("smollm2-135m", documents=5, layers=30, heads=9, rows=1),
    "two": lambda: pl.concat(
        [toy_instances(m, documents=5, layers=8) for m in ("smollm2-135m", "gemma3-270m")]
    ),
    "four": lambda: pl.concat([toy_instances(f"Qwen2.5-{i}.5B", documents=5) for i in range(4)]),
    "few documents": lambda: toy_instances("smollm2-135m", documents=3),
    "below one": lambda: toy_instances(documents=5).with_columns(pl.col("pi", "kappa") * 0.6),
    "one budget": lambda: toy_instances("smollm2-135m", documents=5, budgets=(8,)),
    "hardly anything": lambda: hand_made({"e_pool": 1.0, "e_balance": 1.0}, {"head": 1, "status": "trivial"}),
}
DRAW = {
    "figure1": lambda frame: ceiling_bars(ceiling_table(frame, draws=50), TEXT),
    "figure2": lambda frame: cell_maps(cell_map(frame), map_table(frame, draws=50)),
    "table8": lambda frame: profile_lines(budget_profile(frame, draws=50), TABLE8),
}


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("name", DRAW)
def test_every_text_is_inside_apart_and_large_enough(name, store, monkeypatch):
    assert_readable(DRAW[name](STORES[store]()), monkeypatch)


@pytest.mark.parametrize("store", STORES)
def test_every_point_of_the_profile_is_inside_its_axes(store):
    for axes in DRAW["table8"](STORES[store]()).axes[:2]:
        low, high = axes.get_ylim()
        for line in axes.lines:
            y = line.get_ydata()
            assert ((low <= y) & (y <= high) | (y != y)).all(), (axes.get_title(), y)


@pytest.mark.parametrize(("documents", "whiskers"), [(5, 4), (4, 0)])
def test_whiskers_need_five_documents(documents, whiskers):
    figure = DRAW["figure1"](toy_instances(documents=documents))
    zoom = figure.axes[1]
    drawn = sum(len(c.get_segments()) for c in zoom.collections if isinstance(c, LineCollection))
    assert drawn == whiskers
    assert ("too few for whiskers" in zoom.get_xlabel()) == (whiskers == 0)


def test_axes_say_budget_documents_and_n():
    frame = toy_instances(documents=5)
    label = DRAW["figure1"](frame).axes[1].get_xlabel()
    assert "budget s (keys kept)" in label
    assert "5 documents" in label
    assert f"{ceiling_table(frame, draws=0)['n'].min():,}" in label


def test_the_papers_range_is_drawn_where_the_reference_has_it():
    zoom = DRAW["figure1"](toy_instances()).axes[1]
    bands = [p.get_extents() for p in zoom.patches if p.get_alpha() == 0.25]
    low, high = TEXT.filter(quantity="closable").select("low", "high").row(0)
    (band,) = (zoom.transData.inverted().transform(b) for b in bands)
    assert (band[0][1], band[1][1]) == pytest.approx((low, high))


def test_drawing_leaves_matplotlib_as_it_was():
    def settings():  # the backend is chosen on first use of pyplot and is nobody's style
        return {key: value for key, value in mpl.rcParams.items() if key != "backend"}

    before = settings()
    DRAW["figure2"](toy_instances(documents=2))
    assert settings() == before


def test_a_cell_beyond_every_number_has_the_darkest_colour_not_the_empty_one():
    frame = hand_made({"head": 0, "e_pool": 1e-9}, {"head": 1}, {"head": 2, "status": "trivial"})
    (mesh,) = DRAW["figure2"](frame).axes[1].collections[:1]
    values = mesh.get_array().ravel()
    assert values[0] == mesh.get_clim()[1]
    assert values.mask.tolist() == [False, False, True]


@pytest.fixture
def written(tmp_path):
    def once(folder, *finding, caption="Caption."):
        figure = DRAW["figure1"](toy_instances(documents=2))
        table = pl.DataFrame({"s": [4, 8], "x": [0.123456, None], "text": ["a|b", "c"]})
        return write(tmp_path / folder, "figure1", figure, table, caption, {"Numbers": table}, *finding)

    return once


def test_four_files_the_same_every_time(written):
    first, second = written("a/b"), written("c")
    assert [p.name for p in first] == ["figure1.png", "figure1.pdf", "figure1.csv", "figure1.md"]
    for a, b in zip(first, second, strict=True):
        assert a.read_bytes() == b.read_bytes()
        assert sorted(a.parent.iterdir()) == sorted(first)  # no temporary file stays


FOUND = Finding("κ is 2.", "12 instances", "2 [1, 3]", "3"), "ceiling figures --store 'a b'"


@pytest.mark.parametrize(
    ("caption", "title"),
    [("**Figure 1,\nour own.** The **rest**.", "Figure 1, our own"), ("No **head**.", "figure1")],
)
def test_a_finding_is_written_with_the_bold_head_and_the_command_that_draws_it(written, caption, title):
    *_, card = written("a", *FOUND, caption=caption)
    assert card.name == "figure1.json"
    assert json.loads(card.read_bytes()) == {
        "title": title,
        **{"sentence": "κ is 2.", "n": "12 instances", "interval": "2 [1, 3]", "paper": "3"},
        "command": "ceiling figures --store 'a b' --only figure1",
    }
    assert written("b", *FOUND, caption=caption)[-1].read_bytes() == card.read_bytes()


def test_a_script_knows_the_command_that_draws_the_same():
    given = ["--out", "x", "--text", "python-docs", "--store", "my store", "--config", "12345678"]
    wanted = "ceiling figures --store 'my store' --config 12345678 --text python-docs"
    assert arguments(None, given).command == wanted
    assert arguments(None, ["--store", "s3://a"]).command == "ceiling figures --store s3://a"


def test_png_has_300_dpi_and_pdf_keeps_its_text(written):
    png, pdf, *_ = written("a")
    width = int.from_bytes(png.read_bytes()[16:20], "big")
    assert width == pytest.approx(COLUMN * 300, abs=1)
    assert b"/FontType 3" not in pdf.read_bytes()
    assert b"CreationDate" not in pdf.read_bytes()


def test_csv_and_markdown_show_null_as_nothing(written):
    *_, csv, markdown = written("a")
    assert csv.read_text() == "s,x,text\n4,0.123456,a|b\n8,,c\n"
    lines = markdown.read_text().splitlines()
    assert lines[0] == "![figure1](figure1.png)"
    assert lines[-4:] == ["| s | x | text |", "|---|---|---|", "| 4 | 0.1235 | a\\|b |", "| 8 | – | c |"]


def test_a_full_disk_leaves_nothing_half_written(written, tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match=r"out: cannot write .*figure1.png \(No space left on device\)"):
        written("a")
    assert os.listdir(tmp_path / "a") == []


def test_an_output_that_is_a_file_is_refused(written, tmp_path):
    (tmp_path / "a").write_text("")
    with pytest.raises(InputError, match=r"out: .*a is no folder that can be written to"):
        written("a")
