r"""Capture models on Ray: one task a model, which loads the weights once for all its dumps and documents.

A task has a GPU where the cluster has any, else all CPUs of a machine. On this machine, with a local Ray:

    python jobs/capture.py --model smollm2-135m --tokens 1024 --documents 8 --out dumps
    python jobs/capture.py --panel jobs/panel.toml --group local --out dumps

On a cluster, the dumps on a path that every node sees:

    ray job submit --working-dir . -- \
        python jobs/capture.py --panel jobs/panel.toml --group four --out /shared/dumps

Dumps that are complete are done, and a run that was stopped continues after its last finished document. A
dump that fails is named at the end; all others complete. The event log holds one JSON object a dump: time,
dump, model, outcome (done, kept, failed), id, seconds, retries, node, host, pid, reason, trace.
"""

import argparse
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ceiling import cluster, models, texts
from ceiling.cli.job import advancing, everywhere, exit_code, report_failed
from ceiling.cli.options import whole_numbers
from ceiling.problem import InputError


class Spec(NamedTuple):
    """One dump to capture; the fields are the options of ``ceiling capture``."""

    model: str
    text: str = "python-docs"
    tokens: int = 1024
    documents: int = 8
    rows: int = 6
    layers: tuple[int, ...] | None = None
    queries: bool = False
    dtype: str | None = None
    seed: int = 0

    @property
    def name(self) -> str:
        """Of the dump's folder."""
        return f"{Path(self.model).name}-{texts.short_name(self.text)}-{self.tokens}"


TYPES = {"model": str, "text": str, "dtype": str, "layers": list, "queries": bool}
"""Of a panel's fields; the others are whole numbers."""

SECONDS = cluster.TASK_SECONDS
"""A dump takes at least so long: each is worth a task of its own."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; returns the exit code (0 done, 1 dumps failed, 2 bad input, 130 interrupted)."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--model", action="append", help="built-in, folder, .gguf file or Hugging Face id; may be given again"
    )
    which.add_argument("--panel", type=Path, help="TOML file of dumps; other options fill what it leaves out")
    parser.add_argument("--group", action="append", help="group of the panel; may be given again")
    parser.add_argument(
        "--text", default=argparse.SUPPRESS, help="file, folder, built-in, task:... or hf:..."
    )
    for name in ("tokens", "documents", "rows", "seed"):
        parser.add_argument(f"--{name}", type=int, default=argparse.SUPPRESS)
    parser.add_argument("--layers", default=argparse.SUPPRESS, help="comma-separated (default all)")
    parser.add_argument("--queries", action="store_true", default=argparse.SUPPRESS)
    parser.add_argument("--dtype", default=argparse.SUPPRESS, help="float32, bfloat16 or float16")
    parser.add_argument("--out", type=Path, required=True, help="folder of the dumps, MODEL-TEXT-TOKENS each")
    parser.add_argument("--log", type=Path, help="event log to append to (default a new file in OUT/.log)")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser.add_argument("--dry-run", action="store_true", help="print what would be captured; do nothing")
    options = parser.parse_args(argv)
    return exit_code("capture", lambda: _job(options), options.debug)


def _job(options: argparse.Namespace) -> int:
    given = {name: value for name, value in vars(options).items() if name in Spec._fields and name != "model"}
    if "layers" in given:
        given["layers"] = tuple(whole_numbers("layers", given["layers"]))
    if options.panel:
        specs = read_panel(options.panel, options.group, given)
    elif options.group:
        raise InputError(f"group: {options.group[0]} of no panel; name its file with --panel")
    else:
        specs = [Spec(model, **given) for model in options.model]
    specs = sorted(map(_located, specs), key=_weights)
    names = [spec.name for spec in specs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"out: {twice} would be written twice; capture one of them into another folder")
    out = cluster.shared_path("out", options.out)
    if options.dry_run:
        for spec in specs:
            size = f"{spec.documents} documents of {spec.tokens} tokens, {spec.rows} rows a head"
            print(f"{out / spec.name}: {spec.model}, {size}, {spec.dtype or 'dtype of the device'}")
        return 0
    return run(specs, out, cluster.EventLog(options.log or cluster.log_path(out, "capture")))


def run(specs: Sequence[Spec], out: Path, log: cluster.EventLog) -> int:
    """Capture on the cluster this process belongs to, or on a local one."""
    failed: list[tuple[str, str]] = []
    cluster.start()
    try:
        resources = cluster.whole_device()
        with advancing("capture", len(specs)) as advance:
            for outcome in cluster.run(
                _task, (out,), specs, seconds=SECONDS, together=_weights, resources=resources
            ):
                spec, done = outcome.unit, outcome.result or {"outcome": "failed", "id": None}
                log.write(outcome, dump=spec.name, model=spec.model, seconds=outcome.seconds, **done)
                if outcome.reason is None:
                    print(f"{out / spec.name} ({done['id']}, {done['outcome']})")
                else:
                    failed.append((spec.name, outcome.reason))
                advance()
    finally:
        log.close()
        cluster.stop()
    print(f"{len(specs) - len(failed)} dumps -> {out}, events -> {log.path}")
    return report_failed("capture", failed)


def read_panel(path: Path, groups: Sequence[str] | None, given: dict[str, Any]) -> list[Spec]:
    """The dumps of a panel's groups (all when none is named).

    Fields not in an entry come from the panel's ``[defaults]``, then from `given`.

    Raises
    ------
    InputError
        Naming the file, the group, and the field that is wrong.
    """
    try:
        panel = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"panel: cannot read {path} ({error})") from None
    defaults = panel.pop("defaults", {})
    if not isinstance(defaults, dict):
        raise InputError(f"panel: {path}: defaults is no table; write [defaults]")
    for group, entries in panel.items():
        if not (isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries)):
            raise InputError(f"panel: {path}: {group} is no list of dumps; write [[{group}]]")
    if unknown := sorted(set(groups or ()) - set(panel)):
        raise InputError(f"group: {unknown[0]!r} is none of {', '.join(panel)} in {path}")
    return [
        _spec(given | defaults | entry, f"panel: {path}, {group}, entry {index + 1}")
        for group in groups or panel
        for index, entry in enumerate(panel[group])
    ]


def _spec(fields: dict[str, Any], where: str) -> Spec:
    if "model" not in fields:
        raise InputError(f"{where}: no model")
    for name, value in fields.items():
        if name not in Spec._fields:
            raise InputError(f"{where}: {name!r} is none of {', '.join(Spec._fields)}")
        if type(value) is not TYPES.get(name, int) and not isinstance(value, tuple):
            raise InputError(f"{where}: {name}: {value!r} is no {TYPES.get(name, int).__name__}")
    layers = fields.get("layers")
    if layers is not None and any(type(layer) is not int for layer in layers):
        raise InputError(f"{where}: layers: {list(layers)!r} are no whole numbers")
    return Spec(**fields | {"layers": None if layers is None else tuple(layers)})


def _located(spec: Spec) -> Spec:
    """Check model and text by name, and make folders and files absolute: workers run elsewhere."""
    spec = spec._replace(model=everywhere("model", spec.model), text=everywhere("text", spec.text))
    if spec.text not in texts.BUILT_INS and not texts.from_hub(spec.text):  # workers fetch datasets
        texts.open_text(spec.text)
    return spec


def _weights(spec: Spec) -> tuple[str, str]:
    """What dumps must have in common to be captured with one load of the weights."""
    return spec.model, spec.dtype or ""


def _task(out: Path, specs: Sequence[Spec]) -> Iterator[dict[str, Any]]:
    """In the worker: dumps of one model, loaded once."""
    from ceiling.stages import capture as stage  # torch, which the driver does without

    loaded = None
    for spec in specs:
        plan = stage.plan(out=out / spec.name, **spec._asdict())
        if not plan.complete:
            loaded = loaded or models.load(plan.folder, plan.device, plan.dtype)
            stage.run_loaded(plan, loaded)
        yield {"outcome": "kept" if plan.complete else "done", "id": plan.identity.id}


if __name__ == "__main__":
    sys.exit(main())
