"""Certified ceilings beside SCIP's: share of a fixed manifest that is certified, against time, one core.

Off unless CEILING_CERTIFY_DUMPS names the folder that holds the dumps of ``certify48.csv``; needs the
``bench`` extra (pyscipopt). Then ``pytest tests/bench/test_certify_bench.py --override-ini addopts=`` asks
every contestant about every instance and prints a markdown table. Further variables:

* CEILING_CERTIFY_SECONDS: CPU seconds a question, 10 unless given. One run at 60 also shows 10 and 1.
* CEILING_CERTIFY_INSTANCES: how many, spread over the manifest; all 48 unless given.
* CEILING_CERTIFY_OUT: a folder whose ``certify.csv`` gets a line an answer; what stands there is not asked
  again, so a run that is stopped goes on where it was. Delete it when the engine changes.

SCIP is favoured wherever the two cannot be equal. It is given our best set for nothing and asked only for
one better by `SLACK`, where ours proves its own to 1e-6 and finds the set in the same seconds; building its
model is not counted; and without a mass floor its fair form looks at sets of some mass only
(`tests.bench.scip`). Seconds are CPU seconds of one thread for all. A ``certified`` of SCIP's is its word, in
floating point; ours is a proof that ``ceiling certify --check`` replays.
"""

import csv
import os
import time
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from ceiling.certify import certify
from ceiling.dump import Dump, open_dump
from ceiling.objective import centre, forced_error_at
from ceiling.problem import Row, Status

pytest.importorskip("pyscipopt", reason="the peer; pip install '.[bench]'")

from tests.bench.scip import CERTIFIED, DIRECT, FAIR, FALSE, IMPROVED, UNSOLVED, Form, refute

MANIFEST = Path(__file__).with_name("certify48.csv")
DUMPS = os.environ.get("CEILING_CERTIFY_DUMPS")
OUT = os.environ.get("CEILING_CERTIFY_OUT")
SECONDS = float(os.environ.get("CEILING_CERTIFY_SECONDS", "10"))
INSTANCES = int(os.environ.get("CEILING_CERTIFY_INSTANCES", "48"))
SLACK = 1e-4
"""Relative: how far below our best error the threshold lies that SCIP is to refute. A hundred times its
tolerance in the fair form: nearer, it would return our own set as a better one."""
OVERRUN = 5.0
"""Seconds a contestant may take beyond the limit, as it looks at its clock between steps only."""
AGREE = 1e-9
"""Relative: how far recomputed errors may differ; rounding, a thousand times over."""
NODES = 2**40
"""Nodes ours may take: no limit, as time is what is compared."""
REFUTED = "refuted"
"""A claim that a set found by another contestant contradicts."""
OURS = "ours"
PEERS: dict[str, Form] = {"SCIP direct": DIRECT, "SCIP fair": FAIR}
FLOORS = (None, 0.5, 0.9)
COLUMNS: list[tuple[str, float | None]] = [(OURS, None), *((name, None) for name in PEERS)]
COLUMNS += [(name, floor) for floor in FLOORS[1:] for name in (OURS, "SCIP fair")]
"""Who is asked with which mass floor; the direct form is the paper's, which has none."""
TIMES = (0.1, 1.0, 10.0, 60.0)
"""Seconds at which shares are shown, up to the limit."""
NUMBERS = ("document", "layer", "head", "row", "s")
"""Columns of the manifest that name an instance, after its dump."""

needs_dumps = pytest.mark.skipif(DUMPS is None, reason="CEILING_CERTIFY_DUMPS names no folder")


class Instance(NamedTuple):
    """A row and a budget."""

    dump: str
    document: int
    layer: int
    head: int
    row: int
    s: int

    def read(self) -> Row:
        return dumps()[self.dump].document(self.document).row(self.layer, self.head, self.row)


class Question(NamedTuple):
    """An instance and a mass floor."""

    instance: Instance
    floor: float | None


class Answer(NamedTuple):
    """One line of the file."""

    name: str
    limit: float
    question: Question
    status: str
    seconds: float
    nodes: int
    error: float | None  # of the last set returned, in the units of the values
    bound: float  # proved, ours; the last threshold asked, SCIP's
    ended: str


def manifest() -> list[Instance]:
    """The instances, spread over the file where only some are asked."""
    with MANIFEST.open(newline="") as lines:
        instances = [instance_of([line[n] for n in ("dump", *NUMBERS)]) for line in csv.DictReader(lines)]
    return instances[:: max(len(instances) // INSTANCES, 1)][:INSTANCES]


def instance_of(cells: list[str]) -> Instance:
    return Instance(cells[0], *map(int, cells[1:]))


class Book:
    """The answers of a run, each appended to a file as it comes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answers: dict[tuple[str, float, Question], Answer] = {}
        if path.exists():
            with path.open(newline="") as lines:
                for line in csv.reader(lines):
                    self.keep(read(line))

    def keep(self, answer: Answer) -> Answer:
        self.answers[answer.name, answer.limit, answer.question] = answer
        return answer

    def ask(self, name: str, question: Question) -> Answer:
        """The answer that stands in the file, or a new one."""
        known = self.answers.get((name, SECONDS, question))
        return known or self.keep(self.write(ours(question) if name == OURS else self.peer(name, question)))

    def peer(self, name: str, question: Question) -> Answer:
        """SCIP's answer about a threshold just below our best error, or below a better one that it finds."""
        error, spent, nodes, row = self.ask(OURS, question).error, 0.0, 0, centre(question.instance.read())
        assert error
        start, status = error, IMPROVED
        while status == IMPROVED and spent < SECONDS:
            tau, s = error * (1 - SLACK), question.instance.s
            left = SECONDS - spent
            found = refute(row.residuals, row.masses, s, tau, question.floor, left, PEERS[name])
            status, error = found.status, found.error or error
            spent, nodes = spent + found.seconds, nodes + found.nodes
        status = UNSOLVED if status == IMPROVED else status  # out of time on the way to a better set yet
        own = error if error != start else None
        return Answer(name, SECONDS, question, status, spent, nodes, own, tau, found.ended)

    def write(self, answer: Answer) -> Answer:
        line = [*answer[:2], *answer.question.instance, answer.question.floor, *answer[3:]]
        with self.path.open("a", newline="") as lines:
            csv.writer(lines).writerow("" if cell is None else cell for cell in line)
        return answer


def read(line: list[str]) -> Answer:
    """The inverse of `Book.write`."""
    floor, error = (float(cell) if cell else None for cell in (line[8], line[12]))
    question = Question(instance_of(line[2:8]), floor)
    counts = line[9], float(line[10]), int(line[11])
    return Answer(line[0], float(line[1]), question, *counts, error, float(line[13]), line[14])


def ours(question: Question) -> Answer:
    """What the package proves in the same CPU seconds; compiled before the clock starts."""
    compiled(question.floor)
    row = question.instance.read()
    start = time.process_time()
    found = certify(row, question.instance.s, nodes=NODES, seconds=SECONDS, mass_floor=question.floor)
    spent = time.process_time() - start
    status = CERTIFIED if found.status in (Status.OPTIMAL, Status.TRIVIAL) else UNSOLVED
    counts = status, spent, found.nodes, found.upper, found.lower
    return Answer(OURS, SECONDS, question, *counts, found.stopped_by)


@cache
def compiled(floor: float | None) -> None:
    for s in (4, 8):  # the engine has one way for small budgets and one for others
        certify(toy(64, s), s, seconds=1.0, mass_floor=floor)


@cache
def dumps() -> dict[str, Dump]:
    """The dumps in the folder, by id."""
    found = map(open_dump, sorted(path.parent for path in Path(str(DUMPS)).glob("*/manifest.json")))
    return {dump.id: dump for dump in found}


def toy(n: int, seed: int) -> Row:
    rng = np.random.default_rng(seed)
    return Row(rng.dirichlet(np.ones(n)), rng.normal(size=(n, 3)))


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Book:
    folder = Path(OUT) if OUT else tmp_path_factory.mktemp("certify")
    folder.mkdir(parents=True, exist_ok=True)
    return Book(folder / "certify.csv")


@pytest.mark.parametrize("form", [DIRECT, FAIR], ids=["direct", "fair"])
@pytest.mark.parametrize("floor", [None, 0.5, 0.9])
@pytest.mark.parametrize("s", [2, 4])
def test_the_peer_answers_small_questions_rightly(form: Form, floor: float | None, s: int):
    row = centre(toy(12, s))
    least = (floor or 0) * np.sort(row.masses)[-s:].sum()
    sets = [list(kept) for kept in combinations(range(12), s)]
    best = min(forced_error_at(row, np.array(kept)) for kept in sets if row.masses[kept].sum() >= least)
    below = refute(row.residuals, row.masses, s, best * (1 - 1e-3), floor, 10, form)
    above = refute(row.residuals, row.masses, s, best * (1 + 1e-3), floor, 10, form)
    assert (below.status, above.status) == (CERTIFIED, IMPROVED)
    assert above.error == pytest.approx(best, rel=2e-3)


@needs_dumps
@pytest.mark.parametrize(("name", "floor"), COLUMNS)
@pytest.mark.parametrize("instance", manifest(), ids=lambda instance: "-".join(map(str, instance)))
def test_answer(instance: Instance, name: str, floor: float | None, book: Book):
    assert book.ask(name, Question(instance, floor)).seconds <= SECONDS + OVERRUN


@needs_dumps
def test_table(book: Book, capsys: pytest.CaptureFixture[str]):
    keys = [(name, SECONDS, Question(instance, floor)) for instance in manifest() for name, floor in COLUMNS]
    if missing := sum(key not in book.answers for key in keys):
        pytest.skip(f"needs the answers of a whole run; {missing} are missing")
    answers = [checked(book.answers[key], book) for key in keys]
    with capsys.disabled():
        print("\n\n" + "\n".join(table(answers)))
    assert not [answer for answer in answers if (answer.name, answer.status) == (OURS, REFUTED)]
    for floor in FLOORS:
        certified = {name: len(within(answers, name, floor, SECONDS)) for name, at in COLUMNS if at == floor}
        assert certified[OURS] == max(certified.values())


def checked(answer: Answer, book: Book) -> Answer:
    """`answer`, unless a set that anyone found for the same question proves its bound wrong."""
    instance, floor = answer.question
    found = [
        other.error
        for other in book.answers.values()
        if other.question.instance == instance
        and (other.question.floor or 0) >= (floor or 0)  # a set above a higher floor is above this one
        and other.error is not None
        and other.status != FALSE
    ]
    claims = answer.name == OURS or answer.status == CERTIFIED
    return answer._replace(status=REFUTED) if claims and min(found) < answer.bound * (1 - AGREE) else answer


def within(answers: list[Answer], name: str, floor: float | None, seconds: float) -> list[Answer]:
    """What `name` has certified with mass floor `floor` after `seconds`, overrun of the limit included."""
    return [
        answer
        for answer in answers
        if (answer.name, answer.question.floor, answer.status) == (name, floor, CERTIFIED)
        and (answer.seconds <= seconds or seconds == SECONDS)
    ]


def table(answers: list[Answer]) -> list[str]:
    """Shares certified after some seconds, how the rest ended, and how often ours was not the best set."""
    times = [seconds for seconds in TIMES if seconds < SECONDS] + [SECONDS]
    rest = (UNSOLVED, FALSE, REFUTED)
    total = len(manifest())
    lines = [
        f"| mass floor | certified of {total} within | "
        + " | ".join([f"{seconds:g} s" for seconds in times] + [*rest, "better set"])
        + " |",
        "|---" * (3 + len(times) + len(rest)) + "|",
    ]
    for name, floor in COLUMNS:
        shares = [f"{len(within(answers, name, floor, seconds)) / total:.0%}" for seconds in times]
        own = [answer for answer in answers if (answer.name, answer.question.floor) == (name, floor)]
        ends = [answer.status for answer in own]
        # Better than ours: what SCIP returned on the way to its verdict, unless that was false.
        better = sum(a.error is not None and a.status != FALSE for a in own) if name != OURS else 0
        counts = [str(count) for count in (*map(ends.count, rest), better)]
        lines.append(f"| {floor or 'none'} | {name} | " + " | ".join(shares + counts) + " |")
    return lines
