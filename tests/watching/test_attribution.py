"""Importance, relevance and rollout agree with autograd on eager attention; weights and entropy are differentiable."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regard
from regard import masks
from support.reference_attribution import FAMILIES, build, inputs, reference, target
from support.small_models import decoder, tokens

LENGTH = 24


@pytest.mark.parametrize("family", FAMILIES)
def test_families_of_transformers(family: str) -> None:
    pytest.importorskip("transformers")
    fused, eager = build(family, LENGTH)
    arguments = inputs(family, LENGTH)
    query = 0 if family == "vit" else -1
    expected = reference(eager, arguments, query)
    for model in (fused, eager):
        with regard.watch(model) as seen:
            goal = target(model(**arguments))
        relevance = seen.relevance(goal)  # finds by itself at which token the target is read
        torch.testing.assert_close(relevance, expected.relevance, atol=1e-5, rtol=0)
        if expected.source is not None:
            torch.testing.assert_close(seen.relevance(goal, source=True), expected.source, atol=1e-5, rtol=0)
        torch.testing.assert_close(seen.importance(goal.sum()), expected.importance, atol=1e-5, rtol=0)


def attention_by_hand(q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> tuple[Tensor, Tensor]:
    weights = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~visible, -torch.inf).softmax(-1)
    return weights @ v, weights


class Functional(nn.Module):
    """Attention called in one of several ways, by the model itself."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way, self.num_heads = way, 2
        self.gate = nn.Parameter(torch.ones(()))

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        visible = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril(k.shape[-2] - q.shape[-2])
        if self.way == "attend":
            return regard.attend(q * self.gate, k, v, masks.causal())
        if self.way == "folded":  # batch and heads in one axis
            parts = [x.flatten(0, 1) for x in (q * self.gate, k, v)]
            return F.scaled_dot_product_attention(*parts, attn_mask=visible).unflatten(0, (len(q), 2))
        if self.way == "eager":
            return attention_by_hand(q * self.gate, k, v, visible)[0]
        return F.scaled_dot_product_attention(q * self.gate, k, v, attn_mask=visible)


def leaf(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).requires_grad_()


@pytest.mark.parametrize("way", ["sdpa", "attend", "folded", "eager"])
def test_weights_with_gradients(way: str) -> None:
    q, k, v = (leaf(2, 2, 5, 4, seed=n) for n in range(3))
    model = Functional(way)
    with regard.watch(model) as seen:
        model(q, k, v)
    weights = seen[0].weights(head=1, queries=[2, 4], grad=True)
    expected = attention_by_hand(q, k, v, torch.ones(5, 5, dtype=torch.bool).tril())[1][:, 1, [2, 4]]
    torch.testing.assert_close(weights, expected)
    factor = torch.linspace(0, 1, 5)
    ours, theirs = ((torch.autograd.grad((w * factor).square().sum(), (q, k))) for w in (weights, expected))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("way", ["sdpa", "attend", "folded", "eager"])
def test_entropy_with_gradients(way: str) -> None:
    q, k, v = (leaf(2, 2, 6, 4, seed=n) for n in range(3))
    model = Functional(way)
    with regard.watch(model) as seen:
        model(q, k, v)
    entropy = seen[0].entropy(grad=True)
    torch.testing.assert_close(entropy, seen[0].entropy(), atol=1e-5, rtol=0)
    weights = attention_by_hand(q, k, v, torch.ones(6, 6, dtype=torch.bool).tril())[1]
    expected = torch.special.entr(weights.clamp_min(1e-30)).sum(-1)
    for a, b in zip(
        torch.autograd.grad(entropy.sum(), (q, k)), torch.autograd.grad(expected.sum(), (q, k)), strict=True
    ):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


class Changed(nn.Module):
    """Attention whose scores are changed: with a bias, a softcap, or an empty row."""

    def __init__(self, **options: object) -> None:
        super().__init__()
        self.options = options

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return regard.attend(q, k, v, **self.options)


@pytest.mark.parametrize(
    "options",
    [{"bias": torch.linspace(-1, 1, 36).view(6, 6)}, {"softcap": 2.0}, {"mask": torch.ones(6, 6).tril(-1).bool()}],
    ids=["bias", "softcap", "empty row"],
)
def test_entropy_where_scores_are_changed(options: dict[str, object]) -> None:
    q, k, v = (leaf(1, 2, 6, 4, seed=n).double().detach().requires_grad_() for n in range(3))
    model = Changed(**options)

    def entropy(q: Tensor, k: Tensor) -> Tensor:
        with regard.watch(model) as seen:
            model(q, k, v)
        return seen[0].entropy(grad=True)

    with regard.watch(model) as seen:
        model(q, k, v)
    torch.testing.assert_close(entropy(q, k).float(), seen[0].entropy().float(), atol=1e-5, rtol=0)
    assert torch.autograd.gradcheck(entropy, (q, k), atol=1e-4)


def test_importance_is_the_gradient_of_a_gate() -> None:
    model, x = decoder(), tokens(3, 20)
    with regard.watch(model) as seen:
        loss = model(x).logsumexp(-1).mean()
    importance = seen.importance(loss, per_item=True)
    assert importance.shape == (2, 3, 4)
    gates = [torch.ones(3, 4, 1, 1, requires_grad=True) for _ in range(2)]
    changes = {f"layers.{n}.attention": (lambda call, n=n: {"output": call.output * gates[n]}) for n in range(2)}
    with regard.intervene(model, changes):
        gated = model(x).logsumexp(-1).mean()
    expected = torch.stack(torch.autograd.grad(gated, gates))[..., 0, 0]
    torch.testing.assert_close(importance, expected, atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(seen.importance(loss), expected.sum(1), atol=1e-6, rtol=1e-4)
    loss.backward()  # the graph is kept


def test_rollout_of_one_token_is_a_row_of_the_matrix() -> None:
    model, x = decoder(context=300), tokens(2, 300)
    with torch.no_grad(), regard.watch(model) as seen:
        model(x)
    matrix = seen.rollout(residual=0.4)
    for query in (0, 7, -1):
        torch.testing.assert_close(seen.rollout(residual=0.4, query=query), matrix[:, query], atol=1e-6, rtol=1e-5)
    with pytest.raises(ValueError, match="index of one of the 300 tokens, got 300"):
        seen.rollout(query=300)


def test_a_target_read_at_several_tokens() -> None:
    model, x = decoder(), tokens(1, 12)
    with regard.watch(model) as seen:
        logits = model(x)
    mean = seen.relevance(logits[0, 4:6, 3].sum())
    assert mean[0, 6:].abs().max() == 0
    assert mean.sum() >= 1
    first = seen.relevance(logits[0, 4:6, 3].sum(), query=4)
    assert first[0, 5] == 0


def test_interventions_are_part_of_relevance() -> None:
    model, x = decoder(), tokens(1, 10)
    from regard.interventions import knockout

    with regard.intervene(model, {"*": knockout(keys=2, queries=slice(3, None))}), regard.watch(model) as seen:
        logits = model(x)
    assert seen.relevance(logits[0, -1, 1])[0, 2] == 0


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda seen, out: seen.relevance(out), r"one number of the model's output.* got shape"),
        (lambda seen, out: seen.relevance(out.detach().sum()), "has no gradient"),
        (lambda seen, out: seen.relevance(out.sum(), query=10), "token 10 is out of range, there are 10"),
        (lambda seen, out: seen.relevance(out.sum(), source=True), "no cross-attention"),
    ],
)
def test_wrong_arguments(action, message: str) -> None:
    model, x = decoder(), tokens(1, 10)
    with regard.watch(model) as seen:
        out = model(x)
    with pytest.raises(ValueError, match=message):
        action(seen, out)


def test_a_run_without_gradients() -> None:
    model, x = decoder(), tokens(1, 10)
    with torch.no_grad(), regard.watch(model) as seen:
        out = model(x)
    for action in (lambda: seen[0].weights(grad=True), lambda: seen[0].entropy(grad=True)):
        with pytest.raises(ValueError, match="recorded without it: run the model with gradients"):
            action()
    with pytest.raises(ValueError, match="has no gradient"):
        seen.relevance(out.sum())


def test_lengths_that_differ_between_layers() -> None:
    model = nn.ModuleList([Functional("sdpa"), Functional("sdpa")])
    a, b = (leaf(1, 2, n, 4, seed=n) for n in (5, 3))
    with regard.watch(model) as seen:
        out = model[0](a, a, a).sum() + model[1](b, b, b).sum()
    with pytest.raises(ValueError, match=r"has 5 tokens .* has 3"):
        seen.relevance(out)
    assert seen.importance(out).isfinite().all()


def test_the_largest_score_of_each_row() -> None:
    q, k, v = (leaf(1, 2, 9, 4, seed=n) for n in range(3))
    model = Functional("attend")
    scores = (q @ k.mT / 2).masked_fill(~torch.ones(9, 9, dtype=torch.bool).tril(), -torch.inf)
    for x in (q, q.double()):
        with torch.no_grad(), regard.watch(model) as seen:
            model(x, k.to(x.dtype), v.to(x.dtype))
        torch.testing.assert_close(
            seen[0].largest(), scores.amax(-1).to(x.dtype).float().to(seen[0].largest().dtype), atol=1e-5, rtol=0
        )
    with torch.no_grad(), regard.watch(Functional("eager")) as seen:
        seen.model(q, k, v)
    with pytest.raises(ValueError, match="only its weights"):
        seen[0].largest()
