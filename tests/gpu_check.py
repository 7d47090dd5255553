"""Capture on a GPU: fidelity, overhead and memory at 16 384 tokens, on random weights.

Run it where a CUDA device is: ``python tests/gpu_check.py`` prints the table, ``pytest tests/gpu_check.py``
checks it.  Takes two to three minutes; needs no download.
"""

import gc
import statistics
import sys
import time
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModel, PreTrainedModel

from ceiling.capture import capture, sample_positions

TOKENS = 16_384
ROWS = 6
REPEATS = 5

DEVIATION_LIMIT = 4e-3
"""Relative; what stops a capture in bfloat16."""
OVERHEAD_LIMIT = 1.3
"""Captured forward over plain sdpa forward, time."""
MEMORY_LIMIT = 300e6
"""Bytes above the plain forward's own peak."""

KINDS: dict[str, dict[str, Any]] = {
    "llama": {
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 64,
    },
    "qwen3": {
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
    },
    "gemma3_text": {
        "hidden_size": 1152,
        "intermediate_size": 6912,
        "num_hidden_layers": 26,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 256,
        "sliding_window": 512,
    },
    "gemma2": {
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 26,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "sliding_window": 4096,
    },
}
"""Shapes of Llama-3.2-1B, Qwen3-1.7B, gemma-3-1b and gemma-2-2b."""


def build(kind: str, device: str, dtype: torch.dtype, scale: int = 1) -> PreTrainedModel:
    """A backbone with seeded random weights; `scale` divides its widths and depth for a trial on a CPU."""
    shape = dict(KINDS[kind])
    for name in ("hidden_size", "intermediate_size", "num_hidden_layers"):
        shape[name] = max(2, shape[name] // scale)
    # Wide enough for a softmax that is far from uniform.
    config = AutoConfig.for_model(
        kind, vocab_size=4096, max_position_embeddings=TOKENS, initializer_range=0.05, **shape
    )
    torch.manual_seed(0)
    with torch.device(device):
        model = AutoModel.from_config(config, dtype=dtype, attn_implementation="sdpa")
    return model.eval()


def measure(kind: str, tokens: int, device: str, dtype: torch.dtype, scale: int = 1) -> dict[str, float]:
    """Deviation, relative time and extra memory of one captured forward.

    Returns
    -------
    dict
        ``deviation`` (largest, relative), ``plain`` and ``captured`` (median seconds), ``overhead`` (their
        ratio), ``plain_memory`` and ``extra_memory`` (bytes at the peak, the second above
        the first; 0 on a CPU).
    """
    cuda = device.startswith("cuda")
    if cuda:  # what the last call left
        gc.collect()
        torch.cuda.empty_cache()
    model = build(kind, device, dtype, scale)
    ids = torch.randint(3, 4096, (1, tokens), generator=torch.Generator().manual_seed(0)).to(device)
    positions = sample_positions(tokens, ROWS, seed=0, document=0)
    worst = 0.0

    def note(layer: Any) -> None:
        nonlocal worst
        worst = max(worst, float(layer.deviation.max()))

    def plain() -> None:
        model(input_ids=ids, use_cache=False)

    def captured() -> None:
        with capture(model, positions, on_layer=note):
            plain()

    def timed(function: Any) -> tuple[float, float]:
        if cuda:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        function()
        if cuda:
            torch.cuda.synchronize()
        return time.perf_counter() - start, torch.cuda.max_memory_allocated() if cuda else 0.0

    with torch.inference_mode():
        for function in (plain, captured):  # warm
            function()
        pairs = [(timed(plain), timed(captured)) for _ in range(REPEATS if cuda else 1)]
    seconds = [statistics.median(pair[i][0] for pair in pairs) for i in range(2)]
    memory = [max(pair[i][1] for pair in pairs) for i in range(2)]
    return {
        "deviation": worst,
        "plain": seconds[0],
        "captured": seconds[1],
        "overhead": seconds[1] / seconds[0],
        "plain_memory": memory[0],
        "extra_memory": memory[1] - memory[0],
    }


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("kind", KINDS)
def test_capture_on_a_gpu(kind):
    found = measure(kind, TOKENS, "cuda", torch.bfloat16)
    assert found["deviation"] <= DEVIATION_LIMIT
    if kind != "gemma2":  # there the sdpa it is compared with does less: it leaves the cap out
        assert found["overhead"] <= OVERHEAD_LIMIT
    assert found["extra_memory"] <= MEMORY_LIMIT


def main() -> int:
    """Print the table; 0 when there is no CUDA device, too."""
    if not torch.cuda.is_available():
        print("no CUDA device: skipped")
        return 0
    print(
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}, bfloat16, {TOKENS} tokens, {ROWS} rows\n"
    )
    print("| model | largest deviation | sdpa forward (s) | captured (s) | ratio | extra memory (MB) |")
    print("|---|---|---|---|---|---|")
    for kind in KINDS:
        found = measure(kind, TOKENS, "cuda", torch.bfloat16)
        print(
            f"| {kind} | {found['deviation']:.1e} | {found['plain']:.3f} | {found['captured']:.3f} "
            f"| {found['overhead']:.2f} | {found['extra_memory'] / 1e6:.0f} |"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
