"""The capture stage: a model and a text in, a dump out; planned and checked before anything runs."""

import glob
import os
import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ceiling import models, texts
from ceiling.capture import (
    Architecture,
    Layer,
    backend,
    capture,
    check_length,
    check_model,
    forward,
    forward_seconds,
    layer_bytes,
    probe,
    sample_positions,
)
from ceiling.dump import DumpWriter, Identity, same_dump, tokens_sha256
from ceiling.problem import InputError

Progress = Callable[[], None]
"""Called once for each finished unit; a unit is one layer of one document."""

_STORED = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}  # dtype -> its name in safetensors


@dataclass(frozen=True, eq=False)
class Plan:
    """A checked capture, ready to run.

    Attributes
    ----------
    folder : ModelFolder
    text : Text
    tokens : ndarray of int64, shape (documents, N)
    prefix : tuple of int
        Token ids every document starts with.
    layers : tuple of int
        Captured layers.
    tags : tuple of dict, or None
        Of a task text: tagged positions by name, for each document.
    queries : bool
    device, dtype : str
        After ``auto`` and defaults.
    seed : int
    out : Path
    identity : Identity
    complete : bool
        Whether `out` is already this very dump, so that nothing is left to do.
    bytes, seconds : int, float
        What it will take, estimated.
    command : str
        The command line that does the same.
    """

    folder: models.ModelFolder
    text: texts.Text
    tokens: np.ndarray
    prefix: tuple[int, ...]
    tags: tuple[dict[str, list[int]], ...] | None
    layers: tuple[int, ...]
    queries: bool
    device: str
    dtype: str
    seed: int
    out: Path
    identity: Identity
    complete: bool
    bytes: int
    seconds: float
    command: str

    @property
    def units(self) -> int:
        """Layers times documents."""
        return len(self.layers) * len(self.tokens)


def plan(
    model: str = "smollm2-135m",
    text: str = "python-docs",
    *,
    out: str | Path,
    tokens: int = 1024,
    documents: int = 8,
    rows: int = 6,
    layers: Sequence[int] | None = None,
    queries: bool = False,
    seed: int = 0,
    device: str = "auto",
    dtype: str | None = None,
) -> Plan:
    """Check everything a capture needs, without loading weights.

    Parameters
    ----------
    model, text : str
        See `ceiling.models.resolve` and `ceiling.texts.open_text`.
    out : str or Path
        Folder the dump will be.
    tokens, documents, rows : int
        Tokens a document, documents, sampled positions a document.
    layers : sequence of int, optional
        Layers to write; all when not given.
    queries : bool
        Also write all query vectors.
    seed : int
        Of the sampled positions, and of a task's facts.
    device, dtype : str
        See `ceiling.models.load`.

    Returns
    -------
    Plan

    Raises
    ------
    InputError
        Naming the first thing that is wrong.
    OSError
        When a built-in model cannot be downloaded.
    """
    source, opened = models.resolve(model), texts.open_text(text, seed)
    if documents < 1:
        raise InputError(f"documents: {documents} is not positive")
    device, dtype = models.placement(device, dtype)
    out = Path(out)
    _check_writable(out)
    positions = tuple(sample_positions(tokens, rows, seed, i) for i in range(documents))
    folder = source.fetch()
    bare = models.skeleton(folder)
    check_model(bare)
    config = bare.get_decoder().config
    check_length(config, tokens)
    chosen = _check_layers(layers, config.num_hidden_layers)
    coder = models.tokenizer(folder)
    prefix = models.start_tokens(coder)
    ids, tags = _documents(opened, models.encoder(coder), documents, tokens, prefix)
    if tags is not None:
        positions = tuple(
            texts.with_retrieval(drawn, tags[i]["retrieval"], seed, i) for i, drawn in enumerate(positions)
        )
    identity = Identity(
        folder.weights_sha256(), folder.config_sha256(), tokens_sha256(ids), positions, dtype, backend(bare)
    )
    size = documents * len(chosen) * layer_bytes(config, tokens, rows, queries, models.DTYPES[dtype].itemsize)
    complete = same_dump(out, identity, layers=chosen, queries=queries)
    stopped = out.parent.glob(f"{glob.escape(f'.{out.name}.{identity.id}')}-*/*.safetensors")
    missing = size - sum(file.stat().st_size for file in stopped)
    if not complete and missing > (free := shutil.disk_usage(_existing(out)).free):
        raise InputError(f"out: {out} needs {missing / 1e6:.1f} MB, its disk has {free / 1e6:.1f} MB free")
    return Plan(
        folder=folder,
        text=opened,
        tokens=ids,
        prefix=prefix,
        tags=tags,
        layers=chosen,
        queries=queries,
        device=device,
        dtype=dtype,
        seed=seed,
        out=out,
        identity=identity,
        complete=complete,
        bytes=0 if complete else size,
        seconds=0.0
        if complete
        else forward_seconds(bare.get_decoder(), ids.size, device, models.DTYPES[dtype]),
        command=_command(
            model=model,
            text=text,
            tokens=tokens,
            documents=documents,
            rows=rows,
            layers=layers and ",".join(map(str, layers)),
            queries=queries,
            out=out,
            seed=seed,
            device=device,
            dtype=dtype,
        ),
    )


def run(plan: Plan, progress: Progress | None = None) -> Path:
    """Capture what was planned; a run that was killed resumes after its last finished document.

    Parameters
    ----------
    plan : Plan
    progress : callable, optional
        Called once for each finished unit, those of an earlier run included.

    Returns
    -------
    Path
        The dump's folder.

    Raises
    ------
    InputError
        When the model or the target is not usable.
    ceiling.capture.CaptureError
        When captured rows are not the model's.
    OSError
        When the disk is full or not writable; finished documents are kept.
    """
    if plan.complete:
        return plan.out
    return run_loaded(plan, models.load(plan.folder, plan.device, plan.dtype), progress)


def run_loaded(plan: Plan, loaded: models.LoadedModel, progress: Progress | None = None) -> Path:
    """`run` with the model loaded already."""
    tell = progress or (lambda: None)
    where = _device_name(plan.device)
    with DumpWriter(
        plan.out, plan.identity, layers=plan.layers, queries=plan.queries, device=where
    ) as writer:
        if plan.tags is not None:  # before anything is computed that the bounds are about
            writer.register(texts.BOUNDS)
        shape = probe(loaded.model, plan.tokens[0])
        for index in range(len(plan.tokens)):
            if writer.done(index) is None:
                _document(plan, loaded.model, shape, writer, index, tell)
            else:
                for _ in plan.layers:
                    tell()
        notes = [writer.records[index]["note"] for index in range(len(plan.tokens))]
        manifest = _manifest(plan, loaded, shape, notes, where)
        writer.commit(manifest, len(plan.tokens))
    return plan.out


def _document(
    plan: Plan,
    model: Any,
    shape: Architecture,
    writer: DumpWriter,
    index: int,
    tell: Progress,
) -> None:
    """Capture one document; each layer goes to the file as soon as the model has computed it."""
    tokens, positions = plan.tokens[index], plan.identity.positions[index]
    fidelity: dict[int, list[float]] = {}
    with writer.document(index, _layout(plan, shape)) as file:
        file.write("query_positions", np.array(positions, dtype=np.int64))
        file.write("tokens", tokens)

        def write(layer: Layer) -> None:
            if layer.index not in plan.layers:
                return
            file.write(f"masses.{layer.index}", layer.masses.numpy())
            file.write(f"keys.{layer.index}", _bits(layer.keys))
            file.write(f"values.{layer.index}", _bits(layer.values))
            if layer.queries is not None:
                file.write(f"queries.{layer.index}", _bits(layer.queries))
            fidelity[layer.index] = [float(layer.deviation.max()), float(layer.deviation.mean())]
            tell()

        with capture(model, positions, plan.queries, write):
            forward(model, tokens)
        file.note["fidelity"] = [fidelity[layer] for layer in plan.layers]


def _documents(
    text: texts.Text,
    encode: Callable[[str], list[int]],
    documents: int,
    tokens: int,
    prefix: tuple[int, ...],
) -> tuple[np.ndarray, tuple[dict[str, list[int]], ...] | None]:
    """Token ids [documents, tokens], and what a task tags in them."""
    if text.task is None:
        return texts.documents(text, encode, documents, tokens, prefix), None
    placed = texts.task_documents(text, encode, documents, tokens, prefix)
    return np.stack([document.tokens for document in placed]), tuple(document.tags for document in placed)


def _layout(plan: Plan, shape: Architecture) -> dict[str, tuple[str, tuple[int, ...]]]:
    n, rows, stored = plan.tokens.shape[1], len(plan.identity.positions[0]), _STORED[plan.dtype]
    layout: dict[str, tuple[str, tuple[int, ...]]] = {
        "query_positions": ("I64", (rows,)),
        "tokens": ("I64", (n,)),
    }
    for layer in plan.layers:
        layout[f"masses.{layer}"] = ("F32", (shape.heads, rows, n))
        layout[f"keys.{layer}"] = layout[f"values.{layer}"] = (stored, (shape.kv_heads, n, shape.head_dim))
        if plan.queries:
            layout[f"queries.{layer}"] = (stored, (shape.heads, n, shape.head_dim))
    return layout


def _manifest(
    plan: Plan, loaded: models.LoadedModel, shape: Architecture, notes: list[dict], where: str
) -> dict[str, Any]:
    deviations = np.array([note["fidelity"] for note in notes])  # documents, layers, (max, mean)
    return {
        "model": {
            "id": plan.folder.label(),
            "revision": loaded.revision,
            "weights_sha256": loaded.weights_sha256,
            "config_sha256": plan.identity.config_sha256,
            "licence": loaded.licence,
        },
        "architecture": asdict(shape),
        "device": where,
        "text": {"source": plan.text.source, "sha256": plan.text.sha256, "prefix": list(plan.prefix)},
        "tokens": {
            "documents": len(plan.tokens),
            "lengths": [plan.tokens.shape[1]] * len(plan.tokens),
            "sha256": plan.identity.tokens_sha256,
        },
        "seed": plan.seed,
        "fidelity": [
            {
                "layer": layer,
                "max": float(deviations[:, k, 0].max()),
                "mean": float(deviations[:, k, 1].mean()),
            }
            for k, layer in enumerate(plan.layers)
        ],
        "command": plan.command,
        **({} if plan.tags is None else {"tags": list(plan.tags)}),
    }


def _command(**options: Any) -> str:
    """``ceiling capture`` with every option written out, so that it outlives a change of defaults."""
    words = ["ceiling", "capture"]
    for name, value in options.items():
        if value is True:
            words.append(f"--{name}")
        elif value is not None and value is not False:  # 0 is written
            words += [f"--{name}", str(value)]
    return shlex.join(words)


def _bits(tensor: Tensor) -> np.ndarray:
    """A CPU tensor as numpy; bfloat16, which numpy lacks, as its bits."""
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(np.uint16)
    return tensor.numpy()


def _device_name(device: str) -> str:
    return f"{device} {torch.cuda.get_device_name(device)}" if device.startswith("cuda") else device


def _check_layers(layers: Sequence[int] | None, n_layers: int) -> tuple[int, ...]:
    if layers is None:
        return tuple(range(n_layers))
    chosen = tuple(sorted(set(layers)))
    if not chosen or chosen[0] < 0 or chosen[-1] >= n_layers:
        raise InputError(f"layers: {list(layers)} are not layers of the model, which has 0..{n_layers - 1}")
    return chosen


def _existing(path: Path) -> Path:
    """The nearest folder above `path` that exists."""
    return next(parent for parent in path.absolute().parents if parent.exists())


def _check_writable(out: Path) -> None:
    parent = _existing(out)
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise InputError(f"out: {parent} is no folder that can be written to; name another place")
