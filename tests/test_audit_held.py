"""What a cache holds: exactly the kept entries, measured from storage whatever views say."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ceiling.audit.held import HeldCache, HeldLayer, hold, hold_full, hold_masked, storage_bytes

HEADS, DIM, LAYERS = 3, 4, 2


def entries(n: int, seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(HEADS, n, DIM, generator=generator) for _ in range(LAYERS)]


@st.composite
def kept_sets(draw):
    n = draw(st.integers(1, 30))
    sets = st.sets(st.integers(0, n - 1), min_size=1).map(lambda s: torch.tensor(sorted(s)))
    return n, [[draw(sets) for _ in range(HEADS)] for _ in range(LAYERS)]


@given(kept_sets())
@settings(deadline=None)
def test_physical_storage_is_exactly_the_kept_entries(case):
    n, kept = case
    keys, values = entries(n + 3), entries(n + 3, 1)
    cache = hold(keys, values, kept, n, [None] * LAYERS)
    slots = sum(len(own) for layer in kept for own in layer)
    assert cache.held_bytes() == 2 * slots * DIM * 4
    assert cache.slots() == [[len(own) for own in layer] for layer in kept]
    for layer, k, v, heads in zip(cache.layers, keys, values, kept, strict=True):
        assert torch.equal(layer.keys, torch.cat([k[h][own] for h, own in enumerate(heads)]))
        assert torch.equal(layer.values, torch.cat([v[h][own] for h, own in enumerate(heads)]))
        assert all(torch.equal(a, b) for a, b in zip(layer.kept(), heads, strict=True))


@given(kept_sets())
@settings(deadline=None)
def test_a_mask_frees_nothing_and_shows_the_same(case):
    n, kept = case
    keys, values = entries(n), entries(n, 1)
    masked = hold_masked(keys, values, kept, n, [None] * LAYERS)
    held, full = (
        hold(keys, values, kept, n, [None] * LAYERS),
        hold_full(keys, values, n, [None] * LAYERS),
    )
    assert masked.held_bytes() == full.held_bytes() == 2 * LAYERS * HEADS * n * DIM * 4
    assert masked.slots() == held.slots()
    assert masked.kept_id() == held.kept_id()


def test_ids_tell_kept_sets_apart():
    keys = entries(6)
    one = [[torch.tensor([0, 1])] * HEADS] * LAYERS
    other = [[torch.tensor([0, 1]), torch.tensor([0]), torch.tensor([1])]] * LAYERS
    ids = {hold(keys, keys, kept, 6, [None] * LAYERS).kept_id() for kept in (one, other)}
    assert len(ids) == 2


def test_windowed_layers_hold_their_window_and_nothing_else():
    keys = entries(20)
    kept = [[torch.tensor([3])] * HEADS] * LAYERS
    cache = hold(keys, keys, kept, 20, [8, None])
    assert cache.slots() == [[7] * HEADS, [1] * HEADS]  # the next query sees 7 earlier keys and itself
    assert cache.layers[0].positions[:7].tolist() == list(range(13, 20))
    masked = hold_masked(keys, keys, kept, 20, [8, None])
    assert masked.slots() == cache.slots()
    assert hold_full(keys, keys, 5, [8, None]).slots() == [[5] * HEADS, [5] * HEADS]


def test_views_count_whole_storages_and_shared_ones_once():
    long = torch.zeros(100, DIM)
    view = long[:10]
    assert storage_bytes([view]) == 100 * DIM * 4
    assert storage_bytes([view, long[50:]]) == 100 * DIM * 4
    layer = HeldLayer(view, long[10:20], torch.arange(10), (10,))
    assert HeldCache([layer], 10).held_bytes() == 100 * DIM * 4
