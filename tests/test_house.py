"""House rules: short files, light rooms, a small front door, floors kept."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ceiling

ROOT = Path(__file__).parents[1]
LINES = 400
"""No file is longer."""

HEAVY = {"torch", "transformers", "ray", "numba", "ortools", "polars", "seaborn", "matplotlib"}
"""What takes a noticeable time to import."""

IMPORT_SECONDS = 0.5
"""What `import ceiling` may take; it takes a few milliseconds, the rest is a busy machine."""

SOURCES = sorted(
    path for folder in ("ceiling", "jobs", "figures", "tests") for path in (ROOT / folder).rglob("*.py")
)
PACKAGE = [path for path in SOURCES if path.is_relative_to(ROOT / "ceiling")]


def _named(paths: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", paths, ids=[str(path.relative_to(ROOT)) for path in paths])


@_named(SOURCES)
def test_a_file_is_short_and_says_what_it_is(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LINES
    assert ast.get_docstring(ast.parse(text)), "a module docstring is missing"


@_named([path for path in PACKAGE if not path.is_relative_to(ROOT / "ceiling" / "cli")])
def test_the_package_prints_nothing(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    prints = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "print"]
    assert not prints, f"print on line {prints}"


@_named([path for path in PACKAGE])
def test_nothing_runs_what_it_reads(path):
    """No eval, exec, pickle or shell: dumps and stores come from strangers."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    modules |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    keywords = {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword)}
    assert not names & {"eval", "exec"}
    assert not modules & {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
    assert "shell" not in keywords


def test_scripts_do_not_shadow_the_standard_library():
    """A script's own folder comes first on the path."""
    scripts = {path.stem for path in SOURCES if path.relative_to(ROOT).parts[0] in ("jobs", "figures")}
    assert not scripts & set(sys.stdlib_module_names)


def test_the_front_door():
    assert sorted(ceiling.__all__) == [
        "Answer",
        "Certificate",
        "Row",
        "Status",
        "balance",
        "best_in_pool",
        "capture",
        "certify",
        "dropped_mass",
        "forced_error",
        "free_error",
        "improve",
        "open_store",
        "pool",
        "top_mass",
        "zero_error",
    ]
    assert set(ceiling.__all__) <= set(dir(ceiling))


def test_the_front_door_leads_to_things_that_can_be_called():
    """Also after the rooms behind it are loaded: `capture` and `certify` are rooms and names."""
    code = (
        "import importlib, ceiling\n"
        "for room in ('capture', 'certify', 'store', 'search', 'objective', 'problem'):\n"
        "    importlib.import_module('ceiling.' + room)\n"
        "print([name for name in ceiling.__all__ if not callable(getattr(ceiling, name))])"
    )
    assert _fresh(code) == "[]"


@pytest.mark.parametrize(
    ("room", "allowed"),
    [
        ("ceiling", set()),
        ("ceiling.problem", set()),
        ("ceiling.objective", set()),
        ("ceiling.dump", set()),
        ("ceiling.store", {"polars"}),
        ("ceiling.analysis", {"polars"}),
        ("ceiling.plots", {"polars", "seaborn", "matplotlib"}),
        ("ceiling.search", {"numba"}),
        ("ceiling.selectors", set()),
        ("ceiling.texts", set()),
        ("ceiling.certify", {"numba"}),
        ("ceiling.cluster", {"ray"}),
        ("ceiling.cli", set()),
    ],
)
def test_a_room_loads_one_heavy_thing_at_most(room, allowed):
    heavy = _fresh(f"import sys, {room}\nprint(*sorted(set(sys.modules) & {HEAVY}))").split()
    assert set(heavy) <= allowed


def test_the_import_is_quick():
    code = "import time\nstart = time.perf_counter()\nimport ceiling\nprint(time.perf_counter() - start)"
    assert min(float(_fresh(code)) for _ in range(3)) < IMPORT_SECONDS


def test_a_file_imports_lower_floors_only():
    pytest.importorskip("importlinter")
    lint = "from importlinter.cli import lint_imports_command as lint; lint(['--no-cache'])"
    done = subprocess.run([sys.executable, "-c", lint], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def _fresh(code: str) -> str:
    """What `code` prints in a new interpreter at the project's root."""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
