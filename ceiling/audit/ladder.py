"""The default tasks of a model: of each ladder of sizes the hardest that its full cache can answer.

The rule looks at full-cache answers alone, of instances that no audit uses, so that no method can have had a
part in the choice::

    python -m ceiling.audit.ladder --model smollm2-135m --tokens 1000
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from transformers import DynamicCache

from ceiling import models, texts
from ceiling.audit.decode import stop_ids
from ceiling.capture import check_length
from ceiling.durable import write
from ceiling.problem import InputError

PILOT_SEED = 240406654
"""Seed of the instances that tasks are chosen by; an audit must not use it."""

PILOT_INSTANCES = 8
"""Of each size that is tried."""

ENOUGH, FLOOR = 0.5, 0.3
"""Mean score of the full cache: from `ENOUGH` on the hardest size is taken; where none has it, the best size
with at least `FLOOR`, below which an audit would compare noise (its anchor gate)."""

RULE = (
    f"Of each task, from RULER's sizes to easier ones, the first whose full cache scores at least {ENOUGH} "
    f"on average; where none does, the best one if it scores at least {FLOOR}; else the task is left out."
)

_FILE = "default_tasks.json"


def default_tasks(model: str) -> tuple[str, ...]:
    """The tasks that an audit of a model takes when none are named.

    Parameters
    ----------
    model : str
        Its id: ``smollm2-135m``.

    Raises
    ------
    InputError
        When none have been chosen for that model.
    """
    chosen = json.loads(files("ceiling.audit").joinpath(_FILE).read_text(encoding="utf-8"))["models"]
    if model not in chosen:
        raise InputError(
            f"tasks: none have been chosen for model {model} (only for {', '.join(chosen)}); name some, or "
            f"choose them by its full cache: python -m ceiling.audit.ladder --model {model} --out FILE"
        )
    return tuple(chosen[model]["tasks"])


def climb_down(task: str, anchor: Callable[[str], float]) -> tuple[str | None, dict[str, float]]:
    """Apply the rule to one task.

    Parameters
    ----------
    task : str
        One of `ceiling.texts.RULER_TASKS`.
    anchor : callable
        Task with sizes to the mean score of its full cache.

    Returns
    -------
    str or None
        The task with the sizes chosen, None where all are below the floor.
    dict of str to float
        Mean score of each size that was tried, in order.
    """
    means: dict[str, float] = {}
    for size in texts.SIZES[task]:
        means[size] = anchor(size)
        if means[size] >= ENOUGH:
            return size, means
    best = max(means, key=lambda size: means[size])
    return (best if means[best] >= FLOOR else None), means


def anchor_mean(
    loaded: models.LoadedModel,
    task: str,
    tokens: int,
    hay: texts.Text,
    seed: int = PILOT_SEED,
    instances: int = PILOT_INSTANCES,
) -> float:
    """Mean score of the full cache on the first instances of a task, one question each."""
    encode, start = models.encoder(loaded.tokenizer), models.start_tokens(loaded.tokenizer)
    stop = stop_ids(loaded.tokenizer, loaded.model)
    scores = []
    for index in range(instances):
        posed = texts.pose(texts.audit_instance(task, seed, index), encode, hay, tokens, start)
        (question,) = posed.questions
        prompt = [*posed.context_ids, *question.question_ids, *question.prefix_ids]
        answer = loaded.tokenizer.decode(answer_ids(loaded.model, prompt, question.room, stop))
        scores.append(texts.score(answer, question.question))
    return fmean(scores)


@torch.inference_mode()
def answer_ids(model: Any, prompt: Sequence[int], room: int, stop: frozenset[int]) -> list[int]:
    """Greedy continuation of a prompt by the model itself, nothing evicted."""
    cache, device = DynamicCache(config=model.config), model.get_input_embeddings().weight.device
    ids = torch.tensor([list(map(int, prompt))], device=device)
    told: list[int] = []
    while len(told) < room:
        token = int(model(ids, past_key_values=cache, logits_to_keep=1).logits[0, -1].argmax())
        if token in stop:
            break
        told.append(token)
        ids = torch.tensor([[token]], device=device)
    return told


def choose(model: str, tokens: int, hay: str, device: str, tell: Callable[[str], object]) -> dict[str, Any]:
    """Tasks of a model by the rule, with the scores they were chosen by."""
    loaded, text = models.load(models.resolve(model), device, "float32"), texts.open_text(hay)
    check_length(loaded.model.get_decoder().config, tokens)

    def anchor(size: str) -> float:
        mean = anchor_mean(loaded, size, tokens, text)
        tell(f"{size}: {mean:.3f}\n")
        return mean

    tried = {task: climb_down(task, anchor) for task in texts.RULER_TASKS}
    return {
        "model": loaded.id,
        "tasks": [chosen for chosen, _ in tried.values() if chosen is not None],
        "weights_sha256": loaded.weights_sha256,
        "tokens": tokens,
        "hay": {"text": hay, "sha256": text.sha256},
        "seed": PILOT_SEED,
        "instances": PILOT_INSTANCES,
        "generator": texts.RULER_GENERATOR,
        "dtype": "float32",
        "means": {
            task: {size: round(mean, 4) for size, mean in means.items()} for task, (_, means) in tried.items()
        },
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Choose tasks for one model and write them beside those of the others."""
    parser = argparse.ArgumentParser(prog="python -m ceiling.audit.ladder", description=RULE)
    parser.add_argument("--model", required=True)
    parser.add_argument("--tokens", type=int, default=1000)
    parser.add_argument("--text", default="python-docs", help="what the facts are hidden in")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, help="default: the file that the package reads")
    given = parser.parse_args(argv)
    out = given.out or Path(str(files("ceiling.audit").joinpath(_FILE)))
    known = json.loads(out.read_text(encoding="utf-8"))["models"] if out.exists() else {}
    if not out.parent.is_dir():
        parser.error(f"--out: no folder {out.parent}")
    try:
        chosen = choose(given.model, given.tokens, given.text, given.device, sys.stderr.write)
    except InputError as error:
        parser.error(str(error))
    content = {"rule": RULE, "models": known | {chosen.pop("model"): chosen}}
    write(out, (json.dumps(content, indent=2) + "\n").encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
