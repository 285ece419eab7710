"""Attention on an accelerator, simulated: same results as on the CPU, no mixed devices, no L×S buffer, no waiting."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import regard
from regard import masks
from regard.attention.kernels import device_kernel
from regard.attention.kernels import private_torch_operators as operators
from regard.attention.positions.alibi import Alibi
from tests.support.simulated_device import simulated

BATCH, HEADS, WIDTH = 2, 4, 8


def mask_of(name: str, queries: int, keys: int) -> Any:
    torch.manual_seed(1)
    ids = torch.randint(0, 3, (BATCH, keys)).sort(-1).values
    return {
        "none": None,
        "causal": masks.causal(),
        "window": masks.window(keys=20) | masks.prefix(2),
        "lengths": masks.padding([keys // 3, keys]),
        "real keys": masks.padding(torch.rand(BATCH, keys) > 0.3),
        "documents": masks.documents(ids) & masks.causal(),
        "layout": masks.blocks(-(-keys // 4), layout=torch.rand(HEADS, 4, 4) > 0.5),
        "rule": masks.rule(lambda b, h, q, k: (q + h) % 3 != k % 3, heads=HEADS),
        "table": masks.given(torch.rand(HEADS, queries, keys) > 0.5) & masks.window(keys=60),
        "tensor": torch.rand(BATCH, 1, queries, keys) > 0.5,
        "nothing visible": masks.prefix(0),
    }[name]


MASKS = (
    "none", "causal", "window", "lengths", "real keys", "documents", "layout", "rule", "table", "tensor",
    "nothing visible",
)  # fmt: skip
BIASES: dict[str, Callable[[int, int], Any]] = {
    "no bias": lambda queries, keys: None,
    "alibi": lambda queries, keys: Alibi(HEADS),
    "tensor": lambda queries, keys: torch.randn(1, HEADS, queries, keys),
}


def inputs(queries: int, keys: int, groups: int = HEADS, value_width: int = WIDTH + 4) -> list[Tensor]:
    torch.manual_seed(0)
    q, k = torch.randn(BATCH, HEADS, queries, WIDTH), torch.randn(BATCH, groups, keys, WIDTH)
    return [q, k, torch.randn(BATCH, groups, keys, value_width)]


def to_device(x: Any) -> Any:
    return x.to("sim") if isinstance(x, Tensor) else x


def results(kind: str, q: Tensor, k: Tensor, v: Tensor, mask: Any, bias: Any) -> list[Tensor]:
    """Return output, log-sum-exp or weights, and gradients, as `kind` says."""
    gradients = "gradient" in kind
    q, k, v = (x.detach().requires_grad_(gradients) for x in (q, k, v))
    if "lse" in kind:
        tensors = list(regard.attend_with_lse(q, k, v, mask, bias=bias))
    elif kind == "weights":
        tensors = list(regard.attend(q, k, v, mask, bias=bias, weights=True))
    else:
        tensors = [regard.attend(q, k, v, mask, bias=bias)]
    if gradients:
        finite = tensors[-1].masked_fill(tensors[-1].isneginf(), 0.0)
        loss = (tensors[0] ** 2).sum() + (finite.sin().sum() if "lse" in kind else 0)
        tensors += torch.autograd.grad(loss, [q, k, v])
    return [x.detach() for x in tensors]


@pytest.mark.parametrize(
    ("name", "bias_name"),
    [(name, "no bias") for name in MASKS]
    + [(name, bias) for bias in BIASES for name in ("causal", "real keys", "rule")],
)
def test_attend_gives_the_same_results_as_on_the_cpu(name: str, bias_name: str) -> None:
    for queries, keys, groups in ((150, 150, 2), (9, 130, 4)):
        tensors, mask = inputs(queries, keys, groups), mask_of(name, queries, keys)
        bias = BIASES[bias_name](queries, keys)
        for kind in ("output", "gradient", "lse", "lse and gradient", "weights"):
            expected = results(kind, *tensors, mask, bias)
            with simulated(float64=False) as device:
                on_device = [to_device(x) for x in (*tensors, mask, bias)]
                device.syncs = 0
                found = results(kind, *on_device)
                assert device.syncs == 0, (kind, device.places)
                found = [x.cpu() for x in found]
            for x, y in zip(found, expected, strict=True):
                torch.testing.assert_close(x, y, atol=2e-5, rtol=1e-4, msg=lambda m, k=kind: f"{k}: {m}")


@pytest.mark.parametrize("kind", ["output", "lse and gradient", "dropout"])
@pytest.mark.parametrize(
    ("name", "bias_name"),
    [(name, "no bias") for name in ("none", "window", "real keys", "documents", "rule")] + [("causal", "alibi")],
)
def test_no_buffer_grows_with_the_square_of_the_length(name: str, bias_name: str, kind: str) -> None:
    largest = []
    for length in (512, 1024):
        with simulated() as device:
            q, k, v = (x.to("sim") for x in inputs(length, length, 2, WIDTH))
            device.largest = 0
            mask, bias = mask_of(name, length, length), BIASES[bias_name](length, length)
            if kind == "dropout":
                regard.attend(q, k, v, mask, bias=bias, dropout=0.1)
            else:
                results(kind, q, k, v, mask, bias)
            largest.append(device.largest)
            assert device.largest < BATCH * HEADS * length**2 / 4, device.largest_from
    assert largest[1] <= 2.2 * largest[0], device.largest_from


def test_a_tensor_mask_of_the_device_is_not_copied() -> None:
    length = 512
    with simulated() as device:
        q, k, v = (x.to("sim") for x in inputs(length, length, 2, WIDTH))
        visible = to_device(torch.rand(length, length) > 0.5)
        device.largest = 0
        regard.attend(q, k, v, visible)
        assert device.largest < length**2, device.largest_from


def test_half_precision() -> None:
    tensors, mask = [x.bfloat16() for x in inputs(70, 70, 2)], masks.window(keys=9)
    out, lse = regard.attend_with_lse(*tensors, mask)
    with simulated():
        found, found_lse = (x.cpu() for x in regard.attend_with_lse(*(x.to("sim") for x in tensors), mask))
    assert found.dtype == torch.bfloat16
    assert found_lse.dtype == torch.float32
    torch.testing.assert_close(found, out, atol=2e-2, rtol=2e-2)
    torch.testing.assert_close(found_lse, lse, atol=1e-3, rtol=1e-3)


def test_gradient_of_a_bias() -> None:
    tensors, mask, bias = inputs(40, 40, 2), masks.causal(), torch.randn(HEADS, 40, 40)

    def gradient(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, lse: bool) -> Tensor:
        bias = bias.detach().requires_grad_()
        result = regard.attend_with_lse(q, k, v, mask, bias=bias) if lse else (regard.attend(q, k, v, mask, bias=bias),)
        return torch.autograd.grad(sum((x**2).sum() for x in result), bias)[0]

    for lse in (False, True):
        expected = gradient(*tensors, bias, lse)
        with simulated(float64=False):
            found = gradient(*(x.to("sim") for x in (*tensors, bias)), lse).cpu()
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_second_derivatives() -> None:
    tensors = [x.double() for x in inputs(5, 5, 2, WIDTH)]

    def second(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q = q.detach().requires_grad_()
        lse = regard.attend_with_lse(q, k, v, masks.causal()).lse
        (first,) = torch.autograd.grad((lse**2).sum(), q, create_graph=True)
        return torch.autograd.grad((first**2).sum(), q)[0]

    expected = second(*tensors)
    with simulated():
        found = second(*(x.to("sim") for x in tensors)).cpu()
    torch.testing.assert_close(found, expected)


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "plain": lambda: regard.nn.MultiHeadAttention(16, 4),
    "grouped, rotary, causal": lambda: regard.nn.MultiHeadAttention(16, 4, 2, rotary=True, causal=True),
    "sinks, causal": lambda: regard.nn.MultiHeadAttention(16, 4, 2, sinks=True, causal=True),
    "alibi, norm": lambda: regard.nn.MultiHeadAttention(16, 4, alibi=True, qk_norm=True, causal=True),
    "one head": lambda: regard.nn.SelfAttention(16, 8),
    "bare": lambda: regard.attention.layers.self_attention.BareSelfAttention(16, 8),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_and_their_gradients(name: str) -> None:
    torch.manual_seed(0)
    layer, x = LAYERS[name](), torch.randn(2, 11, 16)
    out = layer(x)
    expected = torch.autograd.grad((out**2).sum(), list(layer.parameters()))
    with simulated(float64=False) as device:
        layer.to("sim")
        moved = x.to("sim")
        device.syncs = 0
        found = layer(moved)
        gradients = torch.autograd.grad((found**2).sum(), list(layer.parameters()))
        assert device.syncs == 0, device.places
        found, gradients = found.detach().cpu(), [g.cpu() for g in gradients]
    torch.testing.assert_close(found, out.detach(), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(gradients, list(expected), atol=1e-4, rtol=1e-4)


def test_spatial_attention() -> None:
    torch.manual_seed(0)
    layer, x = regard.nn.SpatialSelfAttention(16, 4), torch.randn(2, 16, 3, 5)
    expected = [y.detach() for y in layer(x, weights=True)]
    with simulated(float64=False):
        found = [y.detach().cpu() for y in layer.to("sim")(x.to("sim"), weights=True)]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


CACHES: dict[str, Callable[[Any], Any]] = {
    "growing": lambda device: regard.nn.GrowingCache(capacity=2),
    "fixed": lambda device: regard.nn.KVCache(2, 2, 12, 4, device=device),
    "sliding": lambda device: regard.nn.SlidingCache(window=3, first=1),
}


@pytest.mark.parametrize("sinks", [False, True])
@pytest.mark.parametrize("name", CACHES)
def test_decoding_with_a_cache(name: str, sinks: bool) -> None:
    torch.manual_seed(0)
    layer = regard.nn.MultiHeadAttention(16, 4, 2, causal=True, rotary=True, sinks=sinks)
    x = torch.randn(2, 9, 16)

    def decode(x: Tensor) -> Tensor:
        cache = CACHES[name](x.device)
        steps = [layer(x[:, :4], cache=cache)]
        steps += [layer(x[:, n : n + 1], cache=cache) for n in range(4, 9)]
        return torch.cat(steps, 1)

    with torch.no_grad():
        expected = decode(x)
        with simulated(float64=False) as device:
            layer.to("sim")
            moved = x.to("sim")
            device.syncs = 0
            found = decode(moved)
            assert device.syncs == 0, device.places
            found = found.cpu()
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_keys_in_pieces() -> None:
    q, k, v = inputs(40, 100, 2, WIDTH)
    expected = regard.attend(q, k, v, masks.causal())
    with simulated(float64=False):
        q, k, v = (x.to("sim") for x in (q, k, v))
        stream = regard.attention.Stream(q, mask=masks.causal(), keys=100)
        for start in range(0, 100, 30):
            stream.feed(k[:, :, start : start + 30], v[:, :, start : start + 30])
        found = stream.output.cpu()
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_torch_compat_layer() -> None:
    torch.manual_seed(0)
    layer, x = regard.compat.MultiheadAttention(16, 4, batch_first=True), torch.randn(2, 7, 16)
    padding = torch.arange(7) >= torch.tensor([7, 4])[:, None]
    expected = [y.detach() for y in layer(x, x, x, key_padding_mask=padding)]
    with simulated(float64=False):
        x, padding = x.to("sim"), padding.to("sim")
        found = [y.detach().cpu() for y in layer.to("sim")(x, x, x, key_padding_mask=padding)]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


# torch's fused operators of CUDA, which cannot run here: how one is chosen, and what is passed to it


def simulate_cuda(monkeypatch: pytest.MonkeyPatch, *usable: str) -> list[str]:
    """Make the operators of CUDA available on the simulated device; return the list of calls."""
    calls: list[str] = []
    monkeypatch.setattr(operators, "FUSED_DEVICES", {"sim"})
    monkeypatch.setattr(torch.version, "hip", None)
    for name in ("flash", "efficient", "cudnn"):
        monkeypatch.setattr(torch.backends.cuda, f"can_use_{name}_attention", lambda _, n=name: n in usable)
        monkeypatch.setattr(
            torch.ops.aten, f"_scaled_dot_product_{name}_attention", partial(_operator, name, calls), raising=False
        )
    return calls


def _operator(name: str, calls: list[str], q: Tensor, k: Tensor, v: Tensor, *rest: Any, scale: float) -> Any:
    """Compute what an operator of CUDA returns; check what it requires."""
    calls.append(name)
    mask, causal = (None, rest[1]) if name == "flash" else (rest[0], rest[3])
    assert q.shape[-1] % 8 == 0
    assert name == "flash" or q.shape[1] == k.shape[1]
    if mask is not None:
        assert mask.shape == (*q.shape[:3], k.shape[2])
        assert mask.stride(-2) % 16 == 0
    if causal:
        assert q.shape[2] == k.shape[2]
    plain = [None if x is None else x.cpu() for x in (q, k, v, mask)]
    out, lse = device_kernel.forward(*plain[:3], 0.0, causal, attn_mask=plain[3], scale=scale)
    if mask is not None:  # a kernel may return NaN for a row that sees nothing
        empty = plain[3].isneginf().all(-1)
        out, lse = out.masked_fill(empty[..., None], float("nan")), lse.masked_fill(empty, float("nan"))
    if name == "efficient":
        lse = torch.nn.functional.pad(lse, (0, -lse.shape[-1] % 32), value=float("nan"))
    elif name == "cudnn":
        lse = lse[..., None]
    return out.to("sim"), lse.to("sim")


@pytest.mark.parametrize(
    ("mask", "usable", "used"),
    [
        (None, ("flash", "efficient", "cudnn"), {"flash"}),
        (None, ("efficient", "cudnn"), {"efficient"}),
        (None, ("cudnn",), {"cudnn"}),
        (None, (), set()),
        (masks.causal(), ("flash", "efficient"), {"flash"}),
        (masks.window(keys=9), ("flash", "efficient"), {"efficient"}),
        (masks.prefix(9) & ~masks.window(keys=3), ("flash", "efficient"), {"flash", "efficient"}),  # has empty rows
        (masks.padding([3, 70]), ("cudnn",), {"cudnn"}),
    ],
)
def test_log_sum_exp_from_the_operators_of_cuda(
    monkeypatch: pytest.MonkeyPatch, mask: Any, usable: tuple[str, ...], used: set[str]
) -> None:
    q, k, v = inputs(70, 70, 2, 5)
    expected = results("lse and gradient", q, k, v, mask, None)
    with simulated():
        tensors = [x.to("sim") for x in (q, k, v)]
        calls = simulate_cuda(monkeypatch, *usable)
        found = [x.cpu() for x in results("lse and gradient", *tensors, mask, None)]
    assert set(calls) == used
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)


def test_operators_of_cuda_have_the_shapes_that_are_expected() -> None:
    q = torch.empty(2, 4, 33, 16, dtype=torch.float16, device="meta")
    aten = torch.ops.aten
    flash = aten._scaled_dot_product_flash_attention(q, q, q, 0.0, True, False, scale=1.0)
    efficient = aten._scaled_dot_product_efficient_attention(q, q, q, None, True, 0.0, True, scale=1.0)
    cudnn = aten._scaled_dot_product_cudnn_attention(q, q, q, None, True, 0.0, True, False, scale=1.0)
    assert [x[0].shape for x in (flash, efficient, cudnn)] == [q.shape] * 3
    assert [tuple(x[1].shape) for x in (flash, efficient, cudnn)] == [(2, 4, 33), (2, 4, 64), (2, 4, 33, 1)]
    assert {x[1].dtype for x in (flash, efficient, cudnn)} == {torch.float32}
