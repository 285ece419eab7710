"""Self-attention with one head: with nn.Linear and with bare parameters."""

import copy
import pickle

import pytest
import torch
from torch import nn

from regard import masks
from regard.nn import BareSelfAttention, SelfAttention


@pytest.mark.parametrize("kind", [SelfAttention, BareSelfAttention])
@pytest.mark.parametrize("bias", [False, True])
def test_both_layers_equal_the_formula(kind, bias):
    layer, x = kind(8, 4, bias=bias).double(), torch.randn(2, 5, 8, dtype=torch.float64)
    linear = layer.to_linear() if kind is BareSelfAttention else layer
    q, k, v = (w(x) for w in (linear.W_q, linear.W_k, linear.W_v))
    want = torch.softmax(q @ k.mT / 4**0.5, -1)
    output, weights = layer(x, weights=True)
    torch.testing.assert_close(weights, want)
    torch.testing.assert_close(output, want @ v)
    torch.testing.assert_close(layer(x), want @ v)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("mask", [None, masks.causal(), masks.padding([2, 5])])
def test_both_layers_agree_for_equal_weights(bias, mask):
    layer, x = SelfAttention(16, 6, bias=bias), torch.randn(2, 5, 16)
    bare = layer.to_bare()
    torch.testing.assert_close(bare(x, mask), layer(x, mask), atol=1e-6, rtol=0)
    assert torch.equal(bare.to_linear()(x, mask), layer(x, mask))  # there and back, to the bit
    assert torch.equal(bare.W_q, layer.W_q.weight.T)


def test_both_layers_have_equal_gradients():
    layer, x = SelfAttention(6, 4), torch.randn(2, 3, 6)
    bare = layer.to_bare()
    for module in (layer, bare):
        module(x, masks.causal()).square().sum().backward()
    assert layer.W_k.weight.grad is not None
    assert bare.W_k.grad is not None
    torch.testing.assert_close(bare.W_k.grad, layer.W_k.weight.grad.T)


def test_a_converted_layer_is_a_copy_with_equal_dtype_and_mode():
    layer = SelfAttention(4).double().eval()
    bare = layer.to_bare()
    assert bare.W_q.dtype == torch.float64
    assert not bare.training
    nn.init.zeros_(bare.W_q)
    assert layer.W_q.weight.any()


@pytest.mark.parametrize("kind", [SelfAttention, BareSelfAttention])
def test_a_boolean_mask_has_no_heads(kind):
    layer, x = kind(4), torch.randn(3, 5, 4)
    seen = torch.rand(3, 5, 5) < 0.6
    seen[0, 2] = False  # an empty row
    output, weights = layer(x, seen, weights=True)
    assert weights[~seen].eq(0).all()
    assert output[0, 2].eq(0).all()
    one_by_one = torch.stack([layer(x[i], seen[i]) for i in range(3)])
    torch.testing.assert_close(output, one_by_one)


@pytest.mark.parametrize("kind", [SelfAttention, BareSelfAttention])
@pytest.mark.parametrize("shape", [(5, 4), (2, 5, 4), (2, 3, 5, 4), (0, 5, 4), (2, 0, 4), (2, 1, 4)])
def test_shapes(kind, shape):
    output, weights = kind(4, 2)(torch.randn(shape), weights=True)
    assert output.shape == (*shape[:-1], 2)
    assert weights.shape == (*shape[:-1], shape[-2])


@pytest.mark.parametrize("kind", [SelfAttention, BareSelfAttention])
def test_layers_can_be_saved_copied_compiled_and_halved(kind, unchecked):
    layer, x = kind(4, bias=True), torch.randn(2, 3, 4)
    want = layer(x)
    other = kind(4, bias=True)
    other.load_state_dict(layer.state_dict())
    for same in (other, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(same(x), want)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, masks.causal()), layer(x, masks.causal()), atol=1e-6, rtol=1e-5)
    half = layer.bfloat16()(x.bfloat16())
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), want, atol=0.05, rtol=0.05)


@pytest.mark.parametrize("kind", [SelfAttention, BareSelfAttention])
def test_invalid_input_is_rejected(kind):
    with pytest.raises(ValueError, match=rf"{kind.__name__} takes x of shape \(..., L, 4\), got \(2, 3, 5\)"):
        kind(4)(torch.zeros(2, 3, 5))
    with pytest.raises(TypeError, match=r"floating point numbers, got torch.int64"):
        kind(4)(torch.zeros(2, 4, dtype=torch.long))
    with pytest.raises(ValueError, match=rf"{kind.__name__}\(d_model\) must be at least 1, got 0"):
        kind(0)
    with pytest.raises(ValueError, match=r"\(d_k\) must be at least 1, got -2"):
        kind(4, -2)


def test_initial_weights_are_those_of_linear():
    torch.manual_seed(0)
    for weight in (SelfAttention(400, 50).W_q.weight, BareSelfAttention(400, 50).W_q):
        assert weight.abs().max() <= 1 / 20
        assert weight.std().item() == pytest.approx(1 / 20 / 3**0.5, rel=0.03)
