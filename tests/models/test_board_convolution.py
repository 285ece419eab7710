"""Winograd convolution compared with torch: outputs, gradients, rounding, and when it is used."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from regard.models.board import convolution as board_conv
from regard.models.board.convolution import BoardConv, convolve, transform_filters
from regard.models.board.winograd import matrices, tiling


@pytest.mark.parametrize("m", [2, 3, 4])
def test_matrices_compute_a_convolution(m):
    at, g, bt = matrices(m)
    rng = np.random.default_rng(0)
    d, f = rng.normal(size=m + 2), rng.normal(size=3)
    np.testing.assert_allclose(at @ ((g @ f) * (bt @ d)), np.correlate(d, f), atol=1e-12)
    assert np.array_equal(bt, bt.astype(np.float32))  # no coefficient is rounded
    assert np.array_equal(at, at.astype(np.float32))


def test_fewest_points():
    for size in range(3, 30):
        cut = tiling(size)
        assert cut.m * (cut.tiles - 1) < size <= cut.m * cut.tiles
        assert cut.tiles * cut.points == min(-(-size // m) * (m + 2) for m in (2, 3, 4))


@settings(max_examples=15)
@given(
    rows=st.integers(3, 10),
    columns=st.integers(3, 10),
    boards=st.integers(16, 40),
    taken=st.sampled_from([48, 50, 64]),
    given_=st.sampled_from([48, 65]),
    rest=st.booleans(),
    relu=st.booleans(),
    bias=st.booleans(),
    last=st.booleans(),
)
def test_outputs_equal_torch_for_any_shape(rows, columns, boards, taken, given_, rest, relu, bias, last):
    torch.manual_seed(rows * columns)
    conv = BoardConv(taken, given_, bias=bias)
    x, more = torch.randn(boards, taken, rows, columns), torch.randn(boards, given_, rows, columns)
    wanted = F.conv2d(x.double(), conv.weight.double(), None if conv.bias is None else conv.bias.double(), padding=1)
    wanted = wanted + more if rest else wanted
    wanted = wanted.relu() if relu else wanted
    if last:
        x, more = (y.contiguous(memory_format=torch.channels_last) for y in (x, more))
    for learning in (False, True):
        with torch.set_grad_enabled(learning):
            found = conv(x, more if rest else None, relu)
        torch.testing.assert_close(found.double(), wanted, atol=3e-5, rtol=0)
        assert found.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("size", [(6, 7), (4, 5), (8, 9), (3, 10)])
def test_gradients_equal_torch(size):
    torch.manual_seed(0)
    conv = BoardConv(48, 64)
    x, dy = torch.randn(20, 48, *size, requires_grad=True), torch.randn(20, 64, *size)
    found = torch.autograd.grad(conv(x), (x, conv.weight, conv.bias), dy)
    wide = [t.detach().double().requires_grad_() for t in (x, conv.weight, conv.bias)]
    wanted = torch.autograd.grad(F.conv2d(*wide, padding=1), wide, dy.double())
    for ours, exact in zip(found, wanted, strict=True):
        assert ours.shape == exact.shape
        assert (ours - exact).norm() / exact.norm() < 5e-6


def test_rounding_error_is_a_few_times_that_of_the_sum():
    torch.manual_seed(0)
    conv, x = BoardConv(144, 144, bias=False), torch.randn(32, 144, 6, 7).relu()
    with torch.no_grad():
        exact = F.conv2d(x.double(), conv.weight.double(), padding=1)
        error = (conv(x) - exact).square().mean().sqrt() / exact.std()
        # One product after another, which no processor does otherwise. Torch's own convolution is no measure: with AVX2
        # it rounds as much as this, with AVX-512, which keeps more sums side by side, less than half as much.
        products = F.unfold(x, 3, padding=1).transpose(1, 2) * conv.weight[0].flatten()
        sums = np.cumsum(products.numpy(), -1, dtype=np.float32)[..., -1]
        plain = (torch.from_numpy(sums) - exact[:, 0].flatten(1)).square().mean().sqrt() / exact.std()
    assert error < 3.5 * plain
    assert error < 3e-6


def test_relu_keeps_nan():
    conv, x = BoardConv(48, 48), torch.randn(16, 48, 6, 7)
    x[1, 0, 3, 3] = float("nan")
    with torch.no_grad():
        y = conv(x, relu=True)
    assert y[1].isnan().any()
    assert not y[[0, 2, 15]].isnan().any()


def used(monkeypatch, call) -> bool:
    calls = []
    monkeypatch.setattr(board_conv, "convolve", lambda *a: calls.append(a) or convolve(*a))
    call()
    return bool(calls)


@pytest.mark.parametrize(
    ("channels", "boards", "kept", "tiles"),
    [(64, 16, False, True), (64, 15, False, False), (64, 4, True, True), (64, 3, True, False), (32, 64, True, False)],
)
def test_winograd_is_used_where_it_is_faster(monkeypatch, channels, boards, kept, tiles):
    conv = BoardConv(channels, channels).requires_grad_(False)
    if kept:
        conv.cache_filters()
    assert used(monkeypatch, lambda: conv(torch.randn(boards, channels, 6, 7))) is tiles


def test_torch_is_used_where_winograd_cannot(monkeypatch):
    conv, x = BoardConv(48, 48), torch.randn(16, 48, 6, 7)
    wanted = F.conv2d(x, conv.weight, conv.bias, padding=1)

    assert used(monkeypatch, lambda: conv(x))

    def mapped() -> None:
        found = torch.vmap(lambda one: conv(one[None])[0])(x)
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)

    assert not used(monkeypatch, mapped)
    assert not used(monkeypatch, lambda: conv(torch.randn(16, 48, 2, 7)))
    assert not used(monkeypatch, lambda: conv.double()(x.double()))


@pytest.mark.parametrize("transform", ["grad", "vmap", "jacrev"])
def test_constant_convolution_inside_a_func_transform(transform):
    """A transform that does not touch the convolution's tensors passes them as they are."""
    conv, x = BoardConv(48, 48), torch.randn(16, 48, 6, 7)
    expected = F.conv2d(x, conv.weight, conv.bias, padding=1).mean()
    factors = torch.ones(()) if transform == "grad" else torch.ones(3)
    result = getattr(torch.func, transform)(lambda factor: (factor * conv(x).mean()).sum())(factors)
    torch.testing.assert_close(result, expected.expand(result.shape).clone())


def test_cached_filters_are_used_for_every_board_size():
    conv = BoardConv(48, 48)
    conv.cache_filters()
    with torch.no_grad():
        for size in ((6, 7), (8, 9), (6, 7), (6, 8)):
            x = torch.randn(4, 48, *size)
            torch.testing.assert_close(conv(x), F.conv2d(x, conv.weight, conv.bias, padding=1), atol=1e-5, rtol=0)
    assert set(conv.cached_filters) == {(3, 4), (4, 3)}  # by the tiles that a size is cut into


def test_second_derivative_raises():
    conv, x = BoardConv(48, 48), torch.randn(16, 48, 6, 7, requires_grad=True)
    (first,) = torch.autograd.grad(conv(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_transformed_filters_of_a_torch_layer():
    layer, x = nn.Conv2d(48, 48, 3, padding=1, bias=False), torch.randn(4, 48, 6, 7)
    with torch.no_grad():
        filters = transform_filters(layer.weight, tiling(6), tiling(7))
        assert filters.shape == (30, 48, 48)
        torch.testing.assert_close(convolve(x, filters.transpose(1, 2)), layer(x), atol=1e-5, rtol=0)
