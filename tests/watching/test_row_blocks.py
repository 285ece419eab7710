"""Statistics by compiled loops and from blocks of weights, compared with NumPy in float64."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard import masks
from regard.watching import Call
from regard.watching.statistics import from_score_blocks, from_weights
from support.strategies import rules

WAYS = {"rows": from_score_blocks.statistics, "weights": from_weights.statistics}  # the latter: other devices
ways = pytest.mark.parametrize("way", WAYS)


def call_of(q, k, rule=None, added=None, scale=None) -> Call:
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return Call("", "", (*q.shape[:3], k.shape[2]), scale, q, k, mask=rule, bias=added)


def weights_of(call: Call) -> np.ndarray:
    """Return all weights in float64; of regard only the mask itself is used."""
    batch, heads, length, size = call.shape
    q, k = call.q.double().numpy(), np.repeat(call.k.double().numpy(), heads // call.k.shape[1], 1)
    scores = call.scale * q @ k.swapaxes(-1, -2)
    if call.bias is not None:
        scores = scores + call.bias.double().numpy()
    if call.mask is not None:
        scores = np.where(call.mask.numpy(length, size, batch=batch, heads=heads), scores, -np.inf)
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    e = np.exp(scores - np.where(np.isneginf(top), 0.0, top))
    z = e.sum(-1, keepdims=True)
    return np.divide(e, z, out=np.zeros_like(e), where=z > 0)


def check(call: Call, way: str = "rows", on: tuple[int, ...] = (0,), tolerance: float = 1e-4) -> None:
    w, result = weights_of(call), WAYS[way](call, on)
    place = np.arange(call.shape[3])
    empty = w.sum(-1) == 0
    mean = w @ place
    entropy = -(w * np.log(np.where(w > 0, w, 1.0))).sum(-1)
    variance = np.where(empty, 0.0, (w * (place - mean[..., None]) ** 2).sum(-1))
    assert (result.empty.numpy() == empty).all()
    assert np.isneginf(result.lse.numpy()[empty]).all()
    np.testing.assert_allclose(result.entropy, entropy, rtol=0, atol=1e-4)
    np.testing.assert_allclose(result.position, mean, 0, tolerance)
    np.testing.assert_allclose(result.sink, w[..., list(set(on))].sum(-1), rtol=0, atol=1e-5)
    np.testing.assert_allclose(result.spread**2, variance, rtol=1e-5, atol=2e-2)
    np.testing.assert_allclose(result.received, w.sum(-2), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(result.received.sum(-1), (~empty).sum(-1), rtol=1e-5)
    if way == "rows":
        check_top(call, w, 3)


def check_top(call: Call, w: np.ndarray, count: int) -> None:
    values, places = (x.numpy() for x in from_score_blocks.top(call, min(count, call.shape[3]), call.lse))
    best = -np.sort(-w, -1)[..., :count]
    np.testing.assert_allclose(values, best, rtol=0, atol=1e-5)
    present = places >= 0
    np.testing.assert_allclose(
        np.take_along_axis(w, np.maximum(places, 0), -1)[present], best[present], rtol=0, atol=1e-5
    )
    assert (best[~present] == 0).all()
    ordered = np.sort(places, -1)
    assert ((ordered[..., 1:] != ordered[..., :-1]) | (ordered[..., 1:] < 0)).all()  # no key twice


SIZES = st.tuples(st.integers(1, 2), st.sampled_from([2, 4]), st.integers(1, 300), st.integers(1, 600))


@ways
@given(size=SIZES, data=st.data())
@settings(max_examples=40)
def test_masks_and_biases(way, size, data) -> None:
    batch, heads, queries, keys = size
    rng = torch.Generator().manual_seed(data.draw(st.integers(0, 2**32)))
    q = torch.randn(batch, heads, queries, 8, generator=rng)
    k = torch.randn(batch, data.draw(st.sampled_from([1, 2])), keys, 8, generator=rng)
    added = None
    if data.draw(st.booleans()):
        added = torch.randn(*(data.draw(st.sampled_from([1, n])) for n in size), generator=rng)
        if data.draw(st.booleans()):
            added[added > 0.5] = -torch.inf
    call = call_of(q, k, data.draw(st.none() | rules(*size)), added)
    check(call, way, on=(0, keys - 1), tolerance=1e-4 if way == "rows" else 1e-3)


@ways
@pytest.mark.parametrize("shape", [(1100, 1100), (300, 1500), (1500, 300), (1, 700)])
def test_causal_masks(way, shape) -> None:
    length, size = shape
    call = call_of(torch.randn(1, 4, length, 16), torch.randn(1, 2, size, 16), masks.causal())
    check(call, way, tolerance=1e-4 if way == "rows" else 1e-3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(dtype) -> None:
    q, k = torch.randn(2, 4, 70, 16).to(dtype), torch.randn(2, 2, 90, 16).to(dtype)
    assert from_score_blocks.supports(call_of(q, k))
    check(call_of(q, k, masks.causal()))


def test_float64_stays_float64() -> None:
    call = call_of(torch.randn(1, 2, 9, 4).double(), torch.randn(1, 2, 9, 4).double())
    assert not from_score_blocks.supports(call)
    assert call.statistics.entropy.dtype == torch.float64
    np.testing.assert_allclose(call.received(), weights_of(call).sum(-2), atol=1e-5)


class TestExtremes:
    @pytest.mark.parametrize("size", [1e-30, 1e4, 1e30])
    def test_very_small_and_very_large_scores(self, size) -> None:
        q = torch.tensor([[[[1.0], [-1.0], [0.0]]]])
        k = torch.linspace(-1, 1, 333)[None, None, :, None] * size
        check(call_of(q, k, scale=1.0))

    def test_equal_scores(self) -> None:
        result = from_score_blocks.statistics(call_of(torch.zeros(1, 1, 2, 4), torch.randn(1, 1, 5000, 4)), (0,))
        np.testing.assert_allclose(result.entropy, np.log(5000), rtol=1e-6)
        np.testing.assert_allclose(result.spread, np.arange(5000).std(), rtol=1e-6)
        np.testing.assert_allclose(result.received, 2 / 5000, rtol=1e-5)

    def test_ties_are_broken_by_position(self) -> None:
        call = call_of(torch.zeros(1, 1, 1, 4), torch.randn(1, 1, 1000, 4))
        values, places = call.top(5)
        assert places.flatten().tolist() == [0, 1, 2, 3, 4]
        np.testing.assert_allclose(values, 1e-3, rtol=1e-5)

    def test_fewer_visible_keys_than_requested(self) -> None:
        values, places = call_of(torch.randn(1, 1, 4, 4), torch.randn(1, 1, 4, 4), masks.causal()).top(3)
        assert (places[0, 0, 0].tolist()[1:], values[0, 0, 0].tolist()) == ([-1, -1], [1.0, 0.0, 0.0])
        assert sorted(places[0, 0, 1].tolist()) == [-1, 0, 1]

    def test_no_visible_key_and_no_key_at_all(self) -> None:
        q, hidden = torch.randn(1, 2, 5, 4), torch.full((1, 1, 5, 6), -torch.inf)
        for call in (call_of(q, torch.randn(1, 2, 6, 4), added=hidden), call_of(q, torch.randn(1, 2, 0, 4))):
            assert call.statistics.empty.all()
            assert not call.received().any()
            for what in ("entropy", "position", "spread", "sink"):
                assert not getattr(from_score_blocks.statistics(call, ()), what).any()
        assert call_of(q, torch.randn(1, 2, 6, 4), added=hidden).top(2)[1].unique().tolist() == [-1]

    @pytest.mark.parametrize("broken", [float("nan"), float("inf")])
    def test_nan_and_infinity_appear_in_the_statistics(self, broken) -> None:
        q = torch.randn(1, 1, 300, 4)
        q[0, 0, 7, 2] = broken
        result = from_score_blocks.statistics(call_of(q, torch.rand(1, 1, 300, 4) + 0.1, masks.causal()), (0,))
        assert result.entropy.isnan().nonzero().tolist() == [[0, 0, 7]]
        assert not result.empty.any()


def test_long_rows() -> None:
    q, k = torch.randn(1, 1, 40, 64), torch.randn(1, 1, 32768, 64)
    check(call_of(q, k, masks.causal()), tolerance=1e-3)


@pytest.mark.parametrize("threads", [2, 3])
def test_number_of_threads_does_not_change_results(threads) -> None:
    call = call_of(torch.randn(2, 4, 300, 8), torch.randn(2, 2, 300, 8), masks.causal())
    alone, best = from_score_blocks.statistics(call, (0,)), from_score_blocks.top(call, 4, call.lse)
    torch.set_num_threads(threads)
    try:
        together, best_together = from_score_blocks.statistics(call, (0,)), from_score_blocks.top(call, 4, call.lse)
    finally:
        torch.set_num_threads(1)
    torch.testing.assert_close(together.__dict__, alone.__dict__)
    torch.testing.assert_close(best_together, best)


def test_top_beyond_the_sorted_limit() -> None:
    call = call_of(torch.randn(1, 2, 5, 4), torch.randn(1, 2, 500, 4))
    values, places = call.top(from_score_blocks.MOST_SORTED + 1)
    best = -np.sort(-weights_of(call), -1)[..., : from_score_blocks.MOST_SORTED + 1]
    np.testing.assert_allclose(values, best, atol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(weights_of(call), places.numpy(), -1), best, atol=1e-6)
