"""A published eviction method by name: what it is, its parameters, and the kvpress object that is it."""

import dataclasses
import functools
import importlib
import re
import sys
import types
import typing
from collections.abc import Iterable
from difflib import get_close_matches
from os import getcwd
from pathlib import Path
from typing import Any, cast
from zlib import crc32

import torch

from ceiling.audit.kinds import ALIASES, KINDS, MASKING, STORAGE, UNUSABLE, Kind, Parameter, Value
from ceiling.durable import sha256
from ceiling.problem import InputError


@dataclasses.dataclass(frozen=True, slots=True)
class Press:
    """An eviction method with its parameters.

    Attributes
    ----------
    kind : Kind
        The method.
    values : tuple of (str, value)
        Parameters that are not at their defaults, by name.
    """

    kind: Kind
    values: tuple[tuple[str, Value], ...] = ()

    @property
    def name(self) -> str:
        """Of the method: ``snapkv``."""
        return self.kind.name

    @property
    def parameters(self) -> str:
        """Canonical: ``kernel=7,window=16``; empty where all are at their defaults."""
        return ",".join(f"{name}={value}" for name, value in self.values)

    @property
    def label(self) -> str:
        """``snapkv:window=16``: what tells presses apart, and what `resolve` reads."""
        return f"{self.name}:{self.parameters}" if self.values else self.name

    @property
    def role(self) -> str:
        """``real``, ``trivial``, ``anchor`` or ``other``."""
        return self.kind.role

    @property
    def blind(self) -> bool:
        """Whether a question after the context cannot change the context's scores."""
        return self.kind.blind

    @property
    def per_ratio(self) -> bool:
        """Whether scores are taken anew for each ratio."""
        return self.kind.per_ratio

    @property
    def masks(self) -> bool:
        """Whether it only hides keys, so that the full cache is held."""
        return self.kind.masks and self.value("storage") != "ragged"

    @property
    def route(self) -> str:
        """``shared`` (one pass for all) or ``native`` (a prefill of its own)."""
        return self.kind.route

    @property
    def headwise(self) -> bool:
        """Whether KV heads of a layer share one budget, as AdaKV has it."""
        return self.name == "adakv"

    def value(self, name: str) -> Value:
        """The value of parameter `name`; None where the method has none of that name."""
        defaults = {parameter.name: parameter.default for parameter in self.kind.parameters}
        return dict(self.values).get(name, defaults.get(name))

    def build(self, ratio: float, seed: int = 0) -> Any:
        """A fresh kvpress press.

        Parameters
        ----------
        ratio : float
            Share evicted, 0 <= ratio < 1; the anchor takes none and evicts nothing.
        seed : int
            Of the instance; only `random` draws from it, in each layer anew.

        Returns
        -------
        kvpress.BasePress

        Notes
        -----
        Imports kvpress, which replaces transformers' attention functions in the whole process.
        """
        kvpress = _kvpress()
        if self.role == "anchor":
            return kvpress.KnormPress(0.0)
        fields = {p.field: self.value(p.name) for p in self.kind.parameters if p.field}
        if self.name == "random":
            return _layered_random()(ratio, seed=crc32(f"random/{self.value('seed')}/{seed}".encode()))
        cls = _class(self.kind.cls)
        if self.kind.over_snapkv:
            inner = {name: fields.pop(name) for name in ("window_size", "kernel_size")}
            return cls(kvpress.SnapKVPress(ratio, **inner), **fields)
        return cls(compression_ratio=ratio, **fields)


def resolve(text: str) -> Press:
    """The press that `text` names.

    Parameters
    ----------
    text : str
        ``snapkv``; with parameters ``snapkv:window=16,kernel=7``; another press of kvpress by its class
        (``compactor`` for ``CompactorPress``); or a press of the user's own, ``module:Class``, from the
        current folder or wherever Python finds the module. The roster is resolved without importing kvpress.

    Raises
    ------
    InputError
        Naming what is near, the parameters there are, or why the press cannot be audited.

    Examples
    --------
    >>> resolve("snapkv:kernel=5,window=16").label
    'snapkv:window=16'
    """
    name, _, rest = text.partition(":")
    own = re.match(r"([A-Za-z_]\w*)(?::(.*))?$", rest) if "=" not in rest.partition(":")[0] else None
    if own and not _known(name):
        return _with(_users(name, own[1]), own[2])
    return _with(_kind(name), rest if ":" in text else None)


def _with(kind: Kind, text: str | None) -> Press:
    """The press with the parameters ``name=value,...``; those at their defaults leave no trace."""
    known = {parameter.name: parameter for parameter in kind.parameters}
    known |= {parameter.field: parameter for parameter in kind.parameters if parameter.field}
    given: dict[str, Value] = {}
    for part in () if text is None else text.split(","):
        name, equals, value = part.partition("=")
        if name not in known or not equals:
            there = ", ".join(parameter.name for parameter in kind.parameters) or "none"
            raise InputError(f"press: {part!r} of {kind.name}; NAME=VALUE is expected, names: {there}")
        parameter = known[name]
        if parameter.name in given:
            raise InputError(f"press: {parameter.name} of {kind.name} is repeated")
        given[parameter.name] = _read(kind, parameter, value)
    changed = {
        p.name: given[p.name] for p in kind.parameters if p.name in given and given[p.name] != p.default
    }
    press = Press(kind, tuple(sorted(changed.items())))
    if changed:
        _check(press)
    return press


def _read(kind: Kind, parameter: Parameter, text: str) -> Value:
    """A parameter's value from what the user wrote."""
    wanted = {int: "a whole number", float: "a number", bool: "True or False"}.get(parameter.type, "")
    try:
        if parameter.type is bool:
            return {"true": True, "false": False}[text.lower()]
        value: Value = parameter.type(text)
    except (KeyError, ValueError):
        raise InputError(f"press: {parameter.name}={text} of {kind.name}; {wanted} is expected") from None
    if parameter is STORAGE and value not in ("mask", "ragged"):
        raise InputError(f"press: storage={text} of {kind.name}; mask or ragged")
    return value


def _check(press: Press) -> None:
    """Refuse values that no press could run with."""
    for name, least in (("window", 1), ("kernel", 1), ("n_sink", 0), ("n_future_positions", 1)):
        value = press.value(name)
        if isinstance(value, int) and value < least:
            raise InputError(f"press: {name}={value} of {press.name}; at least {least} is needed")
    kernel = press.value("kernel")
    if isinstance(kernel, int) and kernel % 2 == 0:
        raise InputError(f"press: kernel={kernel} of {press.name}; pooling keeps the length only if odd")
    for name, most in (("alpha", 1.0), ("first_stage_ratio", 1.0), ("epsilon", float("inf"))):
        value = press.value(name)
        if isinstance(value, float) and not 0 <= value <= most:
            raise InputError(f"press: {name}={value:g} of {press.name}; from 0 to {most:g}")


def _known(name: str) -> bool:
    return name in KINDS or name in ALIASES or name in UNUSABLE


def _kind(name: str) -> Kind:
    """The press of kvpress that `name` is; underscores and capitals do not matter."""
    plain = _plain(name)
    for known, kind in KINDS.items():
        if plain == _plain(known):
            return kind
    for alias, known in ALIASES.items():
        if plain == _plain(alias):
            return KINDS[known]
    for known, reason in UNUSABLE.items():
        if plain == _plain(known):
            raise InputError(f"press: {known} cannot be audited: {reason}")
    classes = _others()
    for known, cls in classes.items():
        if plain == _plain(known):
            return _read_class(known, f"kvpress:{cls.__name__}", cls)
    near = _near(name, (*KINDS, *classes))
    raise InputError(f"press: no {name!r}; {near}, or module:Class for a press of your own")


def _others() -> dict[str, type]:
    """Presses of kvpress beyond those known by name: snake_case of the class -> class."""
    kvpress = _kvpress()
    classes = {name: getattr(kvpress, name) for name in kvpress.__all__ if name.endswith("Press")}
    named = {
        re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", "_", name.removesuffix("Press")).lower(): cls
        for name, cls in classes.items()
    }
    taken = {_plain(name) for name in (*KINDS, *ALIASES, *UNUSABLE)}
    return {name: cls for name, cls in named.items() if _plain(name) not in taken}


def _read_class(name: str, where: str, cls: type, digest: str = "") -> Kind:
    """What a class of presses says of itself."""
    kvpress = _kvpress()
    plain = (
        issubclass(cls, kvpress.ScorerPress)
        and cls.compress is kvpress.ScorerPress.compress  # type: ignore[attr-defined]
        and cls.forward_hook is kvpress.BasePress.forward_hook  # type: ignore[attr-defined]
        and cls.__call__ is kvpress.BasePress.__call__
    )
    return Kind(
        name,
        where,
        parameters=tuple(_parameters(cls)),
        masks=name in MASKING,
        route="shared" if plain else "native",
        digest=digest,
    )


def _parameters(cls: type) -> Iterable[Parameter]:
    """The fields of a press that text can set, by their names without ``_size``."""
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        kind, default = _simple(hints[field.name]), cast(Value, field.default)
        settable = field.init and default is not dataclasses.MISSING and not field.name.startswith("_")
        if settable and kind and field.name != "compression_ratio":
            yield Parameter(field.name.removesuffix("_size"), field.name, kind, default)


def _simple(hint: Any) -> type | None:
    """int, float, bool or str, also behind ``| None`` and ``Literal``; None where text cannot say it."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        hint = kinds[0] if len(kinds) == 1 else None
    if typing.get_origin(hint) is typing.Literal:
        hint = str
    return hint if hint in (int, float, bool, str) else None


def _users(module_name: str, class_name: str) -> Kind:
    """A press of the user's own, imported; the current folder is looked in first."""
    kvpress = _kvpress()
    here = getcwd()
    sys.path.insert(0, here)
    try:
        importlib.invalidate_caches()
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a script may end itself
        itself = isinstance(error, ModuleNotFoundError) and error.name == module_name
        where = f"; {_near(module_name, KINDS)}" if itself else ""
        raise InputError(f"press: module {module_name}: {type(error).__name__}: {error}{where}") from error
    finally:
        sys.path.remove(here)
    cls = getattr(module, class_name, None)
    if not (isinstance(cls, type) and issubclass(cls, kvpress.BasePress)):
        presses = [
            name
            for name, value in vars(module).items()
            if isinstance(value, type) and issubclass(value, kvpress.BasePress)
        ]
        raise InputError(
            f"press: {module_name}:{class_name} is no kvpress.BasePress; {_near(class_name, presses)}"
        )
    name = f"{module_name}:{class_name}"
    kind = _read_class(name, name, cls, sha256(Path(module.__file__)) if module.__file__ else "")
    try:
        Press(kind).build(0.5)
    except Exception as error:
        raise InputError(
            f"press: {name}(compression_ratio=0.5): {type(error).__name__}: {error}; that must make one"
        ) from error
    return kind


def _class(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(importlib.import_module(module), name)


@functools.cache
def _layered_random() -> Any:
    """kvpress' random press with a draw of its own in every layer; kvpress repeats one in all layers."""

    class LayeredRandomPress(_kvpress().RandomPress):  # type: ignore[misc]
        """Scores are uniform, drawn on the CPU from the seed and the layer's index, whatever the device."""

        def score(self, module, hidden_states, keys, values, attentions, kwargs):  # type: ignore[no-untyped-def]
            generator = torch.Generator().manual_seed(crc32(f"{self.seed}/{module.layer_idx}".encode()))
            return torch.rand(keys.shape[:-1], generator=generator).to(keys.device)

    return LayeredRandomPress


def _kvpress() -> Any:
    """kvpress, imported when it is first needed: the import patches transformers in the whole process."""
    try:
        return importlib.import_module("kvpress")
    except ImportError as error:
        raise InputError(
            f"press: kvpress is missing ({error}); install it with: pip install 'ceiling[audit]'"
        ) from error


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _near(name: str, names: Iterable[str]) -> str:
    """``did you mean ...`` or all there are."""
    near = get_close_matches(name, names := sorted(names), n=3, cutoff=0.5)
    return f"did you mean {', '.join(near)}?" if near else f"there are {', '.join(names) or 'none'}"


DEFAULT = tuple(
    Press(KINDS[name])
    for name in (
        "snapkv",
        "h2o",
        "tova",
        "expected_attention",
        "adakv",
        "keydiff",
        "random",
        "knorm",
        "streaming_llm",
    )
)
"""The nine that a default audit compares: six real presses and three trivial ones."""

FULL = Press(KINDS["full"])
"""The anchor, which keeps everything."""

ROSTER = (
    *DEFAULT,
    FULL,
    Press(KINDS["adakv"], (("storage", "ragged"),)),
    Press(KINDS["snapkv"], (("window", 16),)),
)
"""The nine, the anchor, AdaKV's choice held as it is chosen, and SnapKV with a window like a question."""
