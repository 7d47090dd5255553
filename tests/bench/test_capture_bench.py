"""What capturing costs beside the plain sdpa forward: time in one run, and memory above the model.

Run with ``pytest tests/bench/test_capture_bench.py``; a minute or two on two cores.
"""

import contextlib
import ctypes
import gc
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from ceiling.capture import capture, forward, sample_positions
from ceiling.dump import Identity
from ceiling.models import ModelFolder
from ceiling.stages import capture as stage
from ceiling.texts import Text

TIME_RATIO = 1.3
"""Captured forward over plain forward."""
MEMORY = 300e6
"""Bytes above the model, at 1 024 tokens."""
SLACK = 80e6
"""Bytes beyond the plain forward that 4 096 tokens may take above four times those of 1 024: what an
allocator keeps free. One float32 matrix of 4 096 x 4 096 for each of nine heads would be 604 MB."""
ROUNDS = 5


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    """The shape of smollm2-135m with random weights: the same cost, and nothing to download."""
    config = AutoConfig.for_model(
        "llama",
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        head_dim=64,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
    )
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").eval()


def ids(n: int):
    return torch.randint(0, 49152, (n,), generator=torch.Generator().manual_seed(0)).numpy()


def test_time_beside_the_plain_forward(model, benchmark):
    tokens, positions = ids(1024), sample_positions(1024, 6, 0, 0)

    def captured() -> None:
        with capture(model, positions, on_layer=lambda layer: None):
            forward(model, tokens)

    plain: list[float] = []

    def alternate() -> None:  # a plain forward before each captured one: both see the same machine
        start = time.perf_counter()
        forward(model, tokens)
        plain.append(time.perf_counter() - start)

    benchmark.pedantic(captured, setup=alternate, rounds=ROUNDS, warmup_rounds=1)
    ratio = benchmark.stats.stats.median / statistics.median(plain[1:])
    benchmark.extra_info["ratio"] = ratio
    print(f"\ncaptured / plain: {ratio:.3f}")
    assert ratio <= TIME_RATIO


def resident(field: str) -> int:
    """Bytes this process holds now (``VmRSS``), or held at most (``VmHWM``)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024


def peak_above_the_model(work: Callable[[], object]) -> int:
    """Bytes that `work` adds at its peak to what the process holds."""
    gc.collect()
    with contextlib.suppress(AttributeError):  # glibc: give back what earlier forwards left free
        ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM starts again from VmRSS
    before = resident("VmRSS")
    work()
    return resident("VmHWM") - before


def plan_of(n: int, folder: Path) -> stage.Plan:
    """One document of `n` tokens, every layer, streamed to disk."""
    positions = sample_positions(n, 6, 0, 0)
    return stage.Plan(
        folder=ModelFolder("random", folder, "seed 0", None),
        text=Text("random", (), "0"),
        tokens=ids(n)[None],
        tags=None,
        prefix=(),
        layers=tuple(range(30)),
        queries=False,
        device="cpu",
        dtype="float32",
        seed=0,
        out=folder / f"dump-{n}",
        identity=Identity("0", "0", "0", (positions,), "float32", "sdpa"),
        complete=False,
        bytes=0,
        seconds=0,
        command="",
    )


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
def test_memory_above_the_model(model, tmp_path):
    forward(model, ids(64))  # the libraries' own buffers
    loaded = stage.models.LoadedModel(model, None, "random", None, "0", None)
    captured, extra = {}, {}
    for n in (1024, 4096):
        plan, tokens = plan_of(n, tmp_path), ids(n)
        plain = peak_above_the_model(lambda tokens=tokens: forward(model, tokens))
        captured[n] = peak_above_the_model(lambda plan=plan: stage.run_loaded(plan, loaded))
        extra[n] = captured[n] - plain
        print(
            f"\n{n} tokens: peak above the model {captured[n] / 1e6:.0f} MB, "
            f"of which beyond the plain forward {extra[n] / 1e6:.0f} MB"
        )
    assert captured[1024] <= MEMORY
    assert extra[4096] <= 4 * max(extra[1024], 0) + SLACK
