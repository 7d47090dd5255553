"""The gallery: a page and thumbnails of drawn figures, the same every time, or one clear refusal."""

import json
from functools import cache
from io import BytesIO

import pytest
from PIL import Image, ImageColor, ImageDraw

from ceiling.cli import main
from ceiling.cli.figures import scripts
from ceiling.plots.gallery import thumbnail

COLOURS = ("#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc", "#ca9161", "#fbafe4", "#949494")
NAMES = ("table2", "figure1", "audit_bytes", "intervals", "audit_figure2", "table1")


@cache
def picture(width=400, height=240):
    image = Image.new("RGBA", (width, height), "white")
    ImageDraw.Draw(image).line((0, 0, width, height), fill=(200, 30, 30, 255), width=20)
    buffer = BytesIO()
    image.save(buffer, "png")
    return buffer.getvalue()


def card(name):
    told = {"sentence": f"{name} rises by 0.2.", "n": "12 instances", "interval": "0.2 [0.1, 0.3]"}
    return {"title": f"Title of {name}", **told, "paper": "0.25", "command": f"ceiling figures --only {name}"}


def draw(folder, *names):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / f"{name}.png").write_bytes(picture())
        (folder / f"{name}.json").write_text(json.dumps(card(name)))
    return folder


def run(out, *folders):
    return main(
        ["gallery", *(w for folder in folders for w in ("--figures", str(folder))), "--out", str(out)]
    )


@pytest.fixture
def made(tmp_path):
    first = draw(tmp_path / "panel", *(n for n in NAMES if not n.startswith("audit_")))
    second = draw(tmp_path / "audit", *(n for n in NAMES if n.startswith("audit_")))
    (first / "notes.json").write_text("{}")  # nobody's figure
    assert run(tmp_path / "out", first, second) == 0
    return tmp_path / "out"


def test_the_papers_figures_come_first_then_the_rest_then_the_audits(made):
    page = (made / "README.md").read_text()
    heads = [line for line in page.splitlines() if line.startswith("##")]
    assert heads == [
        *("## The paper's figures and tables", "### Title of figure1", "### Title of table1"),
        *("### Title of table2", "## Further figures", "### Title of intervals"),
        *("## The audit of eviction methods", "### Title of audit_figure2", "### Title of audit_bytes"),
        "## Not drawn",
    ]


def test_an_entry_says_everything_beside_its_thumbnail(made):
    page = (made / "README.md").read_text()
    entry = page.partition("### Title of table2\n\n")[2].partition("\n\n#")[0]
    assert entry.splitlines() == [
        "![Title of table2](gallery/table2.png)",
        "",
        "table2 rises by 0.2.",
        "",
        "- n: 12 instances",
        "- interval: 0.2 [0.1, 0.3]",
        "- paper: 0.25",
        "- command: `ceiling figures --only table2`",
    ]


def test_the_head_names_the_commands_and_the_foot_what_was_not_drawn(made, tmp_path):
    page = (made / "README.md").read_text()
    command = f"ceiling gallery --figures {tmp_path}/panel --figures {tmp_path}/audit --out {tmp_path}/out"
    assert page.startswith(f"# Gallery\n\nMade by `{command}`, the last step of `make paper`; nothing in it")
    absent = page.rpartition("No folder has a drawing of ")[2].partition(";")[0].replace("`", "").split(", ")
    assert sorted([*absent, *NAMES]) == sorted(scripts())
    assert absent.index("figure2") < absent.index("table6") < absent.index("looseness")
    assert absent.index("looseness") < absent.index("audit_figure1") < absent.index("audit_table1")


def test_a_page_of_everything_has_no_foot(tmp_path):
    assert run(tmp_path / "out", draw(tmp_path / "all", *scripts())) == 0
    assert "Not drawn" not in (tmp_path / "out" / "README.md").read_text()


def test_the_same_bytes_every_time_and_nothing_half_written(made, tmp_path):
    before = {path: path.read_bytes() for path in made.rglob("*") if path.is_file()}
    assert run(made, tmp_path / "panel", tmp_path / "audit") == 0
    assert {path: path.read_bytes() for path in made.rglob("*") if path.is_file()} == before
    assert sorted(str(path.relative_to(made)) for path in before) == [
        "README.md",
        *sorted(f"gallery/{name}.png" for name in NAMES),
    ]


def test_a_stale_thumbnail_goes_and_what_is_no_figures_stays(made, tmp_path):
    (made / "gallery" / "own.png").write_bytes(b"mine")
    assert run(made, tmp_path / "panel") == 0
    assert not (made / "gallery" / "audit_bytes.png").exists()
    assert (made / "gallery" / "own.png").read_bytes() == b"mine"


@pytest.mark.parametrize(("size", "wanted"), [((1005, 603), (480, 288)), ((2100, 1050), (1003, 501))])
def test_a_thumbnail_is_small_and_shows_the_same(size, wanted):
    small = Image.open(BytesIO(thumbnail(picture(*size)))).convert("RGB")
    assert small.size == wanted
    corners = [small.getpixel((small.width - 1, 0)), small.getpixel((0, small.height - 1))]
    assert corners == [(254, 254, 254)] * 2
    middle = small.getpixel((small.width // 2, small.height // 2))
    assert middle == pytest.approx((200, 30, 30), abs=8)


def test_a_thumbnail_keeps_the_hue_of_the_smallest_mark():
    """Colours tell presses apart; a mark of few pixels must not take on a neighbour's."""
    whole = Image.linear_gradient("L").resize((1005, 600)).convert("RGB")
    for i, colour in enumerate(COLOURS):
        ImageDraw.Draw(whole).rectangle((20 + 90 * i, 300, 28 + 90 * i, 308), fill=colour)
    buffer = BytesIO()
    whole.save(buffer, "png")
    small = Image.open(BytesIO(thumbnail(buffer.getvalue()))).convert("RGB")
    scale = small.width / whole.width
    for i, colour in enumerate(COLOURS):
        seen = small.getpixel((round((24 + 90 * i) * scale), round(304 * scale)))
        assert seen == pytest.approx(ImageColor.getrgb(colour), abs=30), colour


def spoil(change):
    def spoiled(folder):
        path = draw(folder, "figure1", "table1") / "table1.json"
        path.write_text(json.dumps(change(card("table1"))))

    return spoiled


def without_picture(folder):
    (draw(folder, "figure1", "table1") / "table1.png").unlink()


def no_picture(folder):
    (draw(folder, "figure1", "table1") / "table1.png").write_bytes(b"GIF")


BAD = {
    "no folder": (lambda folder: None, "no folder {0}; `ceiling figures --out {0}` makes it"),
    "no findings": (
        lambda folder: folder.mkdir(),
        "no findings in {0}; draw it again with `ceiling figures`",
    ),
    "a field less": (spoil(lambda c: {k: c[k] for k in c if k != "n"}), "{0}/table1.json is no finding of"),
    "a field more": (spoil(lambda c: c | {"p": "0"}), "{0}/table1.json is no finding of a figure"),
    "no text": (spoil(lambda c: c | {"n": 3}), "{0}/table1.json is no finding of a figure"),
    "a list": (spoil(lambda c: ["n"]), "{0}/table1.json is no finding of a figure"),
    "no drawing": (without_picture, "{0}/table1.png is no picture; draw it: ceiling figures --only table1"),
    "broken": (no_picture, "{0}/table1.png is no picture; draw it: ceiling figures --only table1"),
    "twice": (lambda folder: draw(folder, "figure2"), "figure2 is in {1} and in {0}; name one"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_said_before_anything_is_written(case, tmp_path, capsys):
    prepare, said = BAD[case]
    good = draw(tmp_path / "good", "figure2")
    prepare(tmp_path / "bad")
    assert run(tmp_path / "out", good, tmp_path / "bad") == 2
    assert f"ceiling: figures: {said.format(tmp_path / 'bad', good)}" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_made_is_bad_input(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert run(tmp_path / "file", draw(tmp_path / "a", "figure1")) == 2
    assert "out: " in capsys.readouterr().err


def test_the_page_among_the_scripts_is_none_of_them(tmp_path, monkeypatch):
    folder = tmp_path / "figures"
    (folder / "reference").mkdir(parents=True)
    for name in NAMES:
        (folder / f"{name}.py").write_text("")
    monkeypatch.setattr("ceiling.cli.figures.scripts_folder", lambda: folder)
    assert run(folder, draw(tmp_path / "drawn", *NAMES)) == 0
    assert list(scripts()) == sorted(NAMES)
    assert len(list((folder / "gallery").iterdir())) == len(NAMES)
