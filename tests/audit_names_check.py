"""Presses whose names need kvpress: those outside the roster, a user's own, and what is refused.

Run by its test or by hand, ``python -m tests.audit_names_check``; in a process of its own, since importing
kvpress replaces transformers' attention functions. Prints one line a check.
"""

import contextlib
import dataclasses
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from ceiling.audit.budget import Arm, Budget
from ceiling.audit.kinds import KINDS
from ceiling.audit.press import resolve
from ceiling.audit.shared_pass import Request
from ceiling.problem import InputError
from tests import tiny_models
from tests.audit_pass_check import CONTEXT, passed, report, texts

OWN = """
from dataclasses import dataclass
import torch
from kvpress import KnormPress, ScorerPress, SnapKVPress

@dataclass
class Last(ScorerPress):
    reach_size: int = 7
    def score(self, module, hidden_states, keys, values, attentions, kwargs):
        return torch.arange(keys.shape[2]).expand(keys.shape[:3]).float()

@dataclass
class Cutting(KnormPress):
    def compress(self, module, hidden_states, keys, values, attentions, kwargs):
        return keys[:, :, :9], values[:, :, :9]

class NoPress:
    pass
"""
"""A user's presses."""


def resolving(model: Any) -> Iterator[tuple[str, list[str]]]:
    """Names that need kvpress: presses outside the roster, a user's own, and what is refused."""
    kinds = {
        "compactor": ("compactor", "shared", False),
        "CUR": ("cur", "shared", False),
        "lagkv:lag=64": ("lagkv:lag=64", "shared", False),
        "lagkv:lag_size=128": ("lagkv", "shared", False),
        "compactor:blending=0.5": ("compactor:blending=0.5", "shared", False),
        "pyramidkv:beta=10": ("pyramidkv:beta=10", "native", False),
        "kvzip": ("kvzip", "native", True),
        "criticaladakv": ("critical_adakv", "native", True),
    }
    wrong = []
    for name, wanted in kinds.items():
        press = resolve(name)
        found = (press.label, press.route, press.masks)
        built = press.build(0.25)
        if found != wanted or built.compression_ratio != 0.25 or press != resolve(press.label):
            wrong.append(f"{name}: {found}")
    yield "presses by their classes", wrong

    text = next(texts(model.config.vocab_size, 1))
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("own_presses.py").write_text(OWN)
        last = resolve("own_presses:Last:reach=3")
        request = Request(Arm.AGNOSTIC, last, Budget("slots", 40))
        kept = passed(model, text, [request], "sdpa").kept[request]
        right = all(head.equal(torch.arange(CONTEXT - 40, CONTEXT)) for layer in kept for head in layer)
        yield "a user's press", [] if right and last.label == "own_presses:Last:reach=3" else [last.label]
        routes = (last.route, resolve("own_presses:Cutting").route)
        yield "a user's way to compress is native", [] if routes == ("shared", "native") else [str(routes)]
        refused = {
            "own_presses:Lost": "did you mean Last?",
            "own_presses:NoPress": "is no kvpress.BasePress",
            "own_presses:Last:reach=much": "a whole number is expected",
            "no_such_module:Last": "ModuleNotFoundError",
            "snapkvv": "did you mean snapkv",
            "compactor:window=3": "chunk, sketch_dimension, blending",
            "qfilter": "network",
            "decoding": "while decoding",
            "chunkkv": "wraps another press",
            "finch": "delimiter",
            "think": "other than a share",
        }
        yield "refused by name", [name for name, why in refused.items() if why not in complaint(name)]


def complaint(name: str) -> str:
    try:
        return f"nothing: {resolve(name)}"
    except InputError as error:
        return str(error)


def names() -> Iterator[tuple[str, list[str]]]:
    """What is said of the presses without importing kvpress is what their classes say."""
    import kvpress

    wrong = []
    for kind in KINDS.values():
        if not kind.cls or kind.name == "criticalkv":  # no dataclass: its defaults are in its __init__
            continue
        fields = dataclasses.fields(getattr(kvpress, kind.cls.partition(":")[2]))
        defaults = {f.name: f.default for f in fields if f.name not in ("compression_ratio", "press", "seed")}
        if kind.over_snapkv:
            defaults |= {f.name: f.default for f in dataclasses.fields(kvpress.SnapKVPress)}
            del defaults["compression_ratio"]
        if defaults != {p.field: p.default for p in kind.parameters if p.field}:
            wrong.append(f"{kind.name}: {defaults}")
    yield "parameters are kvpress' own", wrong


def main() -> int:
    """Print what was checked; 1 where anything is wrong."""
    failed = report("", names())
    return failed | report("", resolving(tiny_models.build("llama")))


if __name__ == "__main__":
    sys.exit(main())
