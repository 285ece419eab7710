"""Attention written with torch functions is followed from the softmax to the product with values, in every form."""

import warnings
import weakref
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
        self.head, self.seeds = nn.Linear(D, 50), nn.Parameter(torch.randn(3, D_K))

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


def where_mask(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    scores = torch.where(HIDDEN, torch.tensor(float("-inf")), torch.inner(q[0, 0], k[0, 0])[None, None] * 0.3)
    weights = layer.used(F.softmax(scores, dim=-1, dtype=torch.float64).to(v.dtype))
    return weights @ v[:1, :1]


def in_place(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = (y.detach() for y in layer.qkv(x))
    scores = torch.empty(B * H, L, L)
    torch.bmm(q.flatten(0, 1), k.flatten(0, 1).mT, out=scores)
    scores.div_(D_K**0.5).add_(torch.zeros(L)).masked_fill_(HIDDEN, float("-inf"))
    scores[:, 0, 0] = 1.0
    torch.softmax(scores, -1, out=scores)
    layer.used(scores.unflatten(0, (B, H)))
    return layer.merge(torch.bmm(scores, v.flatten(0, 1)).view(B, H, L, D_K))


def exponentials_in_place(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    scores = q @ k.mT
    scores -= scores.max(-1, keepdim=True)[0]
    scores.exp_()
    scores *= (~HIDDEN).float()
    scores /= scores.sum(-1, keepdim=True)
    return layer.merge(layer.used(scores) @ v)


def reciprocal_of_the_sum(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    e = torch.exp(q @ k.mT)
    return layer.merge(layer.used(e * e.sum(-1, keepdim=True).reciprocal()) @ v)


def one_over_the_sum(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    e = torch.exp(q @ k.mT)
    return layer.merge(layer.used(e * (1 / e.sum(-1, keepdim=True))) @ v)


def normalized_exponentials(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    return layer.merge(layer.used(F.normalize((q @ k.mT).exp(), p=1, dim=-1)) @ v)


def powers_of_two(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    e = torch.exp2(q @ k.mT * 1.44)
    return layer.merge(layer.used(e / e.sum(-1, keepdim=True)) @ v)


def minimum(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    return layer.merge(layer.used(F.softmin(-(q @ k.mT), dim=-1)) @ v)


def cosine(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * layer.sink.exp().view(H, 1, 1)
    return layer.merge(layer.used(scores.softmax(-1)) @ v)


def queries_in_chunks(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    return layer.merge(torch.cat([layer.used((part @ k.mT).softmax(-1)) @ v for part in q.split(2, 2)], 2))


def heads_in_a_loop(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    out = torch.empty_like(q)
    for h in range(H):
        weights = (q[:, h] @ k[:, h].mT).softmax(-1)
        layer.used(weights[:, None])
        out[:, h] = weights @ v[:, h]
    return layer.merge(out)


def stacked_heads(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    weights = layer.used(torch.stack([(q[:, h] @ k[:, h].mT).softmax(-1) for h in range(H)], 1))
    return layer.merge(weights @ v)


def scores_in_a_buffer(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    scores = torch.full((B, H, L, L), float("-inf"))
    for i in range(L):
        scores[:, :, i, : i + 1] = (q[:, :, i, None] @ k[:, :, : i + 1].mT)[:, :, 0]
    return layer.merge(layer.used(scores.softmax(-1)) @ v)


def weights_in_a_buffer(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    weights = torch.zeros(B, H, L, L)
    for h in range(H):
        weights[:, h] = (q[:, h] @ k[:, h].mT).softmax(-1)
    return layer.merge(layer.used(weights) @ v)


def selected_keys_put_back(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    best, index = (q @ k.mT).topk(3, -1)
    weights = torch.zeros(B, H, L, L).scatter(-1, index, best.softmax(-1))
    return layer.merge(layer.used(weights) @ v)


def heads_mixed_by_convolution(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    scores = F.conv2d(q @ k.mT, layer.mix[:, :, None, None])
    return layer.merge(layer.used(F.conv2d(scores.softmax(-1), layer.mix[:, :, None, None])) @ v)


def shifted_relative_positions(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    relative = q @ layer.k(layer.table.weight[:L]).view(1, L, H, D_K).transpose(1, 2).mT
    relative = F.pad(relative, (1, 0)).view(B, H, L + 1, L)[:, :, 1:].reshape(B, H, L, L)
    return layer.merge(layer.used((q @ k.mT + relative).softmax(-1)) @ v)


def relative_values(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    index = (torch.arange(L)[:, None] - torch.arange(L)).clamp(-3, 3) + 3
    near = layer.table(index)[..., :D_K]  # (L, S, d)
    scores = q @ k.mT + torch.einsum("bhqd,qkd->bhqk", q, near)
    weights = layer.used(scores.softmax(-1))
    return layer.merge(weights @ v + torch.einsum("bhqk,qkd->bhqd", weights, near))


def relative_values_first(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    near = layer.table((torch.arange(L)[:, None] - torch.arange(L)).abs())[..., :D_K]
    weights = layer.used((q @ k.mT).softmax(-1))
    return layer.merge(torch.einsum("bhqk,qkd->bhqd", weights, near) + weights @ v)


def windows(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = (y.unflatten(2, (2, 3)) for y in layer.qkv(x))  # (B, H, windows, 3, d)
    weights = (q @ k.mT).softmax(-1)
    layer.used(weights.transpose(1, 2).flatten(0, 1))
    return layer.merge((weights @ v).flatten(2, 3))


def windows_before_heads(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = (f(x).view(B * 2, 3, H, D_K).transpose(1, 2) for f in (layer.q, layer.k, layer.v))
    return layer.o((layer.used((q @ k.mT).softmax(-1)) @ v).transpose(1, 2).reshape(B, L, D))


def axial(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = (y.view(B, H, 2, 3, D_K).transpose(2, 3) for y in layer.qkv(x))
    weights = torch.einsum("bhwid,bhwjd->bhwij", q, k).softmax(-1)
    layer.used(weights.transpose(1, 2).flatten(0, 1))
    return layer.merge(torch.einsum("bhwij,bhwjd->bhwid", weights, v).transpose(2, 3).flatten(2, 3))


def one_head_of_keys(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    weights = torch.einsum("blhd,bsd->blhs", q.transpose(1, 2), k[:, 0]).softmax(-1)
    layer.used(weights.transpose(1, 2))
    return layer.o(torch.einsum("blhs,bsd->blhd", weights, v[:, 0]).flatten(2))


def groups_of_heads(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    weights = (q.unflatten(1, (2, 2)) @ k[:, :2, None].mT).softmax(-1)  # (B, 2, 2, L, S)
    layer.used(weights.flatten(1, 2))
    return layer.merge((weights @ v[:, :2, None]).flatten(1, 2))


def groups_after_queries(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = (y.transpose(1, 2) for y in layer.qkv(x))
    weights = torch.einsum("bqghd,bkgd->bqghk", q.unflatten(2, (2, 2)), k[:, :, :2]).softmax(-1)
    layer.used(weights.flatten(2, 3).transpose(1, 2))
    return layer.o(torch.einsum("bqghk,bkgd->bqghd", weights, v[:, :, :2]).flatten(2))


def heads_before_batch(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = (y.transpose(0, 1) for y in layer.qkv(x))
    weights = (q @ k.mT).softmax(-1)
    layer.used(weights.transpose(0, 1))
    return layer.merge((weights @ v).transpose(0, 1))


def output_projection_in_the_product(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    weights = layer.used((q @ k.mT).softmax(-1))
    return torch.einsum("bhqk,bhkd,hdo->bqo", weights, v, layer.o.weight.view(H, D_K, D))


def several_learned_queries(layer: Layer, x: Tensor) -> Tensor:
    _, k, v = layer.qkv(x)
    weights = torch.einsum("nd,bhsd->bhns", layer.seeds, k).softmax(-1)
    layer.used(weights)
    return layer.merge(weights @ v)


def projected_learned_queries(layer: Layer, x: Tensor) -> Tensor:
    _, k, v = layer.qkv(x)
    q = layer.q(layer.slots.mT).view(1, 5, H, D_K).transpose(1, 2)
    return layer.merge(layer.used((q @ k.mT).softmax(-1)) @ v)


def pooling_heads(layer: Layer, x: Tensor) -> Tensor:
    weights = layer.gate(x).softmax(1)  # (B, S, H)
    layer.used(weights.mT[:, :, None])
    return torch.einsum("bsh,bshd->bhd", weights, layer.v(x).unflatten(-1, (H, D_K))).flatten(1)


def expanded_pooling(layer: Layer, x: Tensor) -> Tensor:
    weights = layer.to_one(x).softmax(1)
    layer.used(weights.mT[:, None])
    return (weights.expand_as(x) * x).sum(dim=1)


def learned_keys(layer: Layer, x: Tensor) -> Tensor:
    q = layer.qkv(x)[0]
    k, v = (f(layer.slots.mT).view(1, 5, H, D_K).transpose(1, 2) for f in (layer.k, layer.v))
    return layer.merge(layer.used((q @ k.mT).softmax(-1)) @ v)


def gated(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    return layer.merge((layer.used((q @ k.mT).softmax(-1)) @ v) * v.sigmoid())


def differential(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    first, second = ((a @ b.mT).softmax(-1) for a, b in zip(q.chunk(2, -1), k.chunk(2, -1), strict=True))
    return layer.merge(layer.used(first - layer.sink.view(H, 1, 1) * second) @ v)


def slots(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    weights = (q[:, :, :4] @ k.mT).softmax(-2) + 1e-8
    weights = layer.used(weights / weights.sum(-1, keepdim=True))
    return layer.merge(weights @ v)


def memory_tokens(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    memory = layer.slots.mT.view(1, 5, H, D_K).transpose(1, 2).expand(B, -1, -1, -1)
    k, v = torch.cat([memory, k], 2), torch.cat([memory, v], 2)
    return layer.merge(layer.used((q @ k.mT).softmax(-1)) @ v)


def implicit_axis(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = (y.flatten(0, 1) for y in layer.qkv(x))
    weights = (k @ q.mT).permute(1, 0, 2).softmax(0).permute(1, 0, 2)
    layer.used(weights.mT.unflatten(0, (B, H)))
    return layer.merge((weights.mT @ v).view(B, H, L, D_K))


def half_precision(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = (y.bfloat16() for y in layer.qkv(x))
    weights = (q @ k.mT).float().softmax(-1).to(v.dtype)
    layer.used(weights.float())
    return layer.merge((weights @ v).float())


def compiled_script(function: Callable) -> Callable:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(function)


def clamp(scores: Tensor) -> Tensor:
    return (scores / 5).tanh() * 5


def scripted_softcap(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    return layer.merge(layer.used(compiled_script(clamp)(q @ k.mT).softmax(-1)) @ v)


def softcap(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    scores = torch.tanh(q @ k.mT / 5) * 5
    return layer.merge(layer.used(scores.masked_fill(HIDDEN, torch.finfo(x.dtype).min).softmax(-1)) @ v)


def distances(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    return layer.merge(layer.used((-(torch.cdist(q, k) ** 2)).softmax(-1)) @ v)


def cosine_similarity(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    return layer.merge(layer.used(F.cosine_similarity(q[:, :, :, None], k[:, :, None], dim=-1).softmax(-1)) @ v)


def vector_products(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    return layer.merge(layer.used(torch.linalg.vecdot(q[:, :, :, None], k[:, :, None]).softmax(-1)) @ v)


def sparse_scores(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = (y[0, 0].detach() for y in layer.qkv(x))
    weights = torch.sparse.softmax((q @ k.T).to_sparse(), -1)
    with torch._C.DisableTorchFunction():
        layer.used(weights.to_dense()[None, None])
    return torch.sparse.mm(weights, v)


def fused_with_groups_of_heads(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    with torch._C.DisableTorchFunction():
        layer.used((q @ k.mT / D_K**0.5).softmax(-1))
    q, k, v = (y.unflatten(1, (2, H // 2)) for y in (q, k, v))
    return layer.merge(F.scaled_dot_product_attention(q, k, v).flatten(1, 2))


class OwnGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, scores: Tensor, values: Tensor) -> Tensor:
        return scores.softmax(-1) @ values


def autograd_function(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    with torch._C.DisableTorchFunction():
        layer.used((q @ k.mT).softmax(-1))
    return layer.merge(OwnGradient.apply(q @ k.mT, v))


def one_key(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = (y[:, :, :1] for y in layer.qkv(x))
    return layer.merge(layer.used((q @ k.mT).softmax(-1)) @ v)


def softmax_plus_one_of_large_scores(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    scores = q @ k.mT
    largest = scores.amax(-1, keepdim=True).clamp_min(0)
    e = (scores - largest).exp()
    return layer.merge(layer.used(e / (e.sum(-1, keepdim=True) + (-largest).exp())) @ v)


def powers_of_a_number(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    e = 3.0 ** (q @ k.mT * 0.1)
    first = e / e.sum(-1, keepdim=True)
    e = torch.pow(2, q @ k.mT * 0.1)
    return layer.merge(layer.used(first) @ v + layer.used(e / e.sum(-1, keepdim=True)) @ v)


def sum_by_einsum(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    e = (q @ k.mT * 0.1).exp()
    out = torch.einsum("bhij,bhjd->bhid", e, v) / torch.einsum("bhij->bhi", e)[..., None]
    with torch._C.DisableTorchFunction():
        layer.used(e / e.sum(-1, keepdim=True))
    return layer.merge(out)


def mixed_heads_normalized(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    weights = torch.einsum("bhij,hg->bijg", (q @ k.mT).softmax(-1), layer.mix)
    return layer.merge(layer.used(F.layer_norm(weights, (H,)).permute(0, 3, 1, 2)) @ v)


def items_in_a_loop(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    out = []
    for item in range(B):
        weights = (q[item] @ k[item].mT).softmax(-1)
        layer.used(weights[None])
        out.append(weights @ v[item])
    return layer.merge(torch.stack(out))


def exponentials_minus_one(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    e = torch.expm1(q @ k.mT * 0.1) + 1
    first = e / e.sum(-1, keepdim=True)
    e = torch.float_power(2.0, q @ k.mT * 0.1).float()
    second = e / e.sum(-1, keepdim=True)
    e = torch.full((L, L), 2.0) ** (q @ k.mT * 0.1)
    third = e / e.sum(-1, keepdim=True)
    return layer.merge(sum(layer.used(weights) @ v for weights in (first, second, third)))


def sums_in_other_forms(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    e = (q @ k.mT * 0.1).exp()
    sums = (
        e.norm(p=1, dim=-1, keepdim=True), e.cumsum(-1)[..., -1:], e.mean(-1, keepdim=True) * L,
        e @ torch.ones(L, 1), e.sum(-1, keepdim=True).expand_as(e),
    )  # fmt: skip
    out = sum(layer.used(e / total) @ v for total in sums)
    out = out + layer.used(torch.addcdiv(torch.zeros_like(e), e, e.sum(-1, keepdim=True))) @ v
    out = out + layer.used(e * e.sum(-1, keepdim=True) ** -1) @ v
    return layer.merge(out + layer.used(e.clone().true_divide_(e.sum(-1, keepdim=True))) @ v)


def log_sum_exp_by_hand(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    scores = q @ k.mT
    largest = scores.amax(-1, keepdim=True)
    first = (scores - (largest + (scores - largest).exp().sum(-1, keepdim=True).log())).exp()
    total = scores[..., :1]
    for j in range(1, L):
        total = torch.logaddexp(total, scores[..., j : j + 1])
    return layer.merge(layer.used(first) @ v + layer.used((scores - total).exp()) @ v)


def divided_elementwise_product(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    e = (q @ k.mT * 0.1).exp()
    out = (e[..., None] * v[:, :, None]).sum(-2) / e.sum(-1, keepdim=True)
    with torch._C.DisableTorchFunction():
        layer.used(e / e.sum(-1, keepdim=True))
    normalized = layer.used(e / e.norm(p=1, dim=-1, keepdim=True))
    return layer.merge(out + (normalized[..., None] * v[:, :, None]).sum(-2))


def divided_by_a_power(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    e = (q @ k.mT * 0.1).exp()
    out = (e @ v) * e.sum(-1, keepdim=True).pow(-1) + (e @ v) / (e @ torch.ones(L, 1))
    with torch._C.DisableTorchFunction():
        layer.used(layer.used(e / e.sum(-1, keepdim=True)))
    return layer.merge(out)


def queries_in_a_loop(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    out = []
    for i in range(L):
        weights = (q[:, :, i, None] * k[:, :, : i + 1]).sum(-1).softmax(-1)
        layer.used(weights[:, :, None])
        out.append((weights[..., None] * v[:, :, : i + 1]).sum(2))
    return layer.merge(torch.stack(out, 2))


def pairs_in_a_loop(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = (y[0, 0].detach() for y in layer.qkv(x))
    scores = torch.full((L, L), float("-inf"))
    for i in range(L):
        for j in range(i + 1):
            scores[i, j] = (q[i] * k[j]).sum() if j % 2 else torch.dot(q[i], k[j])
    weights = scores.softmax(-1)
    layer.used(weights[None, None])
    return weights @ v


def differences(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    difference = q[:, :, :, None] - k[:, :, None]
    e = torch.exp(-difference.pow(2).sum(-1))
    out = layer.used(e / e.sum(-1, keepdim=True)) @ v
    return layer.merge(out + layer.used((-difference.norm(dim=-1)).softmax(-1)) @ v)


def additive_with_a_parameter(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = (y[:, 0] for y in layer.qkv(x))
    weights = (torch.tanh(q[:, :, None] + k[:, None]) * layer.seeds[0]).sum(-1).softmax(-1)
    layer.used(weights[:, None])
    return weights @ v


def learned_queries_by_hand(layer: Layer, x: Tensor) -> Tensor:
    _, k, v = layer.qkv(x)
    e = (layer.seeds @ k.mT * 0.1).exp()
    return layer.merge(layer.used(e / e.sum(-1, keepdim=True)) @ v)


def other_functions(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = (y.flatten(0, 1).detach() for y in layer.qkv(x))
    weights = torch.zeros(B * H, L, L).baddbmm_(q, k.mT, alpha=0.2).softmax(-1)
    layer.used(weights.view(B, H, L, L))
    out = torch.bmm(weights, v).view(B, H, L, D_K)
    weights = torch.linalg.multi_dot([q[0], layer.o.weight[:D_K, :D_K], k[0].T]).softmax(-1)
    layer.used(weights[None, None])
    return layer.merge(out) + torch.linalg.multi_dot([weights, v[0], layer.o.weight[:D_K]])


def hopfield(layer: Layer, x: Tensor) -> Tensor:
    state = x
    for _ in range(2):
        weights = (0.1 * state @ x.mT).softmax(-1)
        layer.used(weights[:, None])
        state = weights @ x
    return state


def attention_to_the_output_of_learned_queries(layer: Layer, x: Tensor) -> Tensor:
    weights = (layer.slots.mT @ x.mT).softmax(-1)
    layer.used(weights[:, None])
    points = weights @ x
    weights = (layer.q(x) @ layer.k(points).mT).softmax(-1)
    layer.used(weights[:, None])
    return weights @ points


def recurrent(layer: Layer, x: Tensor) -> Tensor:
    state = x[:, 0]
    for _ in range(3):
        weights = layer.to_one(torch.tanh(layer.q(x) + layer.k(state)[:, None])).squeeze(-1).softmax(-1)
        layer.used(weights[:, None, None])
        state = torch.bmm(weights[:, None], x).squeeze(1)
    return state


def softmax_of_log_weights(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    scores = q @ k.mT
    weights = layer.used((scores - scores.logsumexp(-1, keepdim=True) + torch.linspace(-1, 0, L)).softmax(-1))
    return layer.merge(weights @ v)


def divided_with_queries_first(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = (y.transpose(1, 2) for y in layer.qkv(x))  # (B, L, H, d)
    e = torch.einsum("bqhd,bkhd->bhqk", q, k).mul(0.1).exp()
    with torch._C.DisableTorchFunction():
        layer.used(e / e.sum(-1, keepdim=True))
    out = torch.einsum("bhqk,bkhd->bqhd", e, v) / e.sum(-1).transpose(1, 2)[..., None]
    return layer.o(out.flatten(2))


def heads_by_vmap(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    with torch._C.DisableTorchFunction():
        layer.used((q @ k.mT).softmax(-1))
    return layer.merge(torch.vmap(lambda q, k, v: (q @ k.mT).softmax(-1) @ v, 1, 1)(q, k, v))


ATTENTION = [
    product, einsum, heads_after_queries, shared_values, values_first, softmax_over_rows,
    batch_before_heads_in_one_axis, heads_before_batch_in_one_axis, fused_with_one_axis,
    fused_with_one_query_batch, exponentials_by_hand,
    division_after_the_product, softmax_plus_one, log_softmax, log_sum_exp, elementwise, sinks, mixed_heads,
    heads_mixed_before_and_after, head_mask, masked_and_normalized_again, dropout, two_softmaxes_before_the_products,
    additive, pooling, where_mask, in_place, exponentials_in_place, reciprocal_of_the_sum, one_over_the_sum,
    normalized_exponentials, powers_of_two, minimum, cosine, queries_in_chunks, heads_in_a_loop, stacked_heads,
    scores_in_a_buffer, weights_in_a_buffer, selected_keys_put_back, heads_mixed_by_convolution,
    shifted_relative_positions, relative_values, relative_values_first, windows, windows_before_heads, axial,
    one_head_of_keys, groups_of_heads, groups_after_queries, heads_before_batch,
    output_projection_in_the_product, several_learned_queries,
    projected_learned_queries, pooling_heads, expanded_pooling, learned_keys, gated, differential, slots,
    memory_tokens, implicit_axis, half_precision, softcap, distances, cosine_similarity, vector_products, sparse_scores,
    fused_with_groups_of_heads, autograd_function, one_key, scripted_softcap, softmax_plus_one_of_large_scores,
    powers_of_a_number, sum_by_einsum, mixed_heads_normalized, items_in_a_loop, exponentials_minus_one,
    sums_in_other_forms, log_sum_exp_by_hand, divided_elementwise_product, divided_by_a_power, queries_in_a_loop,
    pairs_in_a_loop, differences, additive_with_a_parameter, learned_queries_by_hand, other_functions, heads_by_vmap,
    hopfield, attention_to_the_output_of_learned_queries, recurrent, softmax_of_log_weights, divided_with_queries_first,
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


def soft_experts_collected_first(layer: Layer, x: Tensor) -> Tensor:
    scores = x @ layer.slots
    collected = scores.softmax(1).mT @ x
    return scores.softmax(-1) @ collected


def small_linear_attention(layer: Layer, x: Tensor) -> Tensor:
    q, k = layer.gate(x), layer.gate(x)
    return q.softmax(-1) @ (k.softmax(1).mT @ layer.v(x))


def codebook(layer: Layer, x: Tensor) -> Tensor:
    return (-torch.cdist(x, layer.table.weight)).softmax(-1) @ layer.table.weight


def cosine_experts(layer: Layer, x: Tensor) -> Tensor:
    scores = F.normalize(x, dim=-1) @ F.normalize(layer.slots, dim=0)
    outputs = torch.stack([f(x) for f in (layer.q, layer.k, layer.v, layer.o, layer.q)], 2)
    return (scores.softmax(-1)[..., None] * outputs).sum(2)


def state_space_duality(layer: Layer, x: Tensor) -> Tensor:
    decay = -F.softplus(layer.to_one(x))[..., 0].cumsum(-1)
    decay = (decay[:, :, None] - decay[:, None]).exp().tril()
    return (layer.q(x) @ layer.k(x).mT * decay) @ x


def experts_by_hand(layer: Layer, x: Tensor) -> Tensor:
    e = layer.gate(x).exp()
    weights = e / e.sum(-1, keepdim=True)
    return torch.einsum("ble,bled->bld", weights, torch.stack([f(x) for f in layer.experts], 2))


def mixed_layers(layer: Layer, x: Tensor) -> Tensor:
    return (layer.sink.softmax(0).view(H, 1, 1, 1) * torch.stack([x] * H)).sum(0)


def sigmoid_attention(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    return layer.merge((q @ k.mT).sigmoid() @ v)


def loss(layer: Layer, x: Tensor) -> Tensor:
    return F.cross_entropy(layer.head(x).flatten(0, 1), torch.zeros(B * L, dtype=torch.long)) + layer.head(
        x
    ).log_softmax(-1)


NOT_ATTENTION = [
    soft_lookup, experts, linear_attention, kernel_attention, soft_experts, soft_experts_collected_first,
    small_linear_attention, codebook, cosine_experts, mixed_layers, sigmoid_attention, experts_by_hand,
    state_space_duality, loss,
]  # fmt: skip


@pytest.mark.parametrize("form", NOT_ATTENTION)
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


def keys_in_chunks(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    largest, total, out = torch.full((B, H, L, 1), -1e9), torch.zeros(B, H, L, 1), torch.zeros_like(v)
    for k_part, v_part in zip(k.split(2, 2), v.split(2, 2), strict=True):
        scores = q @ k_part.mT
        new = torch.maximum(largest, scores.amax(-1, keepdim=True))
        e, factor = (scores - new).exp(), (largest - new).exp()
        out, total, largest = out * factor + e @ v_part, total * factor + e.sum(-1, keepdim=True), new
    return layer.merge(out / total)


def selected_keys(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    best, index = (q @ k.mT).topk(3, -1)
    chosen = v[:, :, None].expand(-1, -1, L, -1, -1).gather(3, index[..., None].expand(-1, -1, -1, -1, D_K))
    return layer.merge(torch.einsum("bhqk,bhqkd->bhqd", best.softmax(-1), chosen))


def selected_keys_of_one_head(layer: Layer, x: Tensor) -> Tensor:
    best, index = (layer.q(x) @ layer.k(x).mT).topk(3, -1)
    chosen = x[torch.arange(B)[:, None, None], index]
    return (best.softmax(-1)[..., None] * chosen).sum(2)


def neighbours(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    k, v = (F.pad(y, (0, 0, 1, 1)).unfold(2, 3, 1) for y in (k, v))  # (B, H, L, d, 3)
    weights = torch.einsum("bhld,bhldk->bhlk", q, k).softmax(-1)
    return layer.merge(torch.einsum("bhlk,bhldk->bhld", weights, v))


def graph(layer: Layer, x: Tensor) -> Tensor:
    source, target = torch.tensor([[0, 1, 2, 3], [1, 1, 0, 2]])
    nodes = x[0]
    e = F.leaky_relu(layer.to_one(nodes[source] + nodes[target])).squeeze(-1).exp()
    total = torch.zeros(L).index_add(0, target, e)
    return torch.zeros_like(nodes).index_add(0, target, (e / total[target])[:, None] * nodes[source])


def dropout_in_place(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    return layer.merge(F.dropout((q @ k.mT).softmax(-1), 0.5, True, inplace=True) @ v)


def two_axes_of_keys(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    weights = (q @ k.mT).softmax(-1).view(B, H, L, 2, 3)
    return layer.merge(torch.einsum("bhqij,bhijd->bhqd", weights, v.view(B, H, 2, 3, D_K)))


def sum_in_a_column_of_ones(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    out = (q @ k.mT * 0.1).exp() @ F.pad(v, (0, 1), value=1.0)
    return layer.merge(out[..., :-1] / out[..., -1:])


@torch.library.custom_op("regard_tests::mix", mutates_args=())
def mix(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT).softmax(-1) @ v


def operator_of_another_library(layer: Layer, x: Tensor) -> Tensor:
    return layer.merge(mix(*layer.qkv(x)))


def scripted(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.transpose(-1, -2), -1) @ v


def script_function(layer: Layer, x: Tensor) -> Tensor:
    return layer.merge(compiled_script(scripted)(*layer.qkv(x)))


def squared_relu_attention(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    scores = (q @ k.mT).relu() ** 2
    return layer.merge(scores / scores.sum(-1, keepdim=True).clamp_min(1e-6) @ v)


def hyperbolic_functions(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    e = (q @ k.mT * 0.1).cosh() + (q @ k.mT * 0.1).sinh()
    return layer.merge(e / e.sum(-1, keepdim=True) @ v)


def differences_of_scores(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    scores = q @ k.mT
    return layer.merge(1 / (scores[..., None, :] - scores[..., None]).exp().sum(-1) @ v)


def parts_joined_by_their_sums(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    parts = [(q @ k_part.mT, v_part) for k_part, v_part in zip(k.split(3, 2), v.split(3, 2), strict=True)]
    total = torch.logaddexp(*(scores.logsumexp(-1, keepdim=True) for scores, _ in parts))
    return layer.merge(
        sum(scores.softmax(-1) @ y * (scores.logsumexp(-1, keepdim=True) - total).exp() for scores, y in parts)
    )


def not_normalized(layer: Layer, x: Tensor) -> Tensor:
    return layer.head((layer.q(x) @ layer.k(x).mT * 0.1).exp() @ layer.v(x))


def one_key_at_a_time(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    weights = (q @ k.mT).softmax(-1)
    return layer.merge(sum(weights[..., j : j + 1] * v[:, :, j : j + 1] for j in range(L)))


REPORTED = [
    (landmarks, "several softmaxes"), (blocks, "in pieces"), (wrong_axis, "not multiplied"),
    (keys_in_chunks, "in pieces"), (selected_keys, "keys of its own"), (selected_keys_of_one_head, "keys of its own"),
    (neighbours, "keys of its own"), (graph, "index_add"), (dropout_in_place, "in place"), (two_axes_of_keys, "view"),
    (operator_of_another_library, "mix"), (script_function, "TorchScript"), (sum_in_a_column_of_ones, "divided"),
    (squared_relu_attention, "no softmax"), (hyperbolic_functions, "no softmax"), (differences_of_scores, "no softmax"),
    (parts_joined_by_their_sums, "in pieces"), (not_normalized, "divided"), (one_key_at_a_time, "not multiplied"),
]  # fmt: skip


@pytest.mark.parametrize(("form", "reason"), REPORTED)
def test_what_is_not_recorded_is_reported(form: Callable, reason: str) -> None:
    layer = Layer(form).eval()
    with torch.no_grad(), regard.watch(layer) as seen:
        layer(X)
    assert not seen.calls
    assert len(seen.unseen) == 1
    assert reason in seen.unseen[0].reason


@pytest.mark.parametrize("form", [product, several_learned_queries, *NOT_ATTENTION])
def test_parameters_may_be_exchanged(form: Callable) -> None:
    layer = Layer(form).eval()
    parameters = {name: x.detach() + 0.1 for name, x in layer.named_parameters()}
    with torch.no_grad(), regard.watch(layer) as seen:
        torch.func.functional_call(layer, parameters, (X,))
    assert [call.shape for call in seen.calls] == [tuple(weights.shape) for weights in layer.weights]
    assert not seen.unseen


def reused_buffer(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = (y.detach() for y in layer.qkv(x))
    buffer = torch.empty(B, H, L, L)
    for scale in (0.1, 0.9):
        torch.matmul(q, k.mT, out=buffer)
        torch.softmax(buffer.mul_(scale), -1, out=buffer)
        v = layer.used(buffer) @ v
    return layer.merge(v)


def test_a_buffer_may_hold_the_weights_of_several_calls() -> None:
    layer = Layer(reused_buffer)
    with torch.no_grad(), regard.watch(layer, keep="copies") as seen:
        layer(X)
    assert len(seen.calls) == 2
    for call, weights in zip(seen.calls, layer.weights, strict=True):
        torch.testing.assert_close(call.weights(), weights)


def test_weights_are_not_held_when_only_statistics_are_kept() -> None:
    references = []

    def observed(layer: Layer, x: Tensor) -> Tensor:
        q, k, v = layer.qkv(x)
        weights = (q @ k.mT).softmax(-1)
        references.append(weakref.ref(weights))
        return layer.merge(weights @ v)

    layer = Layer(observed).eval()
    with torch.no_grad(), regard.watch(layer, keep="statistics"):
        layer(X)
        assert references[0]() is None


def test_values_output_and_scale_are_recorded() -> None:
    layer = Layer(product).eval()
    with torch.no_grad(), regard.watch(layer) as seen:
        layer(X)
    call = seen.calls[0]
    assert call.scale == pytest.approx(D_K**-0.5)
    torch.testing.assert_close(call.v, layer.qkv(X)[2])
    torch.testing.assert_close(call.output, call.weights() @ call.v)


def scaled_before(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    q = torch.cat([-q[..., 4:], q[..., :4]], -1) * 0.5
    return layer.merge((q.contiguous() @ (k / 4).mT).masked_fill(HIDDEN, float("-inf")).softmax(-1) @ v)


def scaled_twice(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = (y.flatten(0, 1) for y in layer.qkv(x))
    weights = (torch.baddbmm(torch.zeros(L), q, k.mT, alpha=0.5) / torch.tensor(4.0)).softmax(-1)
    return layer.merge((weights @ v).view(B, H, L, D_K))


def scaled_tables(layer: Layer, x: Tensor) -> Tensor:
    q, k, v = layer.qkv(x)
    cosines = torch.arange(L * D_K).view(1, 1, L, D_K).cos() * 1.5  # YaRN: the factor belongs to the positions
    return layer.merge((q * cosines @ (k * cosines).mT * 0.125).softmax(-1) @ v)


SCALED = [(scaled_before, 0.125), (scaled_twice, 0.125), (scaled_tables, 0.125), (cosine, None)]


@pytest.mark.parametrize(("form", "scale"), SCALED)
def test_scale_is_the_factor_of_the_scores(form: Callable, scale: float | None) -> None:
    layer = Layer(form).eval()
    with torch.no_grad(), regard.watch(layer) as seen:
        layer(X)
    assert seen.calls[0].scale == scale


def test_other_models_are_reported_and_not_recorded() -> None:
    layer, other = Layer(product).eval(), nn.MultiheadAttention(D, H, batch_first=True)
    with torch.no_grad(), regard.watch(layer) as seen:
        layer(X)
        other(X, X, X)
    assert len(seen.calls) == 1
    assert [unseen.module for unseen in seen.unseen] == ["MultiheadAttention"]
