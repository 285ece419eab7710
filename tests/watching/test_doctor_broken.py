"""Models with one planted mistake each, and the finding that must name it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

import regard
from support.checked_models import IDS, LEFT, LLAMA, RIGHT, SMALL, build, findings

REAL = RIGHT.bool()
X = torch.randn(2, 9, 32, generator=torch.Generator().manual_seed(5))
CAUSAL = torch.ones(9, 9, dtype=torch.bool).tril()


class Attention(nn.Module):
    """Four heads of width 8, fused or written with softmax, with options that break it."""

    def __init__(self, fused: bool, **broken: Any) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.fused, self.broken, self.num_heads = fused, broken, 4
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.k_cache: Tensor | None = None
        self.v_cache: Tensor | None = None

    def forward(self, x: Tensor, mask: Tensor | None = None, **options: Any) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, 4, 8).permute(2, 0, 3, 1, 4)
        if change := self.broken.get("qkv"):
            q, k, v = change(q, k, v)
        if self.broken.get("cache"):
            if self.k_cache is not None and self.v_cache is not None:
                k, v = torch.cat([self.k_cache, k], 2), torch.cat([self.v_cache, v], 2)
            self.k_cache, self.v_cache = k, v
        mask = self.broken["mask"](q, k) if "mask" in self.broken else mask
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, mask, scale=self.broken.get("scale"), **options)
        else:
            scores = q @ k.transpose(-1, -2) * self.broken.get("scale", 8**-0.5)
            if mask is not None and not self.broken.get("late"):
                scores = scores + mask if mask.is_floating_point() else scores.masked_fill(~mask, float("-inf"))
            weights = scores.softmax(self.broken.get("dim", -1))
            if mask is not None and self.broken.get("late"):
                weights = weights * mask
            y = weights @ v
        return self.out(y.transpose(1, 2).reshape(batch, -1, 32))


@dataclass
class Mistake:
    """A broken model, how it is run and checked, and the findings of which one must be reported."""

    name: str
    expected: str
    run: Callable[[nn.Module], Any]
    broken: dict[str, Any] = field(default_factory=dict)
    check: dict[str, Any] = field(default_factory=dict)
    forms: tuple[bool, ...] = (True, False)  # fused, eager


def additive(mask: Tensor, value: float = float("-inf")) -> Tensor:
    return torch.zeros(mask.shape).masked_fill(~mask, value)


def call(mask: Tensor | None = None, **options: Any) -> Callable[[nn.Module], Any]:
    return lambda model: model(X, mask, **options)


def zero_head(which: int) -> Callable[..., Any]:
    def change(*qkv: Tensor) -> list[Tensor]:
        parts = [x.clone() for x in qkv]
        parts[which][:, 2] = 0.0
        return parts

    return change


def repeat_head(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    return q[:, [0, 0, 2, 3]], k[:, [0, 0, 2, 3]], v


def large_key(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    k = k.clone()
    k[:, 1, 3] = 1000.0
    return q.abs(), k, v


def constant_values(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    v = v.clone()
    v[:, 1] = v[:, 1, :1]
    return q, k, v


def nan_key(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    k = k.clone()
    k[0, 1, 4] = float("nan")
    return q, k, v


def nan_value(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    return q, k, v.masked_fill(torch.arange(8) == 3, float("nan"))


def one_projection(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    return q[:, :1].expand_as(q), k[:, :1].expand_as(k), v


def decode(steps: int = 3, **options: Any) -> Callable[[nn.Module], Any]:
    def run(model: nn.Module) -> None:
        model(X, CAUSAL)
        for i in range(steps):
            model(X[:, i : i + 1], **options)

    return run


def static_cache(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    return q, *(F.pad(x, (0, 0, 0, 5)) for x in (k, v))


PAD = REAL[:, None, None]
CHECK_PADDING, CHECK_CAUSAL = {"padding": RIGHT}, {"causal": True}
MISTAKES = [
    Mistake("padding mask forgotten", "attends to padding", call(), check=CHECK_PADDING),
    Mistake("padding mask inverted", "mask inverted", call(~PAD), check=CHECK_PADDING),
    Mistake("padding hides queries instead of keys", "attends to padding", call(REAL[:, None, :, None]),
            check=CHECK_PADDING, forms=(True,)),
    Mistake("padding hidden with -5", "attends to padding", call(additive(PAD, -5.0)), check=CHECK_PADDING),
    Mistake("padding mask of another item", "real tokens hidden", call(PAD.flip(0)), check=CHECK_PADDING),
    Mistake("padding mask of 0 and 1 is added", "attends to padding", call(PAD.float()), check=CHECK_PADDING),
    Mistake("mask of 0 and 1 is added", "mask added as numbers", call(CAUSAL.float()), forms=(True,)),
    Mistake("padding mask shifted", "attends to padding", call(PAD.roll(1, -1)), check=CHECK_PADDING),
    Mistake("causal mask forgotten", "sees the future", call(), check=CHECK_CAUSAL),
    Mistake("causal mask transposed", "mask inverted", call(CAUSAL.T), check=CHECK_CAUSAL),
    Mistake("causal mask inverted", "mask inverted", call(~CAUSAL), check=CHECK_CAUSAL, forms=(True,)),
    Mistake("causal mask one ahead", "sees the future", call(CAUSAL.roll(1, 1) | CAUSAL), check=CHECK_CAUSAL),
    Mistake("query does not see itself", "own token hidden", call(CAUSAL.tril(-1) | (torch.eye(9)[0] > 0)),
            check=CHECK_CAUSAL),
    Mistake("first query sees nothing", "empty rows", call(CAUSAL.tril(-1)), check=CHECK_CAUSAL, forms=(True,)),
    Mistake("everything hidden", "empty rows", call(additive(CAUSAL & False)), forms=(True,)),
    Mistake("everything hidden by -1e9", "empty rows", call(additive(CAUSAL & False, -1e9)), forms=(True,)),
    Mistake("softmax of a hidden row", "not finite", call(CAUSAL.tril(-1)), forms=(False,)),
    Mistake("mask times -inf", "not finite", call((1.0 - CAUSAL.float()) * float("-inf"))),
    Mistake("NaN in a key", "not finite", call(), {"qkv": nan_key}),
    Mistake("NaN in a value", "not finite", call(), {"qkv": nan_value}),
    Mistake("softmax over the queries", "softmax over the wrong axis", call(), {"dim": -2}, forms=(False,)),
    Mistake("mask after the softmax", "weights not normalized", call(CAUSAL), {"late": True}, forms=(False,)),
    Mistake("not scaled", "unusual scale", call(), {"scale": 1.0}, forms=(True,)),
    Mistake("multiplied by the root", "unusual scale", call(), {"scale": 8**0.5}, forms=(True,)),
    Mistake("scaled twice", "unusual scale", call(), {"scale": 1 / 8}, forms=(True,)),
    Mistake("scaled by the model's width", "unusual scale", call(), {"scale": 32**-0.5}, forms=(True,)),
    Mistake("queries of a head are zero", "uniform head", call(), {"qkv": zero_head(0)}),
    Mistake("keys of a head are zero", "uniform head", call(CAUSAL), {"qkv": zero_head(1)}),
    Mistake("values of a head are zero", "dead values", call(), {"qkv": zero_head(2)}),
    Mistake("values are the same for all tokens", "dead values", call(), {"qkv": constant_values}),
    Mistake("one key is huge", "one-token head", call(), {"qkv": large_key}),
    Mistake("two heads share projections", "repeated head", call(), {"qkv": repeat_head}),
    Mistake("all heads share projections", "repeated head", call(), {"qkv": one_projection}),
    Mistake("documents not separated", "attends to another document", call(CAUSAL),
            check={"documents": [4, 5], "causal": True}),
    Mistake("dropout in evaluation", "dropout in evaluation", call(dropout_p=0.1), forms=(True,)),
    Mistake("top-left causal mask with a cache", "top-left causal mask", decode(is_causal=True), {"cache": True},
            forms=(True,)),
    Mistake("cache not written", "cache lost", decode()),
    Mistake("cache not hidden", "attends to an empty cache", call(F.pad(CAUSAL, (0, 5), value=True)),
            {"qkv": static_cache}, forms=(True,)),
    Mistake("heads not transposed", "heads and tokens swapped", call(),
            {"qkv": lambda *qkv: tuple(x.transpose(1, 2) for x in qkv)}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("mistake", "fused"),
    [
        pytest.param(mistake, fused, id=f"{mistake.name}-{'fused' if fused else 'eager'}")
        for mistake in MISTAKES
        for fused in mistake.forms
    ],
)
def test_planted_mistake_is_named(mistake: Mistake, fused: bool) -> None:
    model = Attention(fused, **mistake.broken).eval()
    result = findings(model, mistake.run, **mistake.check)
    assert mistake.expected in {finding.what for finding in result}, str(result)


@pytest.mark.parametrize("fused", [True, False])
def test_the_same_layer_without_mistake(fused: bool) -> None:
    result = findings(Attention(fused).eval(), call(CAUSAL & PAD), padding=RIGHT, causal=True)
    assert result == []


# -- real models with a mistake in how they are built or called -------------------------------------------------


def names(model: nn.Module, run: Callable[[nn.Module], Any], **check: Any) -> set[str]:
    return {finding.what for finding in findings(model, run, **check)}


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_llama_without_its_mask(implementation: str) -> None:
    model = build("Llama", implementation, **LLAMA)
    assert names(model, lambda m: m(IDS), padding=LEFT, causal=True) == {"attends to padding"}
    for layer in model.model.layers:  # type: ignore[union-attr]
        layer.self_attn.is_causal = False
    shown = torch.ones(2, 1, 9, 9, dtype=torch.bool)
    mask = additive(shown) if implementation == "eager" else shown
    assert "sees the future" in names(model, lambda m: m(IDS, attention_mask=mask), causal=True)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float32, torch.int32])
def test_padding_in_every_dtype(dtype: torch.dtype) -> None:
    model = build("Bert", "sdpa", **SMALL, vocab_size=50)
    for padding in (RIGHT.to(dtype), RIGHT.to(dtype).tolist(), RIGHT.to(dtype).numpy()):
        assert names(model, lambda m: m(IDS), padding=padding) == {"attends to padding"}
        assert names(model, lambda m: m(IDS, attention_mask=RIGHT), padding=padding) == set()


def test_lengths_and_additive_masks() -> None:
    model = build("Bert", "sdpa", **SMALL, vocab_size=50)
    for padding in ([9, 5], torch.tensor([9, 5]), additive(REAL), additive(REAL, -1e9), additive(REAL, -10000.0)):
        assert names(model, lambda m: m(IDS), padding=padding) == {"attends to padding"}
        assert names(model, lambda m: m(IDS, attention_mask=RIGHT), padding=padding) == set()


@pytest.mark.parametrize(
    ("padding", "message"),
    [
        (torch.ones(2, 1, 9, 9), "one number per token"),
        (torch.ones(2, 8), "fits no call"),
        (torch.ones(3, 9), "fits no call"),
        (IDS, "1 for real tokens and 0"),
        (torch.tensor([1.5, 2.0]), "lengths must be integers"),
        ([12, 5], "fits no call"),
        (torch.tensor(3), "mask"),
    ],
)
def test_wrong_padding_is_refused(padding: Any, message: str) -> None:
    model = build("Bert", "sdpa", **SMALL, vocab_size=50)
    with pytest.raises(ValueError, match=message):
        findings(model, lambda m: m(IDS), padding=padding)


def test_packed_documents_leak_with_an_all_ones_mask() -> None:
    model = build("Llama", "sdpa", **LLAMA)
    positions = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4]])
    run = lambda m: m(IDS[:1], attention_mask=torch.ones(1, 9), position_ids=positions, use_cache=False)  # noqa: E731
    ids = (positions == 0).cumsum(1)
    for documents in (ids, [4, 5], [[4, 5]]):
        assert names(model, run, causal=True, documents=documents) == {"attends to another document"}
    run = lambda m: m(IDS[:1], position_ids=positions, use_cache=False)  # noqa: E731
    assert names(model, run, causal=True, documents=ids) == set()


def test_mistral_without_its_window() -> None:
    model = build("Mistral", "sdpa", **LLAMA, sliding_window=3)
    mask = torch.ones(9, 9, dtype=torch.bool).tril()[None, None].expand(2, 1, 9, 9)
    assert names(model, lambda m: m(IDS, attention_mask=mask), causal=True) == {"window ignored"}


def test_layers_that_are_one_module_or_have_equal_weights() -> None:
    class Stack(nn.Module):
        def __init__(self, layers: list[nn.Module]) -> None:
            super().__init__()
            self.layers = nn.ModuleList(layers)
            self.first = False

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = x + (self.layers[0] if self.first else layer)(x)
            return x

    run = lambda m: m(X)  # noqa: E731
    assert names(Stack([Attention(True).eval()] * 3), run) == {"repeated layers"}
    assert names(Stack([Attention(True).eval() for _ in range(3)]), run) == {"repeated layers"}  # the same seed
    layers = [Attention(True).eval() for _ in range(3)]
    for i, layer in enumerate(layers):
        layer.qkv.weight.data.mul_(1 + i)
    stack = Stack(layers)
    assert names(stack, run) == set()
    stack.first = True
    assert names(stack, run) == {"repeated layers"}


def test_batch_first_forgotten() -> None:
    model = nn.TransformerEncoderLayer(32, 4, 48).eval()
    assert "batch and tokens swapped" in names(model, lambda m: m(X), padding=RIGHT)


def test_grouped_heads_repeated_in_the_wrong_order(monkeypatch: pytest.MonkeyPatch) -> None:
    modeling = transformers.models.llama.modeling_llama
    model = build("Llama", "sdpa", **LLAMA)
    module = transformers.integrations.sdpa_attention
    monkeypatch.setattr(module, "use_gqa_in_sdpa", lambda *_: False)
    monkeypatch.setattr(module, "repeat_kv", lambda x, n: x.repeat(1, n, 1, 1))
    assert modeling is not None
    assert "key heads in the wrong order" in names(model, lambda m: m(IDS), causal=True)


class Translator(nn.Module):
    """A source, a target, and cross-attention that may take its keys from the wrong one."""

    def __init__(self, wrong: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.wrong = wrong
        self.encoder, self.decoder = nn.ModuleDict(), nn.ModuleDict()
        self.encoder["self_attn"] = nn.MultiheadAttention(32, 4, batch_first=True)
        self.decoder["self_attn"] = nn.MultiheadAttention(32, 4, batch_first=True)
        self.decoder["cross_attn"] = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, source: Tensor, target: Tensor) -> None:
        attend = lambda module, q, kv: module(q, kv, kv, need_weights=False)[0]  # noqa: E731
        source = source + attend(self.encoder["self_attn"], source, source)
        target = target + attend(self.decoder["self_attn"], target, target)
        pair = {"": (target, source), "swapped": (source, target), "ignored": (target, target)}[self.wrong]
        attend(self.decoder["cross_attn"], *pair)


@pytest.mark.parametrize(
    ("wrong", "expected"), [("", set()), ("swapped", {"queries and keys swapped"}), ("ignored", {"source ignored"})]
)
def test_cross_attention_to_the_wrong_sequence(wrong: str, expected: set[str]) -> None:
    assert names(Translator(wrong).eval(), lambda m: m(X, X[:, :5])) == expected


def test_alibi_with_the_wrong_sign() -> None:
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625])[:, None, None]
    distance = torch.arange(9)[:, None] - torch.arange(9)
    right = (-slopes * distance.abs())[None].masked_fill(~CAUSAL, float("-inf"))
    wrong = (slopes * distance.abs())[None].masked_fill(~CAUSAL, float("-inf"))
    assert names(Attention(True).eval(), call(right), causal=True) == set()
    assert names(Attention(True).eval(), call(wrong), causal=True) == {"position bias inverted"}


@pytest.mark.parametrize(
    ("mistake", "run", "check"),
    [
        ("sees the future", call(), CHECK_CAUSAL),
        ("attends to padding", call(), CHECK_PADDING),
        ("empty rows", call(CAUSAL.tril(-1)), {}),
    ],
)
def test_statistics_alone_show_mistakes(mistake: str, run: Callable[[nn.Module], Any], check: dict[str, Any]) -> None:
    assert mistake in names(Attention(True).eval(), run, keep="statistics", **check)


def test_statistics_alone_show_uniform_heads() -> None:
    model = Attention(True, qkv=zero_head(0)).eval()
    for mask, check in ((None, {}), (CAUSAL, CHECK_CAUSAL)):
        result = findings(model, call(mask), keep="statistics", **check)
        assert [(finding.what, finding.head) for finding in result] == [("uniform head", 2)]


def test_padding_of_an_encoder_and_a_decoder() -> None:
    model = nn.Transformer(32, 4, 1, 1, 48, batch_first=True).eval()
    run = lambda m: m(X, X)  # noqa: E731
    result = findings(model, run, padding=RIGHT)
    assert {finding.call for finding in result} == {"encoder.layers.0.self_attn", "decoder.layers.0.multihead_attn"}
    assert [name for name, check, _ in result.not_checked if check == "padding"] == ["decoder.layers.0.self_attn"]
    result = findings(model, run, padding={"decoder*self_attn": RIGHT})
    assert {finding.call for finding in result} == {"decoder.layers.0.self_attn"}


class HandWritten(nn.Module):
    """Eager attention of heads of width 16, whose scores are multiplied by a factor, or whose queries are."""

    def __init__(self, factor: float | None, *, queries: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.qkv, self.factor, self.queries = nn.Linear(64, 192), factor, queries

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (y.unflatten(-1, (4, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        if self.factor is not None and self.queries:
            q = q * self.factor
        scores = q @ k.mT
        if self.factor is not None and not self.queries:
            scores = scores * self.factor
        return scores.softmax(-1) @ v


@pytest.mark.parametrize(
    ("factor", "queries", "expected"),
    [
        (0.25, False, []),
        (0.25, True, []),
        (None, False, ["unusual scale"]),
        (4.0, False, ["unusual scale"]),
        (1 / 16, False, ["unusual scale"]),
        (1 / 8, True, ["unusual scale"]),
    ],
)
def test_scale_of_eager_attention(factor: float | None, queries: bool, expected: list[str]) -> None:
    model = HandWritten(factor, queries=queries)
    with torch.no_grad(), regard.watch(model) as seen:
        model(torch.randn(2, 20, 64, generator=torch.Generator().manual_seed(0)))
    assert [finding.what for finding in seen.check()] == expected
