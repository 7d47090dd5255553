"""Queries: the cookbook runs, views are as lazy as tables, wrong names are told, growing stores are read."""

import json
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from ceiling.analysis import ceiling_table, certification_table
from ceiling.analysis.selection import selector_table
from ceiling.analysis.views import VIEWS
from ceiling.cli import main
from ceiling.problem import InputError
from ceiling.store import Shards, Store, open_store, run_sql
from tests.toy_audit import toy_audit
from tests.toy_audit_store import write_toy_audit
from tests.toy_ceilings import toy_ceilings
from tests.toy_losses import toy_losses, write_toy_losses
from tests.toy_store import (
    toy_certificates,
    toy_documents,
    toy_instances,
    toy_scores,
    toy_zero_errors,
    write_toy_documents,
    write_toy_store,
)

ROOT = Path(__file__).parents[1]
COOKBOOK = (ROOT / "QUERIES.md").read_text(encoding="utf-8")
QUESTIONS = re.findall(
    r"^\*\*(\d+)\. ([^\n]*\?)\*\*\n\n```sql\n(.*?)```\n\n[\w`]", COOKBOOK, re.MULTILINE | re.DOTALL
)
SQL = {int(number): sql for number, _, sql in QUESTIONS}

WRITER = """
import sys
from ceiling.store import Shards
from tests.toy_store import toy_instances

shards = Shards(sys.argv[1], "d")
shards.open()
columns = toy_instances(documents=1, layers=1).to_dict(as_series=False)
for unit in range(150):
    columns["layer"] = [unit] * len(columns["layer"])
    shards.write("instances", shards.path("instances", 0, unit, config="00000000"), columns)
"""
"""A process that commits 150 shards of 96 instances as `ceiling enumerate` does."""

UNIT = 96

GROWING = """
    SELECT count(*) AS n, sum(s) AS total,
      (SELECT sum(n + trivial + degenerate) FROM ceiling) AS viewed
    FROM instances
"""


@pytest.fixture(scope="module")
def instances() -> pl.DataFrame:
    return pl.concat([toy_instances("toy-1", documents=6), toy_instances("toy-2", documents=4, seed=2)])


@pytest.fixture(scope="module")
def store(instances: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = write_toy_store(tmp_path_factory.mktemp("stores") / "store", instances)
    write_toy_store(folder, toy_certificates(instances, every=3), table="certificates")
    write_toy_store(folder, toy_zero_errors(rows=20), table="zero_errors")
    write_toy_store(folder, toy_scores(instances), table="scores")
    audit = toy_audit(tasks=("niah_single_1", "cwe"), instances=3, budgets=("ratio=0.5",))
    write_toy_audit(folder, audit)
    write_toy_audit(folder, toy_ceilings(audit), "audit_ceilings")
    write_toy_losses(folder, toy_losses())
    for dump, model, document in instances.select("dump", "model", "document").unique().iter_rows():
        shards = Shards(folder, dump)
        shards.open()
        text = "code" if document % 2 else "prose"
        row = {"dump": dump, "model": model, "document": document, "tokens": 99, "text": text}
        row |= {"text_sha256": "0", "needles": None, "registered": None}
        columns = {name: [value] for name, value in row.items()}
        shards.write("documents", shards.path("documents", document), columns)
    return open_store(folder)


@pytest.fixture(scope="module")
def exact(instances: pl.DataFrame) -> pl.DataFrame:
    return instances.filter(pl.col("status") == "exact")


def plan(store: Store, sql: str) -> str:
    return "\n".join(run_sql(store, sql, VIEWS, explain=True).to_series())


def test_the_cookbook_is_a_short_page_of_seventeen_questions():
    assert [int(number) for number, _, _ in QUESTIONS] == list(range(1, 18))
    assert COOKBOOK.count("```sql") == 17
    assert len(COOKBOOK.splitlines()) <= 190


@pytest.mark.parametrize("number", SQL)
def test_every_question_has_an_answer(store: Store, number: int):
    answer = run_sql(store, SQL[number], VIEWS)
    assert answer.height > 0
    assert not any(column.null_count() == answer.height for column in answer)


def test_question_1_against_numpy(store: Store, exact: pl.DataFrame):
    answer = run_sql(store, SQL[1], VIEWS)
    assert answer.select("model", "s").rows() == [(f"toy-{m}", s) for m in (1, 2) for s in (4, 8, 16, 32)]
    for row in answer.iter_rows(named=True):
        mine = exact.filter(pl.col("model") == row["model"], pl.col("s") == row["s"])
        top, pool = mine["e_top"].to_numpy(), mine["e_pool"].to_numpy()
        closable = 1 - pool / top
        assert row["n"] == len(top)
        assert row["closable"] == pytest.approx(np.median(closable))
        assert row["closable_p90"] == pytest.approx(np.quantile(closable, 0.9))
        assert row["closable_labelled"] == pytest.approx(np.median(closable[top > 1.11 * pool]))


def test_question_2_against_numpy(store: Store, exact: pl.DataFrame):
    answer = run_sql(store, SQL[2], VIEWS)
    assert answer.height == 12
    for row in answer.iter_rows(named=True):
        mine = exact.filter(pl.col("s") == 8, model=row["model"], layer=row["layer"])
        assert row["n"] == mine.height
        assert row["closable"] == pytest.approx(
            np.median(1 - mine["e_pool"].to_numpy() / mine["e_top"].to_numpy())
        )


def test_question_6_against_all_pairs(store: Store, exact: pl.DataFrame):
    for row in run_sql(store, SQL[6], VIEWS).iter_rows(named=True):
        mine = exact.filter(model=row["model"], s=row["s"])
        label = (mine["e_pool"] < mine["e_top"] / 1.11).to_numpy()
        mass = mine["dropped_mass"].to_numpy()
        above = mass[label][:, None] - mass[~label][None]
        assert row["auc"] == pytest.approx(((above > 0) + (above == 0) / 2).mean())


def test_question_10_against_python(store: Store, exact: pl.DataFrame):
    answer = run_sql(store, SQL[10], VIEWS)
    assert answer.height > 2
    for row in answer.iter_rows(named=True):
        mine = exact.filter(model=row["model"], head=row["head"], layer=1, s=8)
        age = [p - np.mean(kept) for p, kept in mine.select("position", "kept_top").iter_rows()]
        assert row["n"] == mine.height
        assert row["top_is_best"] == pytest.approx((mine["closable"] == 0).mean())
        assert row["age_top"] == pytest.approx(np.mean(age))


def test_question_11_is_the_certification_table(store: Store):
    answer = run_sql(store, SQL[11], VIEWS)
    table = certification_table(store.certificates, draws=0)
    assert answer["n"].to_list() == table["n"].to_list()
    assert answer["at_least"].to_list() == pytest.approx(table["closable_lower"].to_list())
    assert answer["at_most"].to_list() == pytest.approx(table["closable_upper"].to_list())
    assert (answer["solved"] * answer["n"]).to_list() == pytest.approx(table["solved"].to_list())


def test_question_12_counts_what_was_asked(store: Store):
    answer = run_sql(store, SQL[12], VIEWS)
    asked = store.zero_errors.filter(pl.col("status") != "trivial").collect()
    assert answer["n"].sum() == asked.height
    row = answer.row(0, named=True)
    mine = asked.filter(bits=row["bits"], engine=row["engine"], status=row["status"])
    assert (row["n"], row["longest"]) == (mine.height, mine["seconds"].max())


def test_question_13_is_what_the_figure_shows(store: Store):
    answer = run_sql(store, SQL[13], VIEWS)
    table = selector_table(store.scores, store.instances, draws=0).filter(pl.col("s") == 8)
    for row in answer.iter_rows(named=True):
        mine = table.filter(model=row["model"], selector=row["selector"], reading=row["reading"])
        # the figure counts infinite ones too
        assert row["excess"] == pytest.approx(mine["excess"].item(), rel=0.02)


def test_question_14_is_a_mean_over_records(store: Store):
    answer = run_sql(store, SQL[14], VIEWS)
    mine = store.audit.filter(arm="aware-scores", press="tova", parameters="", budget="ratio=0.5").collect()
    row = answer.filter(arm="aware-scores", press="tova", parameters="", budget="ratio=0.5").row(
        0, named=True
    )
    assert (row["n"], row["score"]) == (mine.height, pytest.approx(mine["score"].mean()))
    assert answer.filter(press="full")["held"].to_list() == [1.0] * 3


def test_question_15_pairs_the_arms(store: Store):
    answer = run_sql(store, SQL[15], VIEWS)
    of = [store.audit.filter(arm=arm, press="snapkv", parameters="").collect() for arm in PAIRED]
    a, b = (frame.sort("task", "instance", "question") for frame in of)
    row = answer.filter(press="snapkv", parameters="").row(0, named=True)
    assert row["effect"] == pytest.approx((b["score"] - a["score"]).mean())
    assert row["sees"] == (a["kept_id"] != b["kept_id"]).mean()
    assert answer.filter(press="streaming_llm")["sees"].to_list() == [0.0]


def test_question_16_joins_every_judged_layer_once(store: Store):
    answer = run_sql(store, SQL[16], VIEWS)
    judged = store.audit_ceilings.filter(arm="agnostic", rows_of="answer", press="h2o").collect()
    row = answer.filter(press="h2o").row(0, named=True)
    assert row["over_top"] == pytest.approx(judged["error_over_top"].median())


PAIRED = ("agnostic", "aware-scores")


def test_views_and_tables_stand_side_by_side(store: Store):
    sql = """
        WITH flat AS (SELECT model, count(*) AS cells FROM cells WHERE s = 8 AND flat GROUP BY model)
        SELECT ceiling.model, ceiling.n, auc, cells, median_kappa FROM ceiling
        JOIN prediction ON ceiling.model = prediction.model AND ceiling.s = prediction.s
        JOIN profile ON ceiling.model = profile.model AND ceiling.s = profile.s
        JOIN flat ON ceiling.model = flat.model
        WHERE ceiling.s = 8
    """
    assert sorted(run_sql(store, sql, VIEWS)["model"]) == ["toy-1", "toy-2"]


def test_a_text_in_two_dumps_counts_as_the_analysis_counts_it(tmp_path: Path):
    whole = toy_instances(documents=2).with_columns(text_id=pl.format("text {}", "document"))
    pilot = whole.filter(pl.col("layer") < 3).with_columns(closable=pl.lit(0.0), dump=pl.lit("0 pilot"))
    store = open_store(write_toy_store(tmp_path, whole, pilot))
    answer = run_sql(store, "SELECT s, n, documents, closable FROM ceiling ORDER BY s", VIEWS)
    expected = ceiling_table(store.instances, draws=0).select("s", "n", "documents", "closable")
    assert_frame_equal(answer, expected)
    assert (answer["closable"] < ceiling_table(whole, draws=0)["closable"]).all()


@pytest.mark.parametrize(
    ("sql", "columns", "predicates"),
    [
        ("SELECT s, median(closable) FROM instances WHERE model = 'toy-1' GROUP BY s", 3, ["model"]),
        ("SELECT s, closable FROM ceiling WHERE model = 'toy-1' AND s = 8", 5, ["model", "s"]),
        ("SELECT layer, kappa FROM cells WHERE model = 'toy-1' AND layer < 2", 7, ["model", "layer"]),
        ("SELECT s, median_pi FROM profile WHERE model = 'toy-1' AND s = 8", 5, ["model", "s"]),
        ("SELECT n_labelled FROM prediction WHERE model = 'toy-1' AND s = 8", 7, ["model", "s"]),
    ],
)
def test_filters_and_projections_reach_the_scan(store: Store, sql: str, columns: int, predicates: list[str]):
    (scan,) = re.findall(
        r"Parquet SCAN.*?PROJECT (\d+)/\d+ COLUMNS\s+SELECTION: (.*)", plan(store, sql), re.DOTALL
    )
    assert int(scan[0]) == columns
    for name in predicates:
        assert f'col("{name}")' in scan[1].splitlines()[0]


def test_they_also_reach_it_where_a_text_is_in_two_dumps(tmp_path: Path):
    frame = toy_instances(documents=2).with_columns(text_id=pl.format("text {}", "document"))
    store = open_store(write_toy_store(tmp_path, frame, frame.with_columns(dump=pl.lit("other"))))
    text = plan(store, "SELECT closable FROM ceiling WHERE s = 8")
    scans = re.findall(r"Parquet SCAN.*?PROJECT (\d+)/\d+ COLUMNS\s+SELECTION: (.*)", text, re.DOTALL)
    assert len(re.findall("Parquet SCAN", text)) == 2
    assert text.count('(col("s") == 8)') == 2, text
    assert all(int(columns) < 10 for columns, _ in scans)


def test_views_count_the_main_texts_and_the_filters_still_reach_the_scan(tmp_path: Path):
    prose, code = (toy_instances(documents=2, seed=i).with_columns(dump=pl.lit(f"{i}" * 12)) for i in (1, 2))
    folder = write_toy_store(tmp_path, prose, code)
    write_toy_documents(folder, toy_documents(prose), toy_documents(code, "python-code"))
    store = open_store(folder)
    sql = "SELECT s, closable FROM ceiling WHERE model = 'toy-1' AND s = 8"
    assert run_sql(store, sql, VIEWS).rows() == [
        (8, ceiling_table(prose, draws=0).filter(s=8)["closable"].item())
    ]
    assert run_sql(store, "SELECT count(*) FROM instances").item() == prose.height + code.height
    (scan,) = re.findall(
        r"Parquet SCAN.*?PROJECT (\d+)/\d+ COLUMNS\s+SELECTION: (.*)", plan(store, sql), re.DOTALL
    )
    assert int(scan[0]) < 10
    assert all(f'col("{name}")' in scan[1].splitlines()[0] for name in ("model", "s", "dump"))


def test_explain_as_a_word_or_an_option_is_the_same(store: Store):
    sql = "SELECT s FROM instances WHERE s = 8"
    assert plan(store, sql) == plan(store, f"-- why slow?\nEXPLAIN {sql}")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT kapa FROM instances", "sql: no column 'kapa'; did you mean kappa?"),
        ("SELECT i.Kapa FROM instances AS i", "sql: no column 'Kapa'; did you mean kappa?"),
        ("SELECT s FROM instances WHERE layr = 3", "sql: no column 'layr'; did you mean layer?"),
        ("SELECT s FROM instances GROUP BY s HAVING kapa > 1", "sql: no column 'kapa'; did you mean kappa?"),
        ("SELECT ac FROM prediction", "sql: no column 'ac'; did you mean auc"),
        ("SELECT zzz FROM rows", "sql: no column 'zzz'; columns: dump, document, row, position, tags"),
        ("SELECT * FROM cell", "sql: no table 'cell'; did you mean cells, ceiling?"),
        (
            "SELECT * FROM zzz",
            "sql: no table 'zzz'; tables: instances, certificates, ",
        ),
        ("SELECT s, kappa FROM instances GROUP BY s", "sql: 'kappa' should participate in the GROUP BY"),
    ],
)
def test_an_unknown_name_is_told_with_the_nearest(store: Store, sql: str, message: str):
    with pytest.raises(InputError) as caught:
        run_sql(store, sql, VIEWS)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "source", ["'{}'", '"{}"', "parquet('{}')", "parquet_scan('{}')", "read_parquet('{}')"]
)
def test_no_spelling_reads_a_file(store: Store, tmp_path: Path, source: str):
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "x.parquet")
    with pytest.raises(InputError):
        run_sql(store, f"SELECT * FROM {source.format(tmp_path / 'x.parquet')}", VIEWS)


def test_a_growing_store_is_read_whole_shards_at_a_time(tmp_path: Path):
    (tmp_path / "store").mkdir()
    command = [sys.executable, "-c", WRITER, str(tmp_path / "store")]
    writer = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    seen = [0]
    try:
        while writer.poll() is None:
            opened = open_store(tmp_path / "store")
            n, total, viewed = run_sql(opened, GROWING, VIEWS).row(0)
            assert n % UNIT == 0
            assert (total or 0) == n * 15  # the mean budget: no half of a shard
            assert (viewed or 0) == n  # a view and its table see the same shards
            assert seen[-1] <= n
            seen.append(n)
    finally:
        writer.kill()
        _, err = writer.communicate()
    assert writer.returncode == 0, err
    assert len(set(seen)) > 3  # it did grow while being read
    assert run_sql(open_store(tmp_path / "store"), "SELECT count(*) FROM instances").item() == 150 * UNIT


def test_an_empty_store_has_empty_answers(tmp_path: Path):
    for number, sql in SQL.items():
        assert run_sql(open_store(tmp_path), sql, VIEWS).height == 0, number


def test_the_command_line_knows_views_and_explains(store: Store, capsys: pytest.CaptureFixture[str]):
    def query(*arguments: str) -> tuple[int, str, str]:
        code = main(["query", "--store", str(store.path), *arguments])
        return code, *capsys.readouterr()

    sql = "SELECT model, s, n FROM ceiling WHERE s = 8 ORDER BY model"
    code, out, _ = query(sql, "--format", "csv")
    assert code == 0
    assert pl.read_csv(StringIO(out))["model"].to_list() == ["toy-1", "toy-2"]
    assert [row["s"] for row in json.loads(query(sql, "--format", "json")[1])] == [8, 8]
    code, out, _ = query(sql, "--explain")
    assert code == 0
    assert 'SELECTION: col("s") == 8' in out
    assert query(f"EXPLAIN {sql}")[1] == out
    code, out, err = query("SELECT closble FROM ceiling")
    assert (code, out) == (2, "")
    assert err.startswith("ceiling: sql: no column 'closble'; did you mean closable")
    assert err.count("\n") == 1


def test_several_configurations_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    frame = toy_instances(documents=1)
    write_toy_store(tmp_path, frame, frame.with_columns(config=pl.lit("1" * 8)))
    arguments = ["query", "--store", str(tmp_path), "SELECT n FROM ceiling"]
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert "00000000, 11111111" in err
    assert "--config" in err
    assert main([*arguments, "--config", "11111111"]) == 0
