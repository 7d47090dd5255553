"""The audit's figure scripts, run as a user runs them, on a toy store that holds nothing but audits."""

import re

import polars as pl
import pytest

from ceiling.cli.figures import figures, scripts_folder
from ceiling.problem import InputError
from tests.toy_audit import toy_audit
from tests.toy_audit_store import write_toy_audit
from tests.toy_ceilings import toy_ceilings
from tests.toy_store import toy_instances, write_toy_store

SCRIPTS = sorted(path.stem for path in scripts_folder().glob("audit_*.py"))
RANKED = [name for name in SCRIPTS if name not in ("audit_figure4", "audit_figure5")]
"""What one audit on one backend draws."""

SUFFIXES = (".csv", ".json", ".md", ".pdf", ".png")
SMALL = {"tasks": ("niah_single_1", "cwe", "vt"), "instances": 6, "budgets": ("ratio=0.5", "ratio=0.9")}
FLOOR = {"multihop": 0.2}


@pytest.fixture(scope="module")
def audit():
    return toy_audit(anchors=FLOOR, **SMALL)


@pytest.fixture(scope="module")
def store(audit, tmp_path_factory):
    folder = write_toy_audit(tmp_path_factory.mktemp("store"), audit)
    return write_toy_audit(folder, toy_ceilings(audit), "audit_ceilings")


@pytest.fixture(scope="module")
def drawn(store, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    figures(store, out)
    return out


def test_a_store_of_audits_alone_draws_the_audit_and_says_what_the_rest_needs(drawn, store, tmp_path):
    assert sorted(path.name for path in drawn.iterdir()) == [n + s for n in RANKED for s in SUFFIXES]
    with pytest.raises(InputError, match="natural text; `ceiling audit` has no tasks of LongBench"):
        figures(store, tmp_path, "audit_figure4")
    with pytest.raises(InputError, match="no record of full, keydiff, streaming_llm on backend sdpa"):
        figures(store, tmp_path, "audit_figure5")


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_store_without_audits_says_what_to_run(name, tmp_path):
    folder = write_toy_store(tmp_path / "store", toy_instances(documents=1, layers=1, heads=1))
    with pytest.raises(InputError, match=r"^audit: the store holds no records; run `ceiling audit` first$"):
        figures(folder, tmp_path / "out", name)


@pytest.mark.parametrize("name", RANKED)
def test_captions_say_what_they_rest_on_and_what_is_at_the_floor(drawn, name):
    text = (drawn / f"{name}.md").read_text()
    caption = " ".join(text.partition("\n## ")[0].split())
    assert "toy-1: n = 18 instances of 3 tasks, 980 tokens with the answer's room" in caption
    assert "At the floor (anchor below 0.3), left out of means and verdicts: toy-1 multihop (" in caption
    assert "paper" in caption
    assert "Intervals: 95% percentile, 50000 paired resamplings" in caption
    assert not re.findall(r"nan|null|None", text)
    assert not re.findall(r"^ .*|.*  .*", text.partition("\n## ")[0], re.MULTILINE)


@pytest.mark.parametrize(
    ("name", "reference", "rows"),
    [
        ("audit_table1", "audit_table1_anchors", 9),
        ("audit_figure1", "audit_table2_verdict", 6),
        ("audit_table3", "audit_table3_6_axes", 18),
        ("audit_figure3", "audit_table2_verdict", 6),
    ],
)
def test_every_number_of_the_paper_stands_beside_ours(drawn, name, reference, rows):
    text = (drawn / f"{name}.md").read_text()
    theirs = [line for line in text.splitlines() if line.startswith("| paper, ")]
    assert len(theirs) == rows
    paper = pl.read_csv(scripts_folder() / "reference" / f"{reference}.csv", infer_schema=False)
    columns = [c for c in paper.columns if c not in ("paper", "model", "press", "arm", "backend")]
    wanted = paper.select("delta") if name == "audit_figure3" else paper.select(columns)
    cells = " ".join(theirs).replace(" of 36", "").replace(" of 12", "").split()
    assert {value for row in wanted.rows() for value in row} <= set(cells)
    assert "against the paper's numbers: " in text
    assert "their weights need a hub and a GPU" in text


def test_figure1_has_every_cell_and_table2_counts_wins_above_the_floor(drawn):
    cells = pl.read_csv(drawn / "audit_figure1.csv")
    assert cells.height == 3 * 3 * 2 * 9  # axes, arms, budgets, presses
    text = (drawn / "audit_figure1.md").read_text()
    row = next(line for line in text.splitlines() if line.startswith("| toy-1 | keydiff |"))
    above = cells.filter(pl.col("label") == "keydiff", ~pl.col("floor"))
    wins = above.filter(pl.col("arm") == "agnostic")["wins"].sum()
    assert f"| {wins} of 4 |" in row


def test_figure5_reads_both_backends_whatever_configuration_is_named(audit, tmp_path):
    other = toy_audit(backends=("sdpa",), shifts={"sdpa": 0.1}, **SMALL)
    kept = other.filter(pl.col("press").is_in(["full", "keydiff", "streaming_llm"]))
    eager = toy_audit(**SMALL)
    folder = write_toy_audit(write_toy_audit(tmp_path / "store", eager), kept)
    with pytest.raises(InputError, match="records of backends eager, sdpa; no ranking is made across them"):
        figures(folder, tmp_path, "audit_figure1")
    figures(folder, tmp_path, "audit_figure1,audit_figure5", config=eager["config"][0])
    table = pl.read_csv(tmp_path / "audit_figure5.csv")
    assert table.select("label", "budget").rows() == [
        ("full", "none"),
        *((label, f"ratio={r}") for label in ("keydiff", "streaming_llm") for r in (0.5, 0.9)),
        ("pooled", "all"),
    ]
    assert table["difference"].mean() < 0
    text = (tmp_path / "audit_figure5.md").read_text()
    assert "| paper, 3 models | pooled | all | -0.221 [-0.255, -0.188] |" in text


def test_figure4_draws_natural_text_where_there_is_some(tmp_path):
    audit = toy_audit(**SMALL)
    natural = audit.filter(pl.col("task") == "cwe").with_columns(
        task=pl.lit("qasper"), axis=pl.lit("natural")
    )
    folder = write_toy_audit(tmp_path / "store", pl.concat([audit, natural]))
    figures(folder, tmp_path, "audit_figure4,audit_figure1")
    assert pl.read_csv(tmp_path / "audit_figure4.csv").height == 3 * 2 * 9
    assert "| 2607.11942 | Qwen2.5-7B | 0.072 | 0.088 |" in (tmp_path / "audit_figure4.md").read_text()
    assert "natural" not in pl.read_csv(tmp_path / "audit_figure1.csv")["axis"]


def test_a_planted_hole_is_refused_by_every_figure(audit, tmp_path):
    folder = write_toy_audit(tmp_path / "store", audit.slice(1))
    with pytest.raises(InputError, match=r"audit: not one whole grid: .*is missing"):
        figures(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_several_questions_add_what_an_answer_costs(tmp_path):
    tasks = SMALL | {"tasks": ("niah_single_1", "vt")}
    folder = write_toy_audit(tmp_path / "store", toy_audit(questions=2, **tasks))
    figures(folder, tmp_path, "audit_bytes")
    text = (tmp_path / "audit_bytes.md").read_text()
    assert "## Cost of an answer" in text
    assert "12 instances of 2 tasks, 24 questions" in text


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_short(name):
    assert len((scripts_folder() / f"{name}.py").read_text().splitlines()) <= 60
