"""What users of torch expect from the layers of regard.nn, and conversion to and from nn.MultiheadAttention."""

import inspect
from typing import Any

import pytest
import torch
from torch import nn

import regard.nn
from regard import masks
from regard.compat import MultiheadAttention
from regard.nn import (
    BareSelfAttention,
    Learned,
    MultiHeadAttention,
    Rotary,
    SelfAttention,
    Sinusoidal,
    SpatialAttention,
)
from tests.support import layer_conventions as conventions

pytestmark = pytest.mark.usefixtures("unchecked")

X, MAP = torch.randn(2, 5, 16), torch.randn(2, 16, 3, 4)
LAYERS: dict[str, Any] = {
    "self": (lambda **f: SelfAttention(16, 8, bias=True, **f), X),
    "bare": (lambda **f: BareSelfAttention(16, 8, bias=True, **f), X),
    "multi-head": (lambda **f: MultiHeadAttention(16, 4, **f), X),
    "grouped": (lambda **f: MultiHeadAttention(16, 4, 2, alibi=True, **f), X),
    "every option": (lambda **f: MultiHeadAttention(16, 4, causal=True, rotary=True, qk_norm=True, sinks=True, **f), X),
    "context": (lambda **f: MultiHeadAttention(16, 4, context_dim=6, **f), X, torch.randn(2, 3, 6)),
    "spatial": (lambda **f: SpatialAttention(16, 4, norm=nn.GroupNorm(1, 16, **f), **f), MAP),
    "learned": (lambda **f: Learned(9, 16, **f), X),
    "sinusoidal": (lambda **f: Sinusoidal(16, **f), X),
}


@pytest.mark.parametrize("name", LAYERS)
def test_device_and_dtype(name: str) -> None:
    conventions.check_factory_arguments(LAYERS[name][0])


def test_every_layer_has_device_dtype_and_reset_parameters() -> None:
    classes = [x for x in vars(regard.nn).values() if inspect.isclass(x) and issubclass(x, nn.Module)]
    assert {SelfAttention, MultiHeadAttention, SpatialAttention, Rotary} <= set(classes)
    for cls in classes:
        assert {"device", "dtype"} <= inspect.signature(cls).parameters.keys(), cls
        assert callable(cls.reset_parameters)


@pytest.mark.parametrize("name", LAYERS)
def test_reset_after_to_empty(name: str) -> None:
    conventions.check_reset(*LAYERS[name])


@pytest.mark.parametrize("name", LAYERS)
def test_copies(name: str) -> None:
    conventions.check_copies(*LAYERS[name])


@pytest.mark.parametrize("name", LAYERS)
def test_traced(name: str) -> None:
    conventions.check_trace(*LAYERS[name])


@pytest.mark.parametrize("name", [name for name in LAYERS if name != "sinusoidal"])
def test_forward_mode(name: str) -> None:
    conventions.check_forward_mode(*LAYERS[name])


def test_a_cached_table_is_not_pickled() -> None:
    rotary = Rotary(8)
    rotary(torch.randn(1, 3, 8), torch.randn(1, 3, 8))
    assert rotary._table is not None
    assert rotary.__getstate__()["_table"] is None


# -- ONNX ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["multi-head", "every option", "grouped"])
def test_onnx(name: str) -> None:
    pytest.importorskip("onnxscript", reason="torch.onnx needs the packages onnx and onnxscript")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime runs the exported model")
    build, x = LAYERS[name]
    layer = build().eval()
    program = torch.onnx.export(layer, (x,), dynamo=True, verbose=False)
    assert program is not None
    session = runtime.InferenceSession(program.model_proto.SerializeToString())
    (result,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    torch.testing.assert_close(torch.from_numpy(result), layer(x), atol=1e-5, rtol=1e-5)


# -- nn.MultiheadAttention -------------------------------------------------------------------------------------


@pytest.mark.parametrize("theirs", [nn.MultiheadAttention, MultiheadAttention])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("width", [16, 6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_from_torch_and_back(theirs: type, batch_first: bool, bias: bool, width: int, dtype: torch.dtype) -> None:
    layer = theirs(16, 4, 0.1, bias=bias, kdim=width, vdim=width, batch_first=batch_first, dtype=dtype).eval()
    if bias:
        nn.init.normal_(layer.in_proj_bias)
        nn.init.normal_(layer.out_proj.bias)
    ours = MultiHeadAttention.from_torch(layer)
    assert (ours.dropout, ours.training, ours.out.weight.dtype) == (0.1, False, dtype)
    x, context = torch.randn(2, 5, 16, dtype=dtype), torch.randn(2, 7, width, dtype=dtype)
    visible = torch.rand(5, 7) < 0.7
    visible[:, 0] = True
    inputs = (x, context, context) if batch_first else (x.transpose(0, 1), *[context.transpose(0, 1)] * 2)
    expected, weights = layer(*inputs, attn_mask=~visible, average_attn_weights=False)
    expected = expected if batch_first else expected.transpose(0, 1)
    result, maps = ours(x, context, mask=visible, weights=True)
    tolerance = {"atol": 1e-6, "rtol": 1e-5} if dtype == torch.float32 else {"atol": 1e-14, "rtol": 1e-13}
    torch.testing.assert_close((result, maps), (expected, weights), **tolerance)
    back = ours.to_torch()
    assert type(back) is nn.MultiheadAttention
    assert {name: x.tolist() for name, x in back.state_dict().items()} == {
        name: x.tolist() for name, x in layer.state_dict().items()
    }
    again, _ = back(x, context, context, attn_mask=~visible)
    torch.testing.assert_close(again, expected, **tolerance)


@pytest.mark.parametrize(("bias", "out_bias"), [(True, False), (False, True)])
def test_one_of_two_biases(bias: bool, out_bias: bool) -> None:
    layer, x = MultiHeadAttention(16, 4, bias=bias, out_bias=out_bias), torch.randn(2, 5, 16)
    nn.init.normal_(next(x for name, x in layer.named_parameters() if name.endswith("bias")))
    theirs = layer.to_torch()
    torch.testing.assert_close(theirs(x, x, x)[0], layer(x), atol=1e-6, rtol=1e-5)
    back = MultiHeadAttention.from_torch(theirs)
    assert back.state_dict().keys() == layer.state_dict().keys()
    assert torch.equal(back(x), layer(x))


def test_a_converted_layer_has_its_own_weights() -> None:
    theirs = nn.MultiheadAttention(16, 4)
    ours = MultiHeadAttention.from_torch(theirs)
    nn.init.zeros_(theirs.in_proj_weight)
    assert ours.qkv.weight.any()
    assert ours.qkv.weight.requires_grad


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"add_bias_kv": True}, "no add_bias_kv"),
        ({"add_zero_attn": True}, "no add_zero_attn"),
        ({"kdim": 5, "vdim": 7}, "kdim=5 and vdim=7"),
        ({"kdim": 5}, "kdim=5 and vdim=16"),
    ],
)
def test_layers_of_torch_without_a_counterpart(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention.from_torch(nn.MultiheadAttention(16, 4, **options))


def test_from_torch_takes_a_layer() -> None:
    with pytest.raises(TypeError, match=r"takes nn\.MultiheadAttention, got Linear"):
        MultiHeadAttention.from_torch(nn.Linear(4, 4))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kv_heads": 2}, "no kv_heads=2"),
        ({"d_k": 8}, "no d_k=8"),
        ({"scale": 0.1}, r"no scale=0\.1"),
        ({"causal": True, "rotary": True}, "no causal, rotary"),
        ({"alibi": True}, "no alibi"),
        ({"qk_norm": True, "sinks": True}, "no qk_norm, sinks"),
    ],
)
def test_options_that_torch_does_not_have(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(16, 4, **options).to_torch()


def test_masks_mean_the_same_after_conversion() -> None:
    theirs = nn.MultiheadAttention(16, 4, batch_first=True)
    x, lengths = torch.randn(2, 5, 16), torch.tensor([5, 2])
    expected, _ = theirs(x, x, x, key_padding_mask=torch.arange(5) >= lengths[:, None])
    result = MultiHeadAttention.from_torch(theirs)(x, mask=masks.padding(lengths))
    torch.testing.assert_close(result, expected, atol=1e-6, rtol=1e-5)
