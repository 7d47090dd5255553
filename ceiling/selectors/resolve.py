"""From what a user writes to a selector: a built-in, a variant of one, or a rule of the user's own."""

import importlib
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType

from ceiling.durable import sha256
from ceiling.problem import InputError
from ceiling.selectors.registry import BALANCING, SELECTORS
from ceiling.selectors.selector import Rule, Selector
from ceiling.selectors.sight import READINGS, Reading

_digests: dict[str, str] = {}  # of the files that users' modules were loaded from, by module


def resolve(text: str) -> Selector:
    """The selector that `text` names.

    Parameters
    ----------
    text : str
        A built-in (``snapkv``), one with other parameters (``snapkv:kernel=5,pooling=avg``), or
        ``module:function``, a rule of the user's own, from the current folder or wherever Python finds the
        module. The function takes a `Sight` and a number of keys. It may carry two attributes: `reading`
        (``per-query``, where it says nothing; ``cache`` or ``both``) and `needs_queries` (True where it
        calls `attention` or `received` or reads `queries`; in reading ``cache`` also for `masses`). Its
        module is loaded anew where its file has changed; what that module imports is not looked at.

    Raises
    ------
    InputError
        Naming what is near.

    Examples
    --------
    >>> resolve("snapkv:window=64,kernel=5,pooling=avg").parameters
    {'window': 64, 'kernel': 5, 'pooling': 'avg'}
    """
    name, colon, rest = text.partition(":")
    if name in SELECTORS:
        return _variant(SELECTORS[name], rest) if colon else SELECTORS[name]
    if name == BALANCING:
        raise InputError(f"selector: {text}: {BALANCING} is no rule and has no parameters")
    if colon and name and rest and "=" not in rest:  # with it, a built-in's parameters are meant
        return _users(name, rest)
    built_in = _near(name, (*SELECTORS, BALANCING))
    raise InputError(f"selector: no {text!r}; {built_in}, or module:function for a rule of your own")


def _variant(selector: Selector, text: str) -> Selector:
    """The selector with parameters ``name=value,...``; those at their defaults leave no trace."""
    given: dict[str, int | str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if name not in selector.allowed or not equals:
            known = ", ".join(selector.allowed) or "none"
            raise InputError(f"selector: {part!r} of {selector.name}; NAME=VALUE is expected, names: {known}")
        if name in given:
            raise InputError(f"selector: {name} of {selector.name} is repeated")
        given[name] = selector.allowed[name].read(name, value)
    given = {name: given[name] for name in sorted(given) if given[name] != selector.allowed[name].default}
    if not given:
        return selector
    changes = ",".join(f"{name}={value}" for name, value in given.items())
    return replace(selector, name=f"{selector.name}:{changes}", given=given)


def _users(module_name: str, function_name: str) -> Selector:
    """A rule of the user's own, imported."""
    module, digest = _imported(module_name)
    functions = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
    rule = getattr(module, function_name, None)
    if not callable(rule):
        raise InputError(
            f"selector: {module_name} has no function {function_name!r}; {_near(function_name, functions)}"
        )
    readings = _readings(f"{module_name}:{function_name}", rule)
    return Selector(
        name=f"{module_name}:{function_name}",
        rules=dict.fromkeys(readings, rule),
        needs_queries=frozenset(readings if getattr(rule, "needs_queries", False) else ()),
        source=Path(module.__file__ or "").name,
        digest=digest,
    )


def _imported(name: str) -> tuple[ModuleType, str]:
    """A module as its file has it now, and the file's SHA-256."""
    stale = name in sys.modules
    module = _loaded(name, lambda: importlib.import_module(name))
    file = getattr(module, "__file__", None)
    if file is None:
        raise InputError(f"selector: {name} has no file, which says when its rule has changed")
    digest = sha256(Path(file))
    if stale and _digests.get(name) != digest:
        module = _loaded(name, lambda: importlib.reload(module))
    _digests[name] = digest
    return module, digest


def _loaded(name: str, load: Callable[[], ModuleType]) -> ModuleType:
    """A module, looked for in the current folder first; InputError where it fails."""
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        importlib.invalidate_caches()  # the module may be younger than the last look at its folder
        return load()
    except (Exception, SystemExit) as error:  # a script may end itself
        itself = isinstance(error, ModuleNotFoundError) and error.name == name
        where = "; looked for in the current folder and on Python's path" if itself else ""
        raise InputError(f"selector: module {name}: {type(error).__name__}: {error}{where}") from error
    finally:
        sys.path.remove(here)


def _readings(name: str, rule: Rule) -> tuple[Reading, ...]:
    said = getattr(rule, "reading", "per-query")
    if said == "both":
        return READINGS
    for reading in READINGS:
        if said == reading:
            return (reading,)
    raise InputError(f"selector: {name}.reading is {said!r}; one of {', '.join(READINGS)}, both")


def _near(name: str, names: Iterable[str]) -> str:
    """``did you mean ...`` or all there are."""
    near = get_close_matches(name, names := sorted(names), n=3, cutoff=0.5)
    return f"did you mean {', '.join(near)}?" if near else f"there are {', '.join(names) or 'none'}"
