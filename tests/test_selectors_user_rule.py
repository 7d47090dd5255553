"""A rule of the user's own, in ten lines, scored by its name."""

import sys

import numpy as np
import pytest

from ceiling.problem import InputError
from ceiling.selectors import KVHead, resolve

MY_RULES = '''\
"""Keep what was looked at and is large: mass times length of the value."""
import numpy as np


def my_rule(sight, count):
    score = sight.masses * np.linalg.norm(sight.values, axis=1)
    order = np.argsort(-score[sight.candidates], kind="stable")
    return sight.candidates[order[:count]]


my_rule.reading = "both"  # per-query (the default), cache, or both
'''

WRONG = """\
def too_few(sight, count): return sight.candidates[:count - 1]
def twice(sight, count): return [0] * count
def beyond(sight, count): return [sight.n + i for i in range(count)]
def fractions(sight, count): return sight.candidates[:count] + 0.5
def nothing(sight, count): return None
def broken(sight, count): return sight.no_such_thing
def greedy(sight, count): return sight.queries
def quits(sight, count): raise SystemExit(0)
def writes(sight, count): sight.masses[:] = 0
def strange(sight, count): return []
strange.reading = "sometimes"
"""


@pytest.fixture
def rules(tmp_path, monkeypatch):
    """The current folder holds `my_rules` and `wrong_rules`; forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_rules.py").write_text(MY_RULES)
    (tmp_path / "wrong_rules.py").write_text(WRONG)
    (tmp_path / "unfinished.py").write_text("def rule(:")
    (tmp_path / "a_script.py").write_text("raise SystemExit(0)")
    (tmp_path / "needy.py").write_text("import no_such_package")
    yield tmp_path
    for module in ("my_rules", "wrong_rules"):
        sys.modules.pop(module, None)


@pytest.fixture
def head():
    rng = np.random.default_rng(0)
    masses = rng.random((2, 1, 12)).astype(np.float32)
    masses /= masses.sum(axis=2, keepdims=True)
    keys, values = rng.standard_normal((2, 12, 4)).astype(np.float32)
    queries = rng.standard_normal((2, 12, 4)).astype(np.float32)
    return KVHead(keys, values, queries, masses, [11])


def test_a_rule_of_ten_lines(rules, head):
    selector = resolve("my_rules:my_rule")
    sight = head.sight(1, 0, "per-query")
    scores = sight.masses * np.linalg.norm(head.values, axis=1)
    assert selector.keep(sight, 3).tolist() == sorted(np.argsort(-scores)[:3].tolist())
    before = selector.keep(head.sight(1, 0, "cache"), 3)
    assert before[-1] == 11, "the query's own key is held"
    assert len(before) == 3
    assert (selector.name, len(selector.digest)) == ("my_rules:my_rule", 64)


def test_a_rule_that_has_changed_is_loaded_anew(rules, head):
    sight = head.sight(1, 0, "per-query")
    before = resolve("my_rules:my_rule")
    least = set(sight.candidates) - set(before.keep(sight, 9))
    (rules / "my_rules.py").write_text(MY_RULES.replace("-score", "score"))
    after = resolve("my_rules:my_rule")
    assert after.digest != before.digest
    assert set(after.keep(sight, 3)) == least
    assert resolve("my_rules:my_rule") == after


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("too_few", "returned 2; as many as asked for"),
        ("twice", "position 0 twice"),
        ("beyond", "position 12, which is not in sight.candidates"),
        ("fractions", "whole numbers"),
        ("nothing", "returned None"),
        ("broken", "AttributeError: 'Sight' object has no attribute 'no_such_thing'"),
        ("writes", "read-only"),
        ("greedy", "whole numbers"),
        ("quits", "SystemExit: 0"),
    ],
)
def test_a_wrong_rule_is_told_what_is_wrong(rules, head, name, complaint):
    with pytest.raises(InputError, match=complaint) as raised:
        resolve(f"wrong_rules:{name}").keep(head.sight(0, 0, "per-query"), 3)
    assert f"wrong_rules:{name} at position 11" in str(raised.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("wrong_rules:too_fw", "no function 'too_fw'; did you mean too_few"),
        ("wrong_rules:strange", "'sometimes'; one of per-query, cache, both"),
        ("no_rules:rule", "no_rules'; looked for in the current folder and on Python's path$"),
        ("top_mass:rule", "top_mass'; looked for in the current folder and on Python's path$"),
        ("needy:rule", "module needy: ModuleNotFoundError: No module named 'no_such_package'$"),
        ("unfinished:rule", r"module unfinished: SyntaxError: .*line 1\)$"),
        ("a_script:rule", "module a_script: SystemExit: 0"),
        ("sys:exit", "sys has no file"),
    ],
)
def test_what_is_no_rule_is_refused(rules, text, complaint):
    with pytest.raises(InputError, match=complaint):
        resolve(text)
