"""Attention over the squares of a feature map."""

import copy
import pickle

import pytest
import torch
from torch import nn

from regard import masks
from regard.nn import SpatialAttention


def by_the_document(layer, x):
    """Return the formula of the docstring: a 1×1 convolution, reshaped to (B, 3, heads, C//heads, H·W)."""
    b, c, h, w = x.shape
    q, k, v = layer.qkv(x).reshape(b, 3, layer.heads, c // layer.heads, h * w).unbind(1)
    weights = torch.softmax(q.mT @ k / (c // layer.heads) ** 0.5, -1)  # (B, heads, HW, HW)
    out = (weights @ v.mT).mT.reshape(b, c, h, w)
    return x + layer.out(out), weights


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(("channels", "heads"), [(12, 3), (144, 24), (8, 8), (8, 1)])
def test_results_equal_the_formula_of_the_document(channels, heads, memory_format):
    layer = SpatialAttention(channels, heads)
    x = torch.randn(2, channels, 6, 7).to(memory_format=memory_format)
    want, want_weights = by_the_document(layer, x)
    output, weights = layer(x, weights=True)
    torch.testing.assert_close(output, want, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(weights, want_weights, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(layer(x), want, atol=1e-5, rtol=1e-5)
    assert weights.shape == (2, heads, 42, 42)


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_the_memory_format_is_kept_and_does_not_change_the_result(memory_format, residual):
    layer, x = SpatialAttention(8, 2, residual=residual), torch.randn(2, 8, 5, 3)
    output = layer(x.to(memory_format=memory_format))
    assert output.is_contiguous(memory_format=memory_format)
    torch.testing.assert_close(output, layer(x), atol=1e-6, rtol=1e-5)


def test_residual_and_norm():
    x = torch.randn(2, 8, 3, 3)
    layer = SpatialAttention(8, 2, norm=nn.GroupNorm(1, 8))
    bare = SpatialAttention(8, 2, residual=False)
    bare.load_state_dict(layer.state_dict(), strict=False)
    assert layer.norm is not None
    torch.testing.assert_close(layer(x), x + bare(layer.norm(x)))


def test_heads_that_do_not_divide_give_a_clear_error():
    message = r"got 24 heads for 128 channels; the nearest counts that do are 16 \(d_k = 8\) and 32 \(d_k = 4\)"
    with pytest.raises(ValueError, match=message):
        SpatialAttention(128, 24)


def test_adjust_heads_makes_the_failing_case_work():
    with pytest.warns(UserWarning, match=r"24 heads do not divide 128 channels: using 16 heads of width 8"):
        layer = SpatialAttention(128, 24, adjust_heads=True)
    assert layer.heads == 16
    assert layer(torch.randn(1, 128, 6, 7)).shape == (1, 128, 6, 7)
    assert SpatialAttention(144, 24, adjust_heads=True).heads == 24  # nothing to adjust, no warning


def test_a_mask_over_squares():
    layer, x = SpatialAttention(4, 2, residual=False), torch.randn(1, 4, 2, 3)
    same_row = masks.blocks(3)  # 3 columns: squares 0, 1, 2 are the first row
    _, weights = layer(x, mask=same_row, weights=True)
    assert weights[..., :3, 3:].eq(0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 2, 6))
    changed = x.clone()
    changed[..., 1, :] = 0
    torch.testing.assert_close(layer(changed, mask=same_row)[..., 0, :], layer(x, mask=same_row)[..., 0, :])
    nothing = torch.zeros(6, 6, dtype=torch.bool)
    output = layer(x, mask=nothing)
    torch.testing.assert_close(output, layer.out.bias[:, None, None].expand_as(output))


@pytest.mark.parametrize("shape", [(4, 2, 3), (1, 4, 1, 1), (0, 4, 2, 3), (2, 4, 0, 3)])
def test_shapes(shape):
    layer = SpatialAttention(4, 2)
    squares = shape[-1] * shape[-2]
    output, weights = layer(torch.randn(shape), weights=True)
    assert output.shape == shape
    assert weights.shape == (*shape[:-3], 2, squares, squares)
    assert layer(torch.randn(shape), weights="mean")[1].shape == (*shape[:-3], squares, squares)


def test_gradients():
    layer = SpatialAttention(4, 2).double()
    x = torch.randn(1, 4, 2, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, x)
    got = torch.autograd.grad(layer(x).square().sum(), layer.qkv.weight)[0]
    want = torch.autograd.grad(by_the_document(layer, x)[0].square().sum(), layer.qkv.weight)[0]
    torch.testing.assert_close(got, want)


def test_dropout_is_for_training_only():
    layer, x = SpatialAttention(8, 2, dropout=0.5), torch.randn(1, 8, 4, 4)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))


def test_the_layer_can_be_saved_copied_compiled_and_halved(unchecked):
    layer, x = SpatialAttention(8, 2), torch.randn(2, 8, 3, 4)
    want = layer(x)
    other = SpatialAttention(8, 2)
    other.load_state_dict(layer.state_dict())
    for same in (other, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(same(x), want)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), want, atol=1e-6, rtol=1e-5)
    half = layer.bfloat16()(x.bfloat16())
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), want, atol=0.06, rtol=0.05)


def test_each_projection_is_initialised_separately():
    torch.manual_seed(0)
    layer = SpatialAttention(96, 4)
    for part in (*layer.qkv.weight.chunk(3), layer.out.weight):
        assert part.abs().max() <= (6 / 192) ** 0.5
        assert part.std().item() == pytest.approx((2 / 192) ** 0.5, rel=0.03)
    assert layer.qkv.bias is not None
    assert not layer.qkv.bias.any()


def test_invalid_input_is_rejected():
    layer = SpatialAttention(8, 2)
    with pytest.raises(ValueError, match=r"map \(B, 8, H, W\), got \(2, 6, 7, 8\); channels must come before"):
        layer(torch.zeros(2, 6, 7, 8))
    with pytest.raises(ValueError, match=r"got \(2, 8\)"):
        layer(torch.zeros(2, 8))
    with pytest.raises(TypeError, match=r"got torch.int64"):
        layer(torch.zeros(2, 8, 3, 3, dtype=torch.long))
    with pytest.raises(ValueError, match=r"0 ≤ dropout < 1, got 1.0"):
        SpatialAttention(8, 2, dropout=1.0)
    with pytest.raises(ValueError, match=r"heads must be at least 1, got 0"):
        SpatialAttention(8, 0)
