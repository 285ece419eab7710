"""Positions: sinusoidal, learned, rotary, ALiBi."""

import copy
import math
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from regard import masks
from regard.attention import attend
from regard.attention.positions.sinusoidal import sinusoidal
from regard.nn import Alibi, Learned, Rotary, Sinusoidal

# -- sinusoidal ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d_model", [1, 2, 7, 8])
def test_the_table_equals_the_formula(d_model):
    table = sinusoidal(50, d_model, dtype=torch.float64)
    for p in (0, 1, 49):
        for c in range(d_model):
            angle = p / 10000 ** (2 * (c // 2) / d_model)
            assert table[p, c] == pytest.approx(math.cos(angle) if c % 2 else math.sin(angle), abs=1e-12)


def test_float32_equals_the_rounded_float64_table_at_large_positions():
    far = Sinusoidal(16)(torch.zeros(1, 16), positions=1_000_000)
    exact = Sinusoidal(16)(torch.zeros(1, 16, dtype=torch.float64), positions=1_000_000)
    assert torch.equal(far, exact.float())


def test_a_position_has_the_same_vector_in_every_form_of_the_argument():
    places, x = Sinusoidal(6), torch.zeros(2, 5, 6)
    whole = places(x)
    assert torch.equal(whole[:, 3:], places(x[:, 3:], positions=3))
    assert torch.equal(whole, places(x, positions=torch.arange(5)))
    each = places(x, positions=torch.tensor([[4, 3, 2, 1, 0], [0, 1, 2, 3, 4]]))
    assert torch.equal(each[0], whole[0].flip(0))
    assert torch.equal(each[1], whole[1])


def test_sinusoidal_has_an_empty_state_dict_and_keeps_the_dtype():
    places = Sinusoidal(8)
    assert not places.state_dict()
    assert places(torch.zeros(3, 8, dtype=torch.bfloat16)).dtype == torch.bfloat16
    halved = places.half()(torch.zeros(3, 8))  # casting the module must not round the table
    assert torch.equal(halved, sinusoidal(3, 8))


def test_a_table_cached_in_inference_mode_works_in_training():
    rotary, places = Rotary(4), Sinusoidal(4)
    with torch.inference_mode():
        rotary.rotate(places(torch.zeros(1, 3, 4)))
    x = torch.ones(1, 3, 4, requires_grad=True)
    rotary.rotate(places(x)).sum().backward()
    assert x.grad is not None


def faked(function, x):
    with FakeTensorMode() as mode:
        return function(mode.from_tensor(x))


def test_tables_of_transforms_and_fake_tensors_are_not_cached():
    x = torch.ones(1, 3, 4)
    for first in (
        lambda f: torch.func.grad(lambda x: f(x).sum())(x),
        lambda f: torch.func.vmap(f)(x[None]),
        lambda f: faked(f, x),
    ):
        places, rotary = Sinusoidal(4), Rotary(4)
        want = Rotary(4).rotate(sinusoidal(3, 4) + x)
        first(lambda x, places=places, rotary=rotary: rotary.rotate(places(x)))
        assert torch.equal(rotary.rotate(places(x)), want)
        first(lambda x, places=places, rotary=rotary: rotary.rotate(places(x)))  # and none comes in their way


# -- learned ---------------------------------------------------------------------------------------------


def test_learned_adds_and_trains_the_vector_of_each_position():
    places = Learned(6, 4)
    out = places(torch.zeros(2, 3, 4), positions=2)
    assert torch.equal(out, places.weight[2:5].expand(2, 3, 4))
    out.sum().backward()
    assert places.weight.grad is not None
    assert places.weight.grad[:, 0].tolist() == [0, 0, 2, 2, 2, 0]
    assert torch.equal(places(torch.zeros(3, 4), positions=torch.tensor([5, 0, 5])), places.weight[[5, 0, 5]])


@pytest.mark.parametrize(
    ("length", "positions", "message"),
    [
        (7, 0, r"Learned has 6 positions, 0 … 5, but position 6 is needed \(7 vectors from position 0 on\)"),
        (1, 6, r"position 6 is needed \(1 vectors from position 6 on\); build it with a larger max_length"),
        (2, torch.tensor([0, -1]), r"positions must be at least 0, got -1: positions count from 0"),
        (2, torch.tensor([0, 9]), r"position 9 is needed \(the largest of \(2,\) positions\)"),
    ],
)
def test_learned_rejects_positions_beyond_max_length(length, positions, message):
    with pytest.raises(ValueError, match=message):
        Learned(6, 4)(torch.zeros(length, 4), positions=positions)


@pytest.mark.parametrize("module", [Sinusoidal(4), Learned(8, 4)])
def test_invalid_vectors_raise_errors(module):
    with pytest.raises(ValueError, match=r"takes x of shape \(..., L, 4\), got \(2, 3\)"):
        module(torch.zeros(2, 3))
    with pytest.raises(TypeError, match="embed token ids first"):
        module(torch.zeros(2, 4, dtype=torch.long))
    with pytest.raises(ValueError, match="positions must be at least 0, got -1"):
        module(torch.zeros(2, 4), positions=-1)
    with pytest.raises(ValueError, match=r"a tensor of shape \(3,\) or \(2, 3\) .*; got shape \(2,\)"):
        module(torch.zeros(2, 3, 4), positions=torch.arange(2))
    with pytest.raises(TypeError, match=r"positions must be numbers, got torch.bool"):
        module(torch.zeros(2, 4), positions=torch.ones(2, dtype=torch.bool))


# -- rotary ----------------------------------------------------------------------------------------------


def turned_by_hand(x, places, rotated, interleaved, base=10000.0):
    """Return the formula of the docstring, computed number by number in float64."""
    y = x.double().clone().numpy()
    half = rotated // 2
    for row, p in enumerate(places):
        for i in range(half):
            a, b = (2 * i, 2 * i + 1) if interleaved else (i, i + half)
            angle = p * base ** (-2 * i / rotated)
            c, s = math.cos(angle), math.sin(angle)
            first, second = x[..., row, a].double().numpy(), x[..., row, b].double().numpy()
            y[..., row, a], y[..., row, b] = first * c - second * s, second * c + first * s
    return torch.from_numpy(y)


@settings(max_examples=30, deadline=None)
@given(
    half=st.integers(0, 4),
    still=st.integers(0, 3),
    length=st.integers(0, 5),
    start=st.integers(0, 3000),
    interleaved=st.booleans(),
)
def test_rotary_equals_the_formula(half, still, length, start, interleaved):
    d_k = 2 * half + still
    if d_k == 0:
        return
    x = torch.randn(2, 3, length, d_k)
    rotary = Rotary(d_k, rotated=2 * half, interleaved=interleaved)
    want = turned_by_hand(x, range(start, start + length), 2 * half, interleaved)
    torch.testing.assert_close(rotary.rotate(x, start).double(), want, atol=1e-6, rtol=1e-5)
    each = torch.arange(start, start + length).expand(2, length)
    torch.testing.assert_close(rotary.rotate(x, each).double(), want, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("interleaved", [False, True])
def test_scores_depend_on_the_distance_alone(interleaved):
    rotary = Rotary(8, interleaved=interleaved)
    q, k = torch.randn(1, 1, 8, dtype=torch.float64), torch.randn(1, 1, 8, dtype=torch.float64)
    scores = [(rotary.rotate(q, 7 + n) * rotary.rotate(k, 2 + n)).sum() for n in (0, 1, 500)]
    assert scores[0] == pytest.approx(scores[1].item(), abs=1e-10)
    assert scores[0] == pytest.approx(scores[2].item(), abs=1e-10)


def test_each_batch_item_may_have_its_own_positions():
    rotary, q, k = Rotary(4), torch.randn(2, 4, 3, 4), torch.randn(2, 2, 3, 4)
    places = torch.tensor([[0, 1, 2], [5, 6, 7]])
    turned_q, turned_k = rotary(q, k, places)
    assert torch.equal(turned_q[1], rotary.rotate(q[1], 5))
    assert torch.equal(turned_k[0], rotary.rotate(k[0], 0))


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("rotated", [4, 2])
def test_first_and_second_gradients_of_rotary(interleaved, rotated):
    rotary = Rotary(4, rotated=rotated, interleaved=interleaved)
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: rotary.rotate(x, 3), x)
    assert torch.autograd.gradgradcheck(lambda x: rotary.rotate(x, 3).square(), x)


def test_rotary_under_vmap_and_compile(unchecked):
    rotary, x = Rotary(6, rotated=4), torch.randn(3, 2, 5, 6)
    want = rotary.rotate(x, 2)
    torch.testing.assert_close(torch.func.vmap(lambda x: rotary.rotate(x, 2))(x), want)
    for interleaved in (False, True):
        rotary = Rotary(6, rotated=4, interleaved=interleaved)
        compiled = torch.compile(rotary.rotate, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(x, 2), rotary.rotate(x, 2))


def test_half_precision_is_rotated_in_float32():
    rotary, x = Rotary(8), torch.randn(1, 1, 4, 8).bfloat16()
    assert torch.equal(rotary.rotate(x, 100), rotary.rotate(x.float(), 100).bfloat16())


def test_rotary_does_not_change_its_input():
    packed = torch.randn(2, 5, 24)
    before = packed.clone()
    q = packed[..., :8].unflatten(-1, (2, 4)).transpose(1, 2)
    torch.testing.assert_close(Rotary(4).rotate(q), Rotary(4).rotate(q.contiguous()))
    assert torch.equal(packed, before)


def test_rotary_can_be_copied_and_pickled_and_has_an_empty_state_dict():
    rotary, x = Rotary(4, base=500.0, interleaved=True), torch.randn(1, 3, 4)
    want = rotary.rotate(x)
    assert not rotary.state_dict()
    assert torch.equal(copy.deepcopy(rotary).rotate(x), want)
    assert torch.equal(pickle.loads(pickle.dumps(rotary)).rotate(x), want)
    assert repr(rotary) == "Rotary(d_k=4, base=500, interleaved)"


def test_invalid_arguments_of_rotary_raise_errors():
    with pytest.raises(ValueError, match=r"channels in pairs: .* at most d_k = 5, got 5; use rotated=4"):
        Rotary(5)
    with pytest.raises(ValueError, match=r"at most d_k = 4, got 6; use rotated=4"):
        Rotary(4, rotated=6)
    with pytest.raises(ValueError, match=r"Rotary takes queries and keys of shape \(..., H, L, 4\), got \(2, 3, 6\)"):
        Rotary(4).rotate(torch.zeros(2, 3, 6))
    with pytest.raises(ValueError, match=r"same positions, got lengths 3 and 2 .* with rotate"):
        Rotary(4)(torch.zeros(1, 3, 4), torch.zeros(1, 2, 4))
    with pytest.raises(ValueError, match=r"\(3,\) or \(2, 3\) with a position per vector; got shape \(2, 4\)"):
        Rotary(4).rotate(torch.zeros(2, 1, 3, 4), torch.zeros(2, 4))


# -- ALiBi -----------------------------------------------------------------------------------------------


def published_slopes(heads):
    """Return the slopes as in the repository of the paper."""

    def power_of_two(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    if math.log2(heads).is_integer():
        return power_of_two(heads)
    n = 2 ** math.floor(math.log2(heads))
    return power_of_two(n) + published_slopes(2 * n)[0::2][: heads - n]


@pytest.mark.parametrize("heads", [1, 2, 3, 5, 6, 8, 12, 16, 24])
def test_the_slopes_are_the_published_ones(heads):
    np.testing.assert_allclose(Alibi(heads).slopes, published_slopes(heads), rtol=1e-12)


@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (2, 7), (200, 300)])
@pytest.mark.parametrize("mask", [None, masks.causal()])
@pytest.mark.parametrize("kv_heads", [4, 2])
def test_alibi_is_minus_slope_times_distance(queries, keys, mask, kv_heads):
    q = torch.randn(2, 4, queries, 8)
    k, v = torch.randn(2, 2, kv_heads, keys, 8)
    places = torch.arange(keys - queries, keys)[:, None]
    distance = (places - torch.arange(keys)).abs()
    table = -torch.tensor(Alibi(4).slopes)[:, None, None] * distance
    want = attend(q, k, v, mask, bias=table)
    torch.testing.assert_close(attend(q, k, v, mask, bias=Alibi(4)), want, atol=1e-5, rtol=1e-5)


def test_alibis_are_compared_hashed_and_pickled_by_value():
    assert Alibi(4) == Alibi(4)
    assert hash(Alibi(4)) == hash(Alibi(4))
    assert pickle.loads(pickle.dumps(Alibi(6))) == Alibi(6)


def test_invalid_arguments_of_alibi_raise_errors():
    with pytest.raises(ValueError, match=r"Alibi\(heads\) must be at least 1, got 0"):
        Alibi(0)
    q = torch.zeros(1, 4, 3, 2)
    with pytest.raises(ValueError, match=r"Alibi\(heads=2\) is for 2 heads, but q has 4"):
        attend(q, q, q, bias=Alibi(2))
