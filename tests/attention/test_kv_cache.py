"""KV caches: what append returns, what is held, and which inputs raise errors."""

import copy
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard import masks
from regard.attention import attend
from regard.attention.layers.kv_cache import Cache
from regard.nn import GrowingCache, KVCache, SlidingCache

APPENDS = st.lists(st.sampled_from([0, 1, 1, 1, 2, 3, 7, 20]), min_size=1, max_size=12)


def tokens(start, count):
    """Return keys whose entries are the number of their token, and values that are the negative of it."""
    k = torch.arange(start, start + count, dtype=torch.float32).reshape(1, 1, count, 1).expand(2, 3, count, 2)
    return k, -k


@pytest.fixture(params=["preallocated", "growing", "sliding", "sliding with first"])
def cache(request):
    return {
        "preallocated": lambda: KVCache(2, 3, 64, 2),
        "growing": lambda: GrowingCache(capacity=1),
        "sliding": lambda: SlidingCache(4),
        "sliding with first": lambda: SlidingCache(4, first=2),
    }[request.param]()


def test_every_cache_implements_the_protocol(cache):
    assert isinstance(cache, Cache)
    assert (cache.length, cache.kept) == (0, 0)


@settings(max_examples=60, deadline=None)
@given(appends=APPENDS)
def test_all_tokens_are_returned(appends):
    for cache in (KVCache(2, 3, sum(appends) + 1, 2), GrowingCache(capacity=1)):
        for n in appends:
            before = cache.length
            keys, values = cache.append(*tokens(before, n))
            assert torch.equal(keys, tokens(0, before + n)[0])
            assert torch.equal(values, -keys)
            assert cache.length == cache.kept == before + n


@settings(max_examples=150, deadline=None)
@given(appends=APPENDS, window=st.integers(1, 6), first=st.integers(0, 3))
def test_a_sliding_cache_returns_exactly_the_tokens_that_new_ones_see(appends, window, first):
    cache, seen = SlidingCache(window, first=first), 0
    for n in appends:
        old = [t for t in range(seen) if t < first or t > seen - window]
        keys, values = cache.append(*tokens(seen, n))
        seen += n
        assert keys[1, 2, :, 0].tolist() == [*old, *range(seen - n, seen)]
        assert torch.equal(values, -keys)
        assert cache.length == seen
        assert cache.kept <= min(seen, first + window)
        if n:
            assert cache.kept == min(seen, first + window)


def test_sliding_memory_does_not_grow():
    cache = SlidingCache(window=8, first=2)
    sizes = {(cache.append(*tokens(n, 1)), cache.nbytes)[1] for n in range(100)}
    assert sizes == {2 * 4 * 2 * 3 * 2 * (2 + 16)}  # keys and values, float32, B, H_kv, d, places


def test_a_growing_cache_copies_little():
    cache, sizes = GrowingCache(capacity=1), []
    for n in range(100):
        cache.append(*tokens(n, 1))
        sizes.append(cache.nbytes)
    assert len(set(sizes)) == 8  # 1, 2, 4 … 128 places


@pytest.mark.parametrize(("window", "first"), [(3, 0), (3, 2), (1, 0), (1, 1), (50, 4)])
def test_a_prefill_longer_than_the_window_is_exact(window, first):
    q, k, v = torch.randn(3, 1, 2, 40, 8)
    rule = masks.causal() & (masks.window(keys=window) | masks.prefix(first))
    want = attend(q, k, v, rule)
    cache, got = SlidingCache(window, first=first), []
    for part in (slice(0, 17), slice(17, 18), slice(18, 30), slice(30, 40)):
        keys, values = cache.append(k[:, :, part], v[:, :, part])
        got.append(attend(q[:, :, part], keys, values, masks.causal() & cache.rule))
    torch.testing.assert_close(torch.cat(got, 2), want, atol=1e-5, rtol=1e-5)


def test_reset_reuses_the_memory(cache):
    cache.append(*tokens(0, 3))
    size = cache.nbytes
    cache.reset()
    assert (cache.length, cache.kept, cache.nbytes) == (0, 0, size)
    keys, _ = cache.append(*tokens(7, 1))
    assert keys[0, 0, :, 0].tolist() == [7]


@pytest.mark.parametrize("index", [[1, 0], [1, 1], [0, 1, 1, 0], [1]])
def test_reorder_moves_batch_items(cache, index):
    items = torch.tensor([10.0, 20.0]).reshape(2, 1, 1, 1)
    for n in range(9):
        before, _ = cache.append(*(x + items for x in tokens(n, 1)))
    before = before.clone()
    cache.reorder(torch.tensor(index))
    new = torch.zeros(len(index), 3, 1, 2)
    keys, _ = cache.append(new, new)
    first = getattr(cache, "first", 0)
    held = first + cache.window - 1 if isinstance(cache, SlidingCache) else 9
    expected = torch.cat((before[:, :, :first], before[:, :, first - held :]), 2)[index]
    assert torch.equal(keys, torch.cat((expected, new), 2))


def test_reordering_an_empty_cache_changes_nothing():
    cache = GrowingCache()
    cache.reorder(torch.tensor([0, 0, 1]))
    assert (cache.length, cache.kept, cache.nbytes) == (0, 0, 0)
    keys, values = cache.append(*tokens(0, 2))
    assert torch.equal(keys, tokens(0, 2)[0])
    assert torch.equal(values, tokens(0, 2)[1])


def test_copies_are_independent(cache):
    cache.append(*tokens(0, 2))
    for other in (copy.deepcopy(cache), pickle.loads(pickle.dumps(cache))):
        other.append(*tokens(5, 2))
        assert (cache.length, other.length) == (2, 4)
        keys, _ = copy.deepcopy(cache).append(*tokens(2, 1))
        assert keys[0, 0, :, 0].tolist() == [0, 1, 2]


def test_a_cache_filled_in_inference_mode_can_be_used_outside():
    for cache in (GrowingCache(), SlidingCache(4)):
        with torch.inference_mode():
            cache.append(*(x.clone() for x in tokens(0, 3)))
        with torch.no_grad():
            keys, _ = cache.append(*tokens(3, 1))
        assert keys[0, 0, :, 0].tolist() == [0, 1, 2, 3]


def test_values_may_have_another_width_and_keep_half_precision():
    cache = KVCache(1, 2, 4, 8, d_v=3, dtype=torch.bfloat16)
    keys, values = cache.append(torch.zeros(1, 2, 2, 8).bfloat16(), torch.zeros(1, 2, 2, 3).bfloat16())
    assert keys.shape == (1, 2, 2, 8)
    assert values.shape == (1, 2, 2, 3)
    assert values.dtype == torch.bfloat16
    assert cache.nbytes == 2 * 2 * 4 * (8 + 3)


def test_repr_shows_the_content():
    cache = GrowingCache()
    assert repr(cache) == "GrowingCache(empty)"
    cache.append(*tokens(0, 3))
    assert repr(cache) == "GrowingCache(3 keys of 3, room for 64, B=2, H_kv=3, d=2, float32, 6,144 bytes)"


def test_a_full_cache_raises_an_error():
    cache = KVCache(2, 3, 4, 2)
    cache.append(*tokens(0, 3))
    with pytest.raises(ValueError, match=r"room for 4 tokens and holds 3, so 2 more do not fit; .* max_length=5"):
        cache.append(*tokens(3, 2))
    assert cache.append(*tokens(3, 1))[0].shape[2] == 4  # what was refused has left no trace


def test_wrong_keys_and_values_are_rejected(cache):
    k, v = tokens(0, 2)
    cache.append(k, v)
    with pytest.raises(ValueError, match=r"takes k \(B, H_kv, n, d_k\) .* got \(3, 2, 2\) and \(2, 3, 2, 2\)"):
        cache.append(k[0], v)
    with pytest.raises(ValueError, match="of the same n tokens"):
        cache.append(k[:, :, :1], v)
    with pytest.raises(ValueError, match=r"holds \(B=2, H_kv=3, n, d=2\), got k of shape \(1, 3, 2, 2\); .* reorder"):
        cache.append(k[:1], v[:1])
    with pytest.raises(ValueError, match=r"got v of shape \(2, 3, 2, 1\)"):
        cache.append(k, v[..., :1])
    with pytest.raises(TypeError, match=r"holds torch.float32 on cpu, got k in torch.float64"):
        cache.append(k.double(), v.double())
    with pytest.raises(ValueError, match=r"does not propagate gradients; decode under torch.no_grad\(\)"):
        cache.append(k.clone().requires_grad_(), v)
    with pytest.raises(ValueError, match=r"items must be in 0 … 1, got \[0, 2\]"):
        cache.reorder(torch.tensor([0, 2]))
    with pytest.raises(ValueError, match=r"whole numbers \(B,\), .*; got torch.int64 of shape \(1, 2\)"):
        cache.reorder(torch.tensor([[0, 1]]))
    assert cache.length == 2


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: KVCache(1, 1, 0, 4), r"KVCache\(max_length\) must be at least 1, got 0"),
        (lambda: KVCache(1, 0, 4, 4), r"KVCache\(kv_heads\) must be at least 1"),
        (lambda: GrowingCache(capacity=0), r"GrowingCache\(capacity\) must be at least 1"),
        (lambda: SlidingCache(0), r"SlidingCache\(window\) must be at least 1"),
        (lambda: SlidingCache(4, first=-1), r"SlidingCache\(first\) must be at least 0, got -1"),
    ],
)
def test_invalid_sizes_are_rejected(build, message):
    with pytest.raises(ValueError, match=message):
        build()
