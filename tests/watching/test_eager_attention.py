"""Attention written with torch functions is followed from the softmax to the product with values, in every form."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regard

B, H, L, D_K = 3, 4, 6, 8
D = H * D_K
X = torch.randn(B, L, D, generator=torch.Generator().manual_seed(0))
HIDDEN = torch.ones(L, L, dtype=torch.bool).triu(1)


class Layer(nn.Module):
    """Projections and other parameters that the forms of attention below use; `weights` are what a form used."""

    num_heads = H

    def __init__(self, form: Callable[["Layer", Tensor], Tensor]) -> None:
        super().__init__()
        self.form, self.weights = form, []
        self.q, self.k, self.v, self.o = (nn.Linear(D, D) for _ in range(4))
        self.mix, self.sink, self.slots = (nn.Parameter(torch.randn(shape)) for shape in ((H, H), (H,), (D, 5)))
        self.mix_heads, self.gate, self.to_one, self.energy = (
            nn.Linear(H, H),
            nn.Linear(D, 4),
            nn.Linear(D, 1),
            nn.Linear(D_K, 1),
        )
        self.experts, self.table = nn.ModuleList(nn.Linear(D, D) for _ in range(4)), nn.Embedding(50, D)
        self.head = nn.Linear(D, 50)

    def forward(self, x: Tensor) -> Tensor:
        return self.form(self, x)

    def qkv(self, x: Tensor) -> list[Tensor]:
        return [f(x).unflatten(-1, (H, D_K)).transpose(1, 2) for f in (self.q, self.k, self.v)]

    def merge(self, out: Tensor) -> Tensor:
        return self.o(out.transpose(1, 2).flatten(2))

    def used(self, weights: Tensor) -> Tensor:
        """Remember the weights (B, H, L, S) that the recording must contain."""
        self.weights.append(weights.detach().clone())
        return weights


def product(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    return layer.merge(layer.used((q @ k.mT / D_K**0.5).softmax(-1)) @ v)


def einsum(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    weights = layer.used(torch.einsum("...qd,...kd->...qk", [q, k]).softmax(-1))
    return layer.merge(torch.einsum("bhqk, bhkd -> bhqd", weights, v))


def heads_after_queries(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = (f(x).unflatten(-1, (H, D_K)) for f in (layer.q, layer.k, layer.v))
    weights = torch.einsum("blhd,bshd->blhs", q, k).softmax(-1)
    layer.used(weights.transpose(1, 2))
    return layer.o(torch.einsum("blhs,bshd->blhd", weights, v).flatten(2))


def shared_values(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    weights = layer.used(torch.einsum("bhqd,bkd->bhqk", q, k[:, 0]).softmax(-1))
    return layer.merge(torch.einsum("bhqk,bkd->bhqd", weights, v[:, 0]))


def values_first(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    return layer.merge((v.mT @ layer.used((q @ k.mT).softmax(-1)).mT).mT)


def softmax_over_rows(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    weights = (k @ q.mT).softmax(-2)
    layer.used(weights.mT)
    return layer.merge(weights.mT @ v)


def batch_before_heads_in_one_axis(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = (y.flatten(0, 1) for y in layer.qkv(x))
    weights = torch.baddbmm(torch.zeros(B * H, L, L), q, k.mT, alpha=0.3).softmax(-1)
    layer.used(weights.unflatten(0, (B, H)))
    return layer.merge(torch.bmm(weights, v).view(B, H, L, D_K))


def heads_before_batch_in_one_axis(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = (torch.cat(f(x).chunk(H, -1), 0) for f in (layer.q, layer.k, layer.v))
    weights = torch.bmm(q, k.mT).softmax(-1)
    layer.used(weights.unflatten(0, (H, B)).transpose(0, 1))
    return layer.o(torch.cat(torch.bmm(weights, v).chunk(H, 0), -1))


def fused_with_one_axis(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = (y.flatten(0, 1) for y in layer.qkv(x))
    with torch._C.DisableTorchFunction():  # not to be seen
        layer.used((q @ k.mT / D_K**0.5).softmax(-1).unflatten(0, (B, H)))
    return layer.merge(F.scaled_dot_product_attention(q, k, v).view(B, H, L, D_K))


def fused_with_one_query_batch(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    with torch._C.DisableTorchFunction():
        layer.used((q[:1] @ k.mT / D_K**0.5).softmax(-1))
    return layer.merge(F.scaled_dot_product_attention(q[:1], k, v))


def exponentials_by_hand(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    scores = q @ k.mT
    e = (scores - scores.amax(-1, keepdim=True)).exp()
    return layer.merge(layer.used(e / e.sum(-1, keepdim=True)) @ v)


def division_after_the_product(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    e = (q @ k.mT * 0.1).exp()
    out = layer.merge((e @ v) / e.sum(-1, keepdim=True))
    with torch._C.DisableTorchFunction():
        layer.used(e / e.sum(-1, keepdim=True))
    return out


def softmax_plus_one(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    e = (q @ k.mT * 0.1).exp()
    return layer.merge(layer.used(e / (1 + e.sum(-1, keepdim=True))) @ v)


def log_softmax(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    return layer.merge(layer.used(F.log_softmax(q @ k.mT, -1).exp()) @ v)


def log_sum_exp(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    scores = q @ k.mT
    return layer.merge(layer.used((scores - scores.logsumexp(-1, keepdim=True)).exp()) @ v)


def elementwise(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    weights = layer.used((q[:, :, :, None] * k[:, :, None]).sum(-1).softmax(-1))
    return layer.merge((weights[..., None] * v[:, :, None]).sum(-2))


def sinks(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    scores = torch.cat([q @ k.mT, layer.sink.view(1, H, 1, 1).expand(B, H, L, 1)], -1)
    return layer.merge(layer.used(scores.softmax(-1)[..., :-1]) @ v)


def mixed_heads(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    return layer.merge(layer.used(torch.einsum("bhqk,gh->bgqk", (q @ k.mT).softmax(-1), layer.mix)) @ v)


def heads_mixed_before_and_after(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    scores = layer.mix_heads((q @ k.mT).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
    return layer.merge(layer.used(layer.mix_heads(scores.softmax(-1).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)) @ v)


def head_mask(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    return layer.merge(layer.used((q @ k.mT).softmax(-1) * torch.tensor([1.0, 0, 1, 1]).view(1, H, 1, 1)) @ v)


def masked_and_normalized_again(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    weights = (q @ k.mT).softmax(-1).masked_fill(HIDDEN, 0)
    weights = layer.used(weights / weights.sum(-1, keepdim=True))
    return layer.merge(weights.clone().double().float() @ v)


def dropout(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    return layer.merge(F.dropout(layer.used((q @ k.mT).softmax(-1)), 0.5, True).contiguous() @ v)


def two_softmaxes_before_the_products(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    first, second = layer.used((q @ k.mT).softmax(-1)), layer.used((k @ q.mT).softmax(-1))
    return layer.merge(first @ v) + layer.merge(second @ v)


def additive(layer: Layer, x: Tensor) -> Tensor:
    q, k, _ = layer.qkv(x)
    weights = layer.energy(torch.tanh(q[:, 0, :, None] + k[:, 0, None])).squeeze(-1).softmax(-1)
    layer.used(weights[:, None])
    return torch.bmm(weights, x)


def pooling(layer: Layer, x: Tensor) -> Tensor:
    weights = layer.to_one(x).squeeze(-1).softmax(-1)
    layer.used(weights[:, None, None])
    return (weights[..., None] * x).sum(1)


ATTENTION = [
    product, einsum, heads_after_queries, shared_values, values_first, softmax_over_rows,
    batch_before_heads_in_one_axis, heads_before_batch_in_one_axis, fused_with_one_axis,
    fused_with_one_query_batch, exponentials_by_hand,
    division_after_the_product, softmax_plus_one, log_softmax, log_sum_exp, elementwise, sinks, mixed_heads,
    heads_mixed_before_and_after, head_mask, masked_and_normalized_again, dropout, two_softmaxes_before_the_products,
    additive, pooling,
]  # fmt: skip


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
@pytest.mark.parametrize("form", ATTENTION)
def test_recorded_weights_are_those_multiplied_with_values(form: Callable, mode: Callable) -> None:
    layer = Layer(form).eval()
    with mode(), regard.watch(layer) as seen:
        layer(X)
    assert [call.shape for call in seen.calls] == [tuple(weights.shape) for weights in layer.weights]
    for call, weights in zip(seen.calls, layer.weights, strict=True):
        torch.testing.assert_close(call.weights(), weights, atol=1e-6, rtol=1e-5)
        assert not call.folded
    assert not seen.unseen


def soft_lookup(layer: Layer, x: Tensor) -> Tensor:
    return layer.head(x).softmax(-1) @ layer.table.weight


def experts(layer: Layer, x: Tensor) -> Tensor:
    return torch.einsum("ble,bled->bld", layer.gate(x).softmax(-1), torch.stack([f(x) for f in layer.experts], 2))


def linear_attention(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    return layer.merge(q.softmax(-1) @ (k.softmax(-2).mT @ v))


def kernel_attention(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    q, k = q.exp(), k.exp()
    return layer.merge(q @ (k.mT @ v) / (q @ k.sum(-2)[..., None]))


def soft_experts(layer: Layer, x: Tensor) -> Tensor:
    scores = x @ layer.slots
    return scores.softmax(-1) @ (scores.softmax(1).mT @ x)


@pytest.mark.parametrize("form", [soft_lookup, experts, linear_attention, kernel_attention, soft_experts])
def test_other_softmaxes_are_not_attention(form: Callable) -> None:
    layer = Layer(form).eval()
    with torch.no_grad(), regard.watch(layer) as seen:
        layer(X)
    assert not seen.calls
    assert not seen.unseen


def landmarks(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    some_q, some_k = q[:, :, ::3], k[:, :, ::3]
    first, middle, last = ((a @ b.mT).softmax(-1) for a, b in ((q, some_k), (some_q, some_k), (some_q, k)))
    return layer.merge((first @ torch.linalg.pinv(middle)) @ (last @ v))


def blocks(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    weights = (q @ k.mT).softmax(-1)
    return layer.merge(weights[..., :3] @ v[:, :, :3] + weights[..., 3:] @ v[:, :, 3:])


def wrong_axis(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    return layer.merge((q @ k.mT).softmax(-2) @ v)


@pytest.mark.parametrize(
    ("form", "reason"), [(landmarks, "several softmaxes"), (blocks, "in pieces"), (wrong_axis, "not multiplied")]
)
def test_what_is_not_recorded_is_reported(form: Callable, reason: str) -> None:
    layer = Layer(form).eval()
    with torch.no_grad(), regard.watch(layer) as seen:
        layer(X)
    assert not seen.calls
    assert len(seen.unseen) == 1
    assert reason in seen.unseen[0].reason


def test_other_models_are_reported_and_not_recorded() -> None:
    layer, other = Layer(product).eval(), nn.MultiheadAttention(D, H, batch_first=True)
    with torch.no_grad(), regard.watch(layer) as seen:
        layer(X)
        other(X, X, X)
    assert len(seen.calls) == 1
    assert [unseen.module for unseen in seen.unseen] == ["MultiheadAttention"]
