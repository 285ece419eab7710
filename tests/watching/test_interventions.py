"""regard.intervene against attention whose weights are edited by hand, in every way of attending."""

from random import Random
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import regard
from regard.interventions import ablate, knockout, patch, reweight
from tests.support.edited_attention import WAYS, Layer, Reference, multiplied

seeds = given(st.integers(0, 2**32))


def selection(random: Random, size: int) -> Any:
    """Draw a selection of indices."""
    some = [random.randrange(-size, size) for _ in range(3)]
    start = random.randrange(size)
    return random.choice([None, some[0], some, slice(start, None), slice(-1 - start, None)])


def indices(selection: Any, size: int) -> list[int]:
    every = list(range(size))
    if selection is None:
        return every
    if isinstance(selection, slice):
        return every[selection]
    return [every[i] for i in ([selection] if isinstance(selection, int) else selection)]


def chosen(shape: tuple[int, ...], *selected: Any) -> Tensor:
    """Return a tensor of 1 where all indices are selected, 0 elsewhere."""
    result = torch.ones(shape, dtype=torch.float64)
    for axis, selection in enumerate(selected):
        part = torch.zeros(shape[axis], dtype=torch.float64)
        part[indices(selection, shape[axis])] = 1
        result = result * part.view([-1 if a == axis else 1 for a in range(len(shape))])
    return result


def draw_layer(random: Random, ways: tuple[str, ...] = WAYS) -> tuple[Layer, Tensor, Tensor]:
    torch.manual_seed(random.randrange(1000))
    way, length = random.choice(ways), random.randint(3, 20)
    size = random.choice([length, random.randint(3, 20)])
    causal = size == length and random.random() < 0.5
    hidden = bias = None
    if random.random() < 0.5:
        hidden = torch.rand(length, size) < 0.3
        hidden[:, :2] = False
    if random.random() < 0.5:
        bias = torch.randn(length, size, dtype=torch.float64)
    layer = Layer(way, kv_heads=random.choice([1, 2, 4]), causal=causal, hidden=hidden, bias=bias).double()
    with torch.no_grad():
        layer.query.weight.mul_(random.choice([1.0, 8.0]))  # with weights that are nearly 0 and 1
    x, memory = torch.randn(3, length, 12, dtype=torch.float64), torch.randn(3, size, 12, dtype=torch.float64)
    return layer, x, x if causal else memory


def check(
    layer: Layer, reference: Reference, x: Tensor, memory: Tensor, interventions: Any, atol: float = 1e-9
) -> None:
    """Compare output, gradients and what is watched with the reference."""
    x, memory = x.requires_grad_(), memory.requires_grad_()
    variables = [x, memory, *layer.parameters()]
    expected = reference(x, memory)
    with regard.intervene(layer, interventions):
        out = layer(x, memory)
    torch.testing.assert_close(out, expected, atol=atol, rtol=1e-7)
    torch.manual_seed(7)
    weight = torch.randn_like(out)
    gradients = torch.autograd.grad((out * weight).sum(), variables, allow_unused=True, materialize_grads=True)
    wanted = torch.autograd.grad((expected * weight).sum(), variables, allow_unused=True, materialize_grads=True)
    torch.testing.assert_close(gradients, wanted, atol=1e-7, rtol=1e-6)
    for outer in (True, False):
        with torch.no_grad():
            if outer:
                with regard.watch(layer) as seen, regard.intervene(layer, interventions):
                    out = layer(x, memory)
            else:
                with regard.intervene(layer, interventions), regard.watch(layer) as seen:
                    out = layer(x, memory)
        torch.testing.assert_close(out, expected, atol=atol, rtol=1e-7)
        assert len(seen) == 1
        assert not seen.unseen
        torch.testing.assert_close(seen[0].weights().double(), reference.weights(x, memory), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(seen[0].output, reference.heads(x, memory), atol=1e-5, rtol=1e-5)


@seeds
def test_knockout_and_reweighting_are_exact(seed: int) -> None:
    random = Random(seed)
    layer, x, memory = draw_layer(random)
    shape = (3, 4, x.shape[1], memory.shape[1])
    interventions, factors = [], torch.ones(shape, dtype=torch.float64)
    for _ in range(random.randint(1, 2)):
        batch, heads, queries, keys = (selection(random, n) for n in shape)
        keys = 0 if keys is None else keys
        by = random.choice([0.0, 0.25, 3.0, 1e-6])
        interventions.append(reweight(keys=keys, by=by, queries=queries, heads=heads, batch=batch, empty="zero"))
        factors = torch.where(chosen(shape, batch, heads, queries, keys) > 0, factors * by, factors)
    reference = Reference(layer, lambda w: multiplied(w, factors))
    check(layer, reference, x, memory, {"*": interventions}, atol=1e-8)


@seeds
def test_ablation_is_exact(seed: int) -> None:
    random = Random(seed)
    layer, x, memory = draw_layer(random)
    shape = (3, 4, x.shape[1])
    batch, heads, queries = (selection(random, n) for n in shape)
    to = random.choice(["zero", "mean"])
    where = chosen(shape, batch, heads, queries)[..., None] > 0

    def output(out: Tensor) -> Tensor:
        return torch.where(where, out.mean(0, keepdim=True) if to == "mean" else 0.0, out)

    change = ablate(heads, to=to, queries=queries, batch=batch)
    check(layer, Reference(layer, output=output), x, memory, {"": change})


@seeds
def test_patched_weights_and_outputs_are_those_of_the_other_run(seed: int) -> None:
    random = Random(seed)
    layer, x, memory = draw_layer(random)
    shape = (3, 4, x.shape[1])
    batch, heads, queries = (selection(random, n) for n in shape)
    items = random.choice([1, 3])
    other_x, other_memory = torch.randn_like(x)[:items], torch.randn_like(memory)[:items]
    with torch.no_grad(), regard.watch(layer) as seen:
        layer(other_x, other_x if memory is x else other_memory)
    other = Reference(layer)
    where = chosen(shape, batch, heads, queries)[..., None] > 0
    what = random.choice(["weights", "output"])
    arguments = (other_x, other_x if memory is x else other_memory)
    with torch.no_grad():
        given_values = other.weights(*arguments) if what == "weights" else other.heads(*arguments)
    change = patch(seen, what, heads=heads, queries=queries, batch=batch)

    def replace(y: Tensor) -> Tensor:
        return torch.where(where, given_values, y)

    reference = Reference(layer, replace) if what == "weights" else Reference(layer, output=replace)
    check(layer, reference, x, memory, {"*": change}, atol=1e-6)


FUSED = ("sdpa", "sdpa 3-D", "attend", "weights", "sinks", "softcap", "score function", "operator")


@seeds
def test_patched_queries_keys_and_values_change_the_call(seed: int) -> None:
    random = Random(seed)
    layer, x, memory = draw_layer(random, FUSED)
    other_x, other_memory = torch.randn_like(x), torch.randn_like(memory)
    if memory is x:
        other_memory = other_x
    with torch.no_grad(), regard.watch(layer) as seen:
        layer(other_x, other_memory)
        old = layer.inputs(other_x, other_memory)
    what = random.choice("qkv")
    i = "qkv".index(what)
    lengths = (x.shape[1], memory.shape[1], memory.shape[1])
    batch, heads, rows = (selection(random, n) for n in (3, 4, lengths[i]))
    where = chosen((3, 4, lengths[i]), batch, heads, rows)[..., None] > 0
    change = patch(seen, what, heads=heads, batch=batch, **{"queries" if what == "q" else "keys": rows})
    with regard.intervene(layer, {"*": change}):
        out = layer(x, memory)
    plain = Layer(layer.way, causal=layer.causal, hidden=layer.hidden, bias=layer.bias).double()
    plain.load_state_dict(
        {k: v for k, v in layer.state_dict().items() if not k.startswith(("key", "value"))}, strict=False
    )
    new = [y.repeat_interleave(4 // y.shape[1], 1) for y in layer.inputs(x, memory)]
    new[i] = torch.where(where, old[i].repeat_interleave(4 // old[i].shape[1], 1), new[i])
    expected = layer.out(plain.attend(*new).transpose(1, 2).flatten(-2))
    torch.testing.assert_close(out, expected, atol=1e-9, rtol=1e-7)


@pytest.mark.parametrize("second_heads", [None, [1]])
def test_patches_of_keys_and_of_values_combine_where_heads_share_them(second_heads: Any) -> None:
    torch.manual_seed(0)
    layer = Layer("sdpa", kv_heads=2).double()
    x, other = torch.randn(2, 2, 6, 12, dtype=torch.float64)
    with torch.no_grad(), regard.watch(layer) as seen:
        layer(other)
    changes = [patch(seen, "k", heads=3), patch(seen, "v", heads=second_heads)]
    with torch.no_grad(), regard.watch(layer) as patched, regard.intervene(layer, {"*": changes}):
        out = layer(x)
        with regard.intervene(layer, {"*": [patch(patched, "k"), patch(patched, "v")]}):  # the keys of each head
            again = layer(x)
    (q, k, v), (_, other_k, other_v) = (
        [y.repeat_interleave(4 // y.shape[1], 1) for y in layer.inputs(z)] for z in (x, other)
    )
    k = torch.cat([k[:, :3], other_k[:, 3:]], 1)
    v = other_v if second_heads is None else torch.cat([v[:, :1], other_v[:, 1:2], v[:, 2:]], 1)
    heads = torch.softmax(q @ k.transpose(-1, -2) * layer.width**-0.5, -1) @ v
    expected = layer.out(heads.transpose(1, 2).flatten(-2))
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(again, expected)


@pytest.mark.parametrize("way", WAYS)
def test_a_function_changes_weights_of_some_rows_or_outputs(way: str) -> None:
    torch.manual_seed(0)
    layer, x = Layer(way).double(), torch.randn(2, 6, 12, dtype=torch.float64)

    def half(call: Any) -> Any:
        rows = call.weights(head=[1, 2], queries=[4])
        assert rows.shape == (2, 2, 1, 6)
        assert call.weights(head=1, queries=4, batch=0, keys=2).shape == ()
        return {"weights": rows * 0.5, "head": [1, 2], "queries": [4]}

    def edit(w: Tensor) -> Tensor:
        return torch.cat([w[:, :1], torch.cat([w[:, 1:3, :4], w[:, 1:3, 4:5] / 2, w[:, 1:3, 5:]], 2), w[:, 3:]], 1)

    check(layer, Reference(layer, edit), x, x, {"*": half})
    check(layer, Reference(layer, output=lambda out: out * 2), x, x, {"*": lambda call: call.output * 2})
    check(layer, Reference(layer), x, x, {"*": lambda call: None})
    check(layer, Reference(layer, lambda w: w**2), x, x, {"*": lambda call: call.weights() ** 2})


@pytest.mark.parametrize("way", ["sdpa", "attend", "eager"])
def test_nested_contexts_and_lists_compose_in_the_stated_order(way: str) -> None:
    torch.manual_seed(0)
    layer, x = Layer(way).double(), torch.randn(2, 6, 12, dtype=torch.float64)
    factors = torch.ones(2, 4, 6, 6, dtype=torch.float64)
    factors[..., 0] = 0
    factors[:, 2, :, 1] = 4
    reference = Reference(layer, lambda w: multiplied(w, factors) ** 2, lambda out: out * 3)
    with (
        regard.intervene(layer, {"*": knockout(keys=0)}),
        regard.watch(layer) as seen,
        regard.intervene(
            layer,
            {
                "*": [reweight(keys=1, by=4, heads=2), lambda call: {"weights": call.weights() ** 2}],
                "": lambda call: call.output * 3,
            },
        ),
    ):
        out = layer(x)
    torch.testing.assert_close(out, reference(x, x))
    torch.testing.assert_close(seen[0].weights().double(), reference.weights(x), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(seen[0].output, reference.heads(x), atol=1e-6, rtol=1e-5)


def test_statistics_are_those_of_the_changed_weights() -> None:
    torch.manual_seed(0)
    layer, x = Layer("sinks", causal=True), torch.randn(2, 9, 12)
    with torch.no_grad(), regard.watch(layer) as seen, regard.intervene(layer, {"*": knockout(keys=2, empty="zero")}):
        layer(x)
    call, w = seen[0], seen[0].weights()
    assert (w[..., 2] == 0).all()
    torch.testing.assert_close(call.entropy(), -torch.special.xlogy(w, w).sum(-1))
    torch.testing.assert_close(call.received(), w.sum(2))
    torch.testing.assert_close(call.mass([0, 3]), w[..., [0, 3]].sum(-1))
    torch.testing.assert_close(call.at_offset(-1)[..., 1:], w.diagonal(-1, 2, 3))
    torch.testing.assert_close(call.sink(), 1 - w.sum(-1))
    torch.testing.assert_close(call.top(2)[0], w.topk(2).values)
    assert len(seen.summary()) == 4


@pytest.mark.parametrize("way", ["sdpa", "attend", "sinks"])
@pytest.mark.parametrize("keys", [[5], slice(0, 200), slice(1, None)])
def test_long_rows_of_all_strategies_are_exact(way: str, keys: Any) -> None:
    """Few keys and many, and rows with nearly all of their weight on them."""
    torch.manual_seed(0)
    layer, x = Layer(way, causal=True), torch.randn(2, 300, 12)
    with torch.no_grad():
        layer.query.weight.mul_(6)
    selected = chosen((2, 4, 300, 300), None, [0, 2], None, keys)
    exact = Layer(way, causal=True).double()
    exact.load_state_dict(layer.state_dict())
    for by in (0.0, 1e-3, 20.0):
        factors = torch.where(selected > 0, by, 1.0)
        expected = Reference(exact, lambda w, factors=factors: multiplied(w, factors)).heads(x.double())
        variables = [x.requires_grad_(), *layer.parameters()]
        with regard.intervene(layer, {"*": reweight(keys=keys, by=by, heads=[0, 2], empty="zero")}):
            out = layer(x)
        torch.testing.assert_close(out, exact.out(expected.transpose(1, 2).flatten(-2)).float(), atol=2e-5, rtol=1e-4)
        assert all(
            g is None or g.isfinite().all() for g in torch.autograd.grad(out.sum(), variables, allow_unused=True)
        )
        with torch.no_grad(), regard.intervene(layer, {"*": reweight(keys=keys, by=by, heads=[0, 2], empty="zero")}):
            torch.testing.assert_close(layer(x), out.detach(), atol=2e-5, rtol=1e-4)
