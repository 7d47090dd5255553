"""Kept sets of the shared pass beside those of kvpress run by itself, one press at a time.

Run by its test or by hand, ``python -m tests.audit_pass_check``; in a process of its own, since importing
kvpress replaces transformers' attention functions. Tiny random models read texts of 150 tokens and
questions of 20; with an argument, a model of the catalogue reads one text instead:
``python -m tests.audit_pass_check smollm2-135m``. Prints one line a check.

kvpress' kept positions are found by looking its kept keys up among the keys of a pass without a press;
AdaKV's are those its hiding left, under sdpa, since kvpress refuses AdaKV under eager. Arm aware-scores has
no counterpart in kvpress: there the native press's own scores, taken down while it runs over context and
question, are cut to the context.
"""

import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from ceiling import models
from ceiling.audit.budget import Arm, Budget
from ceiling.audit.press import DEFAULT, FULL, Press, resolve
from ceiling.audit.selection import best, best_of_layer
from ceiling.audit.shared_pass import Passed, Request, shared_pass
from tests import tiny_models

CONTEXT, QUESTION, EXTRA = 150, 20, 5
RATIOS = (0.3, 0.6)
"""Shares evicted: 105 and 60 of 150 keys stay, more and fewer than SnapKV's window of 64."""

PRESSES = (
    *DEFAULT,
    resolve("snapkv:window=16,kernel=7"),
    resolve("adakv:alpha=0.5,storage=ragged,window=16"),
    resolve("criticalkv"),
    resolve("random:seed=3"),
)
SEED = 11

KEYS_TOLERANCE = 1e-5
"""Absolute difference of a key's component between eager and sdpa that float32 explains; components are
near 1."""

Sets = list[list[Tensor]]


def cache_after(model: Any, ids: Tensor, press: Any = None) -> DynamicCache:
    cache = DynamicCache()
    with torch.inference_mode():
        if press is None:
            model(ids[None], past_key_values=cache)
        else:
            with press(model):
                model(ids[None], past_key_values=cache)
    return cache


def native(model: Any, ids: Tensor, press: Any) -> Sets:
    """What kvpress keeps, by layer and KV head."""
    left = cache_after(model, ids, press)
    modules = [vars(layer.self_attn) for layer in model.model.layers]
    masked = [module.pop("masked_key_indices", None) for module in modules]  # outlives the press if left
    if any(indices is not None for indices in masked):
        return [unmasked(indices, layer.keys) for indices, layer in zip(masked, left.layers, strict=True)]
    whole = cache_after(model, ids)
    return [
        [positions(keys, kept) for keys, kept in zip(all_.keys[0], some.keys[0], strict=True)]
        for all_, some in zip(whole.layers, left.layers, strict=True)
    ]


def unmasked(indices: Any, keys: Tensor) -> list[Tensor]:
    stays = torch.ones(keys.shape[1:3], dtype=torch.bool)
    stays[indices[1], indices[2]] = False
    return [head.nonzero()[:, 0] for head in stays]


def positions(keys: Tensor, left: Tensor) -> Tensor:
    """Where the keys that are left, (k, d), stand among all, (n, d)."""
    found = (keys[:, None] == left).all(dim=-1)
    assert bool((found.sum(dim=0) == 1).all())
    return found.any(dim=1).nonzero()[:, 0]


def native_scores(model: Any, ids: Tensor, press: Any) -> list[Tensor]:
    """The scores that a press takes of a text, by layer."""
    taken: list[Tensor] = []
    scorer = press.press if hasattr(press, "alpha_safeguard") else press
    score = scorer.score

    def recording(*args: Any, **kwargs: Any) -> Tensor:
        taken.append(score(*args, **kwargs).clone())
        return taken[-1].clone()

    scorer.score = recording
    cache_after(model, ids, press)
    for layer in model.model.layers:
        vars(layer.self_attn).pop("masked_key_indices", None)
    return taken


def expected(model: Any, text: Tensor, request: Request) -> Sets:
    """The kept sets that kvpress comes to by itself."""
    press, arm, budget = request.press, request.arm, request.budget
    assert budget is not None
    ratio = budget.value
    if arm is not Arm.AWARE_SCORES or press.blind:
        n = arm.compressed(CONTEXT, QUESTION)
        return native(model, text[:n], press.build(ratio, SEED))
    count = budget.kept(arm, CONTEXT, QUESTION)
    scored = CONTEXT + QUESTION
    if press.per_ratio:
        ratio = 1 - (count + 0.5) / scored
    scores = [s[..., :CONTEXT] for s in native_scores(model, text[:scored], press.build(ratio, SEED))]
    alpha = press.value("alpha")
    if press.headwise:
        return [best_of_layer(s, count, alpha) for s in scores]  # type: ignore[arg-type]
    return [best(s, count) for s in scores]


def differing(ours: Sets, theirs: Sets) -> int:
    """Layers and KV heads at which two choices differ."""
    return sum(
        not torch.equal(a.cpu(), b.cpu())
        for x, y in zip(ours, theirs, strict=True)
        for a, b in zip(x, y, strict=True)
    )


def requests(presses: tuple[Press, ...] = PRESSES) -> list[Request]:
    return [
        Request(arm, press, Budget("ratio", ratio)) for press in presses for arm in Arm for ratio in RATIOS
    ]


def passed(model: Any, text: Tensor, asked: list[Request], backend: str, **options: Any) -> Passed:
    parts = text[:CONTEXT], text[CONTEXT : CONTEXT + QUESTION], text[CONTEXT + QUESTION :]
    return shared_pass(model, *parts, asked, backend=backend, **{"seed": SEED, **options})


def texts(vocabulary: int, count: int) -> Iterator[Tensor]:
    for seed in range(count):
        generator = torch.Generator().manual_seed(seed)
        yield torch.randint(3, vocabulary, (CONTEXT + QUESTION + EXTRA,), generator=generator)


def equality(model: Any, backend: str, count: int) -> Iterator[tuple[str, list[str]]]:
    """Every press on every text, ratio and arm: the shared pass's sets against kvpress' own."""
    wrong: dict[str, list[str]] = {press.label: [] for press in PRESSES}
    compared = dict.fromkeys(wrong, 0)
    for text in texts(model.config.vocab_size, count):
        asked = [r for r in requests() if not (r.press.name == "h2o" and backend == "sdpa")]
        for request, ours in passed(model, text, asked, backend).kept.items():
            name = request.press.label
            model.set_attn_implementation("sdpa" if request.press.headwise else backend)
            theirs = expected(model, text, request)
            compared[name] += sum(len(layer) for layer in theirs)
            if (n := differing(ours, theirs)) > 0:
                wrong[name].append(f"{request.arm} {request.budget}: {n} of {sum(map(len, ours))} differ")
    for name, found in wrong.items():
        if compared[name]:
            yield f"{backend} {name}", found


def controls(model: Any) -> Iterator[tuple[str, list[str]]]:
    """That a comparison can fail, that random draws are as they should be, that the model is left alone."""
    text = next(texts(model.config.vocab_size, 1))
    before = [
        (dict(vars(layer.self_attn)), dict(layer.self_attn._modules), len(layer.self_attn._forward_hooks))
        for layer in model.model.layers
    ]
    asked = requests()
    first = passed(model, text, asked, "eager").kept
    after = [
        (dict(vars(layer.self_attn)), dict(layer.self_attn._modules), len(layer.self_attn._forward_hooks))
        for layer in model.model.layers
    ]
    yield "model left as found", [] if before == after else ["modules changed"]
    yield "backend left as found", [] if model.config._attn_implementation == "sdpa" else ["another"]

    half = Budget("ratio", RATIOS[1])
    random = Request(Arm.AGNOSTIC, resolve("random"), half)
    layers = first[random]
    same = [str(i) for i in range(1, len(layers)) if torch.equal(layers[i][0], layers[0][0])]
    yield "random differs between layers", same
    alone = passed(model, text, [random], "sdpa").kept[random]
    yield "random whatever is asked beside it", [] if differing(layers, alone) == 0 else ["differs"]
    other = passed(model, text, [random], "sdpa", seed=SEED + 1).kept[random]
    yield "another instance draws otherwise", [] if differing(layers, other) else ["equal"]
    seeded = first[Request(Arm.AGNOSTIC, resolve("random:seed=3"), half)]
    yield "another seed draws otherwise", [] if differing(layers, seeded) else ["equal"]

    snapkv = Request(Arm.AGNOSTIC, resolve("snapkv"), half)
    aware = Request(Arm.AWARE_SCORES, resolve("snapkv"), half)
    seen = differing(first[snapkv], first[aware])
    yield "a question changes what snapkv keeps", [] if seen else ["equal"]
    blind = [
        press.label
        for press in PRESSES
        if press.blind
        and differing(
            first[Request(Arm.AGNOSTIC, press, half)], first[Request(Arm.AWARE_SCORES, press, half)]
        )
    ]
    yield "a question changes nothing for blind presses", blind
    drawing = Request(Arm.AGNOSTIC, resolve("compactor:sketch_dimension=4"), half)
    state = torch.random.get_rng_state()
    twice = [
        passed(model, text, order, "sdpa").kept[drawing] for order in ([drawing], [random, snapkv, drawing])
    ]
    untouched = torch.equal(state, torch.random.get_rng_state())
    yield "what a score draws is its own", [] if differing(*twice) == 0 and untouched else ["differs"]


def anchors(model: Any) -> Iterator[tuple[str, list[str]]]:
    """Keeping everything, and keeping a count."""
    text = next(texts(model.config.vocab_size, 1))
    asked = [Request(arm, FULL, None) for arm in Arm]
    asked += [Request(arm, resolve("knorm"), Budget("ratio", 0.0)) for arm in Arm]
    wrong = [
        str(request)
        for request, layers in passed(model, text, asked, "sdpa").kept.items()
        for heads in layers
        for kept in heads
        if not torch.equal(kept, torch.arange(request.arm.compressed(CONTEXT, QUESTION)))
    ]
    yield "what keeps everything", wrong
    counts = [Request(arm, press, Budget("slots", 40)) for arm in Arm for press in PRESSES]
    wrong = [
        str(request)
        for request, layers in passed(model, text, counts, "eager").kept.items()
        for heads in layers
        if sum(map(len, heads)) != 40 * len(heads)
    ]
    yield "as many as asked for", wrong


def streaming() -> Iterator[tuple[str, list[str]]]:
    """Each layer is shown as it passes, with the keys of a plain pass, windowed layers whole."""
    gemma = tiny_models.build("gemma3_text")
    text = next(texts(gemma.config.vocab_size, 1))
    request = Request(Arm.AGNOSTIC, resolve("snapkv"), Budget("slots", 40))
    shown: list[tuple[int, Tensor, Tensor, Tensor, Any]] = []
    result = passed(gemma, text, [request], "eager", on_layer=lambda *layer: shown.append(layer))
    plain = cache_after(gemma, text)
    wrong = []
    for i, (index, weights, keys, values, kept) in enumerate(shown):
        right = (
            index == i
            and weights.shape == (gemma.config.num_attention_heads, len(text), len(text))
            and torch.allclose(weights.sum(dim=-1), torch.ones(()))
            and torch.equal(keys, result.keys[i])
            and torch.equal(values, result.values[i])
            and torch.allclose(keys, plain.layers[i].keys[0], atol=KEYS_TOLERANCE)
            and all(map(torch.equal, kept[request], result.kept[request][i]))
        )
        wrong += [] if right else [str(i)]
    yield "layers are shown as they pass", wrong if len(shown) == 3 else [str(len(shown))]


def families() -> Iterator[tuple[str, list[str]]]:
    """Windowed layers stay whole; half precision is scored in float32."""
    gemma = tiny_models.build("gemma3_text")
    text = next(texts(gemma.config.vocab_size, 1))
    kept = passed(gemma, text, [r for r in requests() if r.press.name != "expected_attention"], "eager").kept
    wrong = [
        str(request)
        for request, layers in kept.items()
        for i, kind in enumerate(gemma.config.layer_types)
        if (len(layers[i][0]) == request.arm.compressed(CONTEXT, QUESTION)) != (kind == "sliding_attention")
        and not request.press.headwise
    ]
    yield "gemma3's windowed layers stay whole", wrong
    half = tiny_models.build("llama").bfloat16()
    asked = requests()
    result = passed(half, text, asked, "eager")
    from kvpress import KeyDiffPress

    wrong = []
    for request, layers in result.kept.items():
        if request.press.name == "keydiff" and request.arm is Arm.AGNOSTIC:
            for keys, heads in zip(result.keys, layers, strict=True):
                scores = KeyDiffPress().score(None, None, keys[None, :, :CONTEXT].float(), None, None, {})
                if not all(map(torch.equal, best(scores, len(heads[0])), heads)):
                    wrong.append(str(request))
    yield "bfloat16 is scored in float32", wrong
    without = [r for r in asked if r.press.name != "h2o"]
    yield (
        "bfloat16 under sdpa",
        [] if len(passed(half, text, without, "sdpa").kept) == len(without) else ["no"],
    )


def main() -> int:
    """Print what was checked; 1 where anything is wrong."""
    torch.set_num_threads(1)
    if len(sys.argv) > 1:
        loaded = models.load(models.resolve(sys.argv[1]), dtype="float32").model
        return report(sys.argv[1], equality(loaded, "eager", 1))
    failed = 0
    for kind in ("llama", "qwen3"):
        model = tiny_models.build(kind, num_hidden_layers=2)
        spread_norms(model)
        for backend in ("eager", "sdpa"):
            failed |= report(kind, equality(model, backend, 2))
    llama = tiny_models.build("llama")
    for found in (controls(llama), anchors(llama), streaming(), families()):
        failed |= report("", found)
    return failed


def spread_norms(model: Any) -> None:
    """Give norms of keys trained-like weights: with ones, all keys have one length, and knorm only ties."""
    generator = torch.Generator().manual_seed(1)
    for name, parameter in model.named_parameters():
        if name.endswith("k_norm.weight"):
            torch.nn.init.uniform_(parameter, 0.5, 1.5, generator=generator)


def report(title: str, found: Iterator[tuple[str, list[str]]]) -> int:
    failed = 0
    for name, wrong in found:
        failed |= bool(wrong)
        print(f"{title} {name}: {'; '.join(wrong[:9]) if wrong else 'as it should be'}".strip())
    return failed


if __name__ == "__main__":
    sys.exit(main())
