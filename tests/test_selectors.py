"""Selectors against their definitions, written out slowly, and what all of them promise."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ceiling import objective
from ceiling.problem import InputError, Row
from ceiling.selectors import READINGS, SELECTORS, KVHead, Reading, mass, resolve
from ceiling.selectors.ranking import best

NEAR = 1e-4
"""Relative: scores from float32 attention this close to the slow ones may trade places."""

CASES = [(name, reading) for name, selector in SELECTORS.items() for reading in selector.rules]


@dataclass(frozen=True)
class Case:
    """One KV head of random vectors with a sampled query, and its attention in float64."""

    seed: int
    n: int = 40
    g: int = 2
    window: int | None = None
    soft_cap: float | None = None
    position: int = 30
    whole: bool = False  # small whole numbers: products are exact, ties abound

    @cached_property
    def vectors(self):
        """Keys and values [n, d], queries [g, n, d], float32."""
        rng = np.random.default_rng(self.seed)
        shapes = ((self.n, 4), (self.n, 4), (self.g, self.n, 4))
        if self.whole:
            return [rng.integers(-2, 3, shape).astype(np.float32) for shape in shapes]
        return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]

    @cached_property
    def attention(self):
        """float64 [g, n, n], row by row."""
        keys, _, queries = (array.astype(float) for array in self.vectors)
        rows = np.zeros((self.g, self.n, self.n))
        for h in range(self.g):
            for i in range(self.n):
                seen = range(self.first(i), i + 1)
                logits = np.array([0.7 * (queries[h, i] @ keys[j]) for j in seen])
                if self.soft_cap is not None:
                    logits = self.soft_cap * np.tanh(logits / self.soft_cap)
                rows[h, i, seen] = np.exp(logits) / np.exp(logits).sum()
        return rows

    def first(self, position: int) -> int:
        return 0 if self.window is None else max(0, position + 1 - self.window)

    def head(self, **changes) -> KVHead:
        keys, values, queries = self.vectors
        masses = self.attention[:, [self.position]].astype(np.float32)
        arrays = {"keys": keys, "values": values, "queries": queries, "masses": masses} | changes
        return KVHead(
            **arrays, positions=[self.position], window=self.window, scaling=0.7, soft_cap=self.soft_cap
        )

    def seen(self, reading: str) -> tuple[int, list[int], range]:
        """How many queries have been, the query heads that are asked, and the candidates."""
        if reading == "per-query":
            return self.position + 1, [0], range(self.first(self.position), self.position + 1)
        return self.position, list(range(self.g)), range(self.first(self.position), self.position)


def cases(**fixed) -> st.SearchStrategy[Case]:
    """Cases by a seed: drawn number by number, most would be too small to choose anything in."""

    def drawn(seed: int) -> Case:
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 61))
        return Case(
            seed=seed,
            n=n,
            g=int(rng.integers(1, 4)),
            window=[None, None, 20, 5, 1][rng.integers(5)],
            soft_cap=[None, 1.5][rng.integers(2)],
            position=n - 1 - int(rng.integers(min(n, 20))),
            **fixed,
        )

    return st.integers(0, 2**32 - 1).map(drawn)


budgets = st.sampled_from([4, 8, 16, 6, 5, 3, 2, 1, 24])
readings = st.sampled_from(READINGS)


def rightly_chosen(kept, scores: dict[int, float], held: list[int], s: int, case: Case, reading: str) -> bool:
    """Whether `kept` is `held`, latest first, and the candidates of largest score, within rounding."""
    count = s - (reading == "cache")
    candidates = case.seen(reading)[2]
    own = {case.position} if reading == "cache" else set()
    if len(candidates) <= count:
        return set(kept) == own | set(candidates)
    held = sorted(held)[max(len(held) - count, 0) :]
    others = set(kept) - own - set(held)
    dropped = set(candidates) - others - set(held)
    if (
        not (own | set(held)) <= set(kept)
        or len(others) != count - len(held)
        or not others <= set(candidates)
    ):
        return False
    least = min((scores[j] for j in others), default=np.inf)
    return max(scores[j] for j in dropped) <= least * (1 + NEAR) if dropped else True


def keep(name: str, case: Case, reading: Reading, s: int) -> list[int]:
    return resolve(name).keep(case.head().sight(0, 0, reading), s).tolist()


@pytest.mark.parametrize("s", [1, 4, 7, 16])
@given(cases(), readings, st.sampled_from(["max", "avg"]), st.sampled_from([0, 0, 1, 6]))
def test_snapkv(s, case, reading, pooling, window):
    last, heads, candidates = case.seen(reading)
    w = min(window or max(1, min(32, s // 2)), last)
    older = range(last - w)
    scores = dict.fromkeys(candidates, 0.0)
    for j in set(candidates) & set(older):
        for h in heads:
            near = [case.attention[h, last - w : last, k].sum() for k in range(j - 3, j + 4) if k in older]
            scores[j] += max(near) if pooling == "max" else sum(near) / 7
    held = [j for j in candidates if j >= last - w]
    kept = keep(f"snapkv:window={window},pooling={pooling}", case, reading, s)
    assert rightly_chosen(kept, scores, held, s, case, reading)


@given(cases(), budgets, readings)
def test_h2o(case, s, reading):
    last, heads, candidates = case.seen(reading)
    scores = {j: sum(case.attention[h, i, j] for h in heads for i in range(last)) for j in candidates}
    recent = max(s // 2 - (reading == "cache"), 0)
    held = list(candidates)[len(candidates) - min(recent, len(candidates)) :]
    assert rightly_chosen(keep("h2o", case, reading, s), scores, held, s, case, reading)


@pytest.mark.parametrize("s", [1, 4, 7, 16])
@given(cases(whole=True), st.sampled_from([0, 1, 3, 16]))
def test_quest(s, case, page):
    keys, _, queries = case.vectors
    first, query, length = case.first(case.position), queries[0, case.position], page or max(2, s // 4)
    bounds = []
    for p in range(case.n // length + 1):
        own = [j for j in range(p * length, (p + 1) * length) if first <= j <= case.position]
        if own:
            upper = sum(max(query[c] * keys[j, c] for j in own) for c in range(4))
            bounds.append((-upper, p, own))
    wanted = [j for _, _, own in sorted(bounds) for j in own][:s]
    assert keep(f"quest:page={page}", case, "per-query", s) == sorted(wanted)


def test_a_page_counts_visible_keys_without_mass():
    keys, query = np.array([[9], [0], [5], [5]], np.float32), np.ones((1, 4, 1), np.float32)
    masses = np.array([[[0, 0.2, 0.4, 0.4]]], np.float32)
    sight = KVHead(keys, keys, query, masses, [3]).sight(0, 0, "per-query")
    assert resolve("quest:page=2").keep(sight, 1).tolist() == [1]


@given(cases(), budgets, readings)
def test_streaming_llm(case, s, reading):
    """The same in both readings: sinks in sight, and the latest, the query's own key among them."""
    visible = range(case.first(case.position), case.position + 1)
    sinks = [j for j in visible if j < min(4, s // 2)]
    recent = [j for j in reversed(visible) if j not in sinks][: s - len(sinks)]
    assert keep("streaming-llm", case, reading, s) == sorted(sinks + recent)


@given(cases(), budgets)
def test_tova_before_the_query(case, s):
    last, heads, candidates = case.seen("cache")
    scores = {j: sum(case.attention[h, last - 1, j] for h in heads) for j in candidates}
    assert rightly_chosen(keep("tova", case, "cache", s), scores, [], s, case, "cache")


@given(cases(), budgets, readings)
def test_leverage(case, s, reading):
    candidates = case.seen(reading)[2]
    keys = case.vectors[0][candidates].astype(float)
    gram = keys.T @ keys
    ridge = gram + 1e-2 * np.trace(gram) / 4 * np.eye(4)
    scores = {j: k @ np.linalg.solve(ridge, k) for j, k in zip(candidates, keys, strict=True)}
    assert rightly_chosen(keep("leverage", case, reading, s), scores, [], s, case, reading)


@given(cases(), budgets)
def test_geometric(case, s):
    row = Row(case.attention[0, case.position, : case.position + 1].astype(np.float32),
              case.vectors[1][: case.position + 1])  # fmt: skip
    centred = objective.centre(row)
    support = np.unique(objective.frank_wolfe(centred, s)[0])
    wanted = objective.fill(support, objective.ranked(centred.masses), min(s, row.n_keys))
    assert keep("geometric", case, "per-query", s) == centred.positions[wanted].tolist()


@st.composite
def grids(draw) -> np.ndarray:
    """Masses of a group on a grid, float32 [g, 1, n]: sums are exact, ties and zeros abound."""
    n = draw(st.integers(2, 12))
    rows = []
    for _ in range(draw(st.integers(1, 3))):
        cuts = sorted(draw(st.lists(st.integers(0, 64), min_size=n - 1, max_size=n - 1)))
        rows.append([[(b - a) / 64 for a, b in zip([0, *cuts], [*cuts, 64], strict=True)]])
    return np.array(rows, dtype=np.float32)


@given(grids(), st.integers(1, 8))
def test_the_rules_by_mass(masses, s):
    """Ties go to the lowest position, and keys of no mass are never kept."""
    g, _, n = masses.shape
    sight = KVHead(np.ones((n, 1)), np.ones((n, 1)), None, masses, [n - 1]).sight(g - 1, 0, "per-query")
    own, votes = masses[-1, 0], masses[:, 0].sum(axis=0)
    keys = [j for j in range(n) if own[j] > 0]
    by_mass = sorted(sorted(keys, key=lambda j: (-own[j], j))[:s])
    assert SELECTORS["top-mass"].keep(sight, s).tolist() == by_mass
    assert SELECTORS["tova"].keep(sight, s).tolist() == by_mass
    assert objective.top_mass(Row(own, np.ones((n, 1))), s).tolist() == by_mass
    by_vote = sorted(sorted(keys, key=lambda j: (-votes[j], j))[:s])
    assert SELECTORS["group-vote"].keep(sight, s).tolist() == by_vote


def test_tova_is_compared_with_top_mass(monkeypatch):
    sight = Case(0).head().sight(0, 0, "per-query")
    monkeypatch.setattr(mass, "top_mass", lambda sight, count: sight.candidates[:count])
    with pytest.raises(ArithmeticError, match="not the top-mass set"):
        SELECTORS["tova"].keep(sight, 4)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=12), st.data())
def test_ties_go_to_the_lowest_position(scores, data):
    candidates = sorted(data.draw(st.sets(st.integers(0, len(scores) - 1), min_size=1)))
    count = data.draw(st.integers(0, len(candidates)))
    wanted = sorted(sorted(candidates, key=lambda j: (-scores[j], j))[:count])
    assert best(np.array(scores, dtype=float), np.array(candidates), count).tolist() == wanted


def test_ties_of_attention_go_to_the_lowest_position():
    """Queries of zero see all keys alike: SnapKV's older keys all tie, and are taken from the front."""
    case = Case(0)
    sight = case.head(queries=np.zeros_like(case.vectors[2])).sight(0, 0, "per-query")
    assert SELECTORS["snapkv"].keep(sight, 8).tolist() == [0, 1, 2, 3, 27, 28, 29, 30]


@given(cases(), budgets, st.sampled_from(CASES))
def test_every_set_is_one(case, s, chosen):
    name, reading = chosen
    visible = range(case.first(case.position), case.position + 1)
    kept = SELECTORS[name].keep(case.head().sight(case.g - 1, 0, reading), s)
    assert kept.dtype == np.int64
    assert (np.diff(kept) > 0).all()
    assert len(kept) == min(s, len(visible))
    assert set(kept.tolist()) <= set(visible)
    assert reading == "per-query" or kept[-1] == case.position


@given(cases(), st.integers(1, 40))
def test_sets_do_not_depend_on_what_was_asked_before(case, s):
    def sets(order):
        head = case.head()
        return {
            (name, reading, b): SELECTORS[name].keep(head.sight(0, 0, reading), b).tolist()
            for name, reading in order
            for b in ((s, 4, 60) if order is CASES else (60, 4, s))
        }

    assert sets(CASES) == sets(CASES[::-1])


@given(cases(), budgets, st.sampled_from([case for case in CASES if case[1] == "cache"]))
def test_nobody_sees_the_query_before_it_comes(case, s, chosen):
    """Another query, with other masses, key and value, and other tokens after it: the same set."""
    name, reading = chosen
    keys, values, queries = (array.copy() for array in case.vectors)
    for array in (keys, values, queries):
        array[..., case.position :, :] = 3 - array[..., case.position :, :]
    masses = np.zeros((case.g, 1, case.n), dtype=np.float32)
    masses[:, 0, case.first(case.position)] = 1
    changed = case.head(keys=keys, values=values, queries=queries, masses=masses)
    selector = SELECTORS[name]
    kept = selector.keep(case.head().sight(0, 0, reading), s).tolist()
    assert selector.keep(changed.sight(0, 0, reading), s).tolist() == kept


def test_one_sight_for_the_whole_group_before_the_query_comes():
    head = Case(0, g=3).head()
    assert len({id(head.sight(h, 0, "cache")) for h in range(3)}) == 1
    assert len({id(head.sight(h, 0, "per-query")) for h in range(3)}) == 3


@given(cases(), st.data())
def test_attention_is_the_models(case, data):
    """Also far back of the query, beyond the rows that are formed at once."""
    reading = data.draw(readings)
    sight = case.head().sight(0, 0, reading)
    if sight.n == 0:
        return
    _, heads, _ = case.seen(reading)
    last = data.draw(st.integers(1, sight.n))
    first = data.draw(st.integers(0, last - 1))
    wanted = case.attention[heads]
    np.testing.assert_allclose(sight.attention(first, last), wanted[:, first:last, : sight.n], atol=1e-5)
    summed = wanted[:, :last, : sight.n].sum(axis=1)
    np.testing.assert_allclose(sight.received(last), summed, atol=1e-5 * last)
    np.testing.assert_allclose(sight.received(), wanted[:, : sight.n, : sight.n].sum(axis=1), atol=1e-3)


@pytest.mark.parametrize(("name", "reading"), CASES)
def test_who_needs_queries_says_so(name, reading):
    selector, sight = SELECTORS[name], Case(0).head(queries=None).sight(0, 0, reading)
    if reading in selector.needs_queries:
        with pytest.raises(InputError, match="--queries"):
            selector.keep(sight, 4)
    else:
        assert len(selector.keep(sight, 4)) == 4


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"values": np.zeros((39, 4))}, r"values: shape \(39, 4\)"),
        ({"queries": np.zeros((1, 40, 4))}, r"queries: shape \(1, 40, 4\), expected \(2, 40, 4\)"),
        ({"masses": np.zeros((2, 2, 40))}, r"masses: shape \(2, 2, 40\), expected \(g, 1, 40\)"),
        ({"keys": np.zeros((0, 4))}, r"keys: shape \(0, 4\)"),
    ],
)
def test_shapes_that_do_not_agree_are_refused(changes, complaint):
    with pytest.raises(InputError, match=complaint):
        Case(0).head(**changes)


def test_what_is_not_there_is_refused():
    head = Case(0).head()
    sight = head.sight(0, 0, "cache")
    for wrong, complaint in (
        (lambda: head.sight(2, 0, "cache"), "head: 2 is outside 0..1"),
        (lambda: head.sight(0, 1, "cache"), "row: 1 is outside 0..0"),
        (lambda: head.sight(0, 0, "both"), "reading: 'both'"),
        (lambda: sight.attention(29, 31), r"queries 29..30 are not all in 0..29"),
        (lambda: sight.received(31), "before = 31"),
        (lambda: SELECTORS["quest"].keep(sight, 4), "quest has no reading cache, only per-query"),
        (lambda: SELECTORS["tova"].keep(sight, 0), "s: 0 is not positive"),
        (
            lambda: Case(0).head(masses=np.full((2, 1, 40), np.nan)).sight(0, 0, "per-query"),
            "position 30 sums to nan",
        ),
    ):
        with pytest.raises(InputError, match=complaint):
            wrong()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("snapk", "did you mean snapkv"),
        ("", "there are balancing, geometric, group-vote, h2o"),
        ("balancin", "did you mean balancing"),
        ("balancing:extra=3", "balancing is no rule and has no parameters"),
        ("snapkw:kernel=5", "did you mean snapkv"),
        ("snapkv:", "NAME=VALUE is expected, names: window, kernel, pooling"),
        ("snapkv:size=3", "'size=3' of snapkv"),
        ("snapkv:kernel=4", "kernel is an odd number >= 1"),
        ("snapkv:window=-1", "window is a whole number >= 0"),
        (f"quest:page={'9' * 5000}", "page is a whole number >= 0, of 9 digits at most"),
        ("snapkv:pooling=mean", "pooling is max or avg"),
        ("snapkv:kernel=5,kernel=7", "kernel of snapkv is repeated"),
        ("h2o:recent=3", "names: none"),
    ],
)
def test_names_that_lead_nowhere(text, complaint):
    with pytest.raises(InputError, match=complaint):
        resolve(text)


def test_a_variant_has_one_name():
    """In whatever order its parameters are given; those at their defaults leave no trace."""
    variant = resolve("snapkv:window=64,pooling=avg,kernel=7")
    assert variant.name == "snapkv:pooling=avg,window=64"
    assert variant == resolve("snapkv:pooling=avg,window=64")
    assert resolve("snapkv:window=0") is SELECTORS["snapkv"]
    assert resolve("quest:page=16").name == "quest:page=16"
