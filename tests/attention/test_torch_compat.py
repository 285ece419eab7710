"""`compat.MultiheadAttention` equals torch's layer wherever torch returns numbers, and never returns NaN."""

import copy
import inspect
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import regard.compat
from regard.compat import MultiheadAttention, replace
from support.torch_comparison import close, item, pair, right_padding, row, torch_may_warn

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}


# -- the same numbers ------------------------------------------------------------------------------------


@dataclass
class Case:
    layer: dict[str, Any]
    inputs: tuple[Tensor, Tensor, Tensor]
    call: dict[str, Any]
    dtype: torch.dtype
    training: bool


@st.composite
def cases(draw: st.DrawFn) -> Case:
    torch.manual_seed(draw(st.integers(0, 1000)))
    flag = st.booleans()
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    heads, d_k, batch = draw(st.integers(1, 4)), draw(st.integers(1, 9)), draw(st.integers(1, 3))
    queries = draw(st.integers(1, 6))
    same = draw(st.sampled_from(["all", "key and value", "none"]))
    keys = queries if same == "all" else draw(st.integers(1, 6))
    width = heads * d_k
    layer = {"embed_dim": width, "num_heads": heads, "bias": draw(flag), "batch_first": draw(flag), "dtype": dtype}
    layer |= {"add_bias_kv": draw(flag), "add_zero_attn": draw(flag)}
    kdim = vdim = width
    if same != "all" and draw(flag):
        kdim = layer["kdim"] = draw(st.integers(1, 7))
        vdim = layer["vdim"] = kdim if same == "key and value" else draw(st.integers(1, 7))
    batched = draw(flag)
    batch = batch if batched else 1

    def tensor(length: int, features: int) -> Tensor:
        shape = (batch, length) if layer["batch_first"] else (length, batch)
        return torch.randn(*(shape if batched else (length,)), features, dtype=dtype, requires_grad=True)

    query = tensor(queries, width)
    key = query if same == "all" else tensor(keys, kdim)
    value = key if same != "none" else tensor(keys, vdim)

    call: dict[str, Any] = {"need_weights": draw(flag), "average_attn_weights": draw(flag)}
    attn_shape = draw(st.sampled_from([None, (queries, keys), (batch * heads, queries, keys)]))
    if attn_shape is not None:
        call["attn_mask"] = mask(attn_shape, draw(st.sampled_from(["bool", "float", "learned"])), dtype)
    if draw(flag):
        shape = (batch, keys) if batched else (keys,)
        call["key_padding_mask"] = mask(shape, draw(st.sampled_from(["bool", "float"])), dtype)
    return Case(layer, (query, key, value), call, dtype, draw(flag))


def mask(shape: tuple[int, ...], kind: str, dtype: torch.dtype) -> Tensor:
    """Return a mask in torch's convention that hides half of the pairs but never the first key, so no row is empty."""
    hides = torch.rand(shape) < 0.5
    hides[..., 0] = False
    if kind == "bool":
        return hides
    added = torch.randn(shape, dtype=dtype)
    return added.requires_grad_() if kind == "learned" else added.masked_fill(hides, -torch.inf)


@settings(max_examples=150, deadline=None)
@given(cases())
def test_outputs_and_gradients_equal_torch(case: Case) -> None:
    theirs, ours = pair(**case.layer)
    theirs.train(case.training), ours.train(case.training)
    masks = [x for x in case.call.values() if isinstance(x, Tensor) and x.requires_grad]
    asked = list({id(x): x for x in (*case.inputs, *masks)}.values())
    tolerance = TOLERANCE[case.dtype]

    with torch_may_warn():
        its, its_weights = theirs(*case.inputs, **case.call)
    mine, my_weights = ours(*case.inputs, **case.call)
    close(mine, its, tolerance)
    close(my_weights, its_weights, tolerance)
    with torch.no_grad(), torch_may_warn():
        close(ours(*case.inputs, **case.call)[0], its, tolerance)
        if case.layer["batch_first"] and not case.training:
            close(ours(*case.inputs, **case.call)[1], theirs(*case.inputs, **case.call)[1], tolerance)

    pull = torch.randn_like(its)

    def gradients(layer: nn.Module, output: Tensor, weights: Tensor | None) -> tuple[Tensor | None, ...]:
        total = (output * pull).sum() + (0 if weights is None else weights.square().sum())
        return torch.autograd.grad(total, (*asked, *layer.parameters()), allow_unused=True)

    for my, it in zip(gradients(ours, mine, my_weights), gradients(theirs, its, its_weights), strict=True):
        if my is None or it is None:
            assert all(x is None or not x.any() for x in (my, it))
        else:
            close(my, it, 10 * tolerance)


def triangle(n: int) -> Tensor:
    return torch.ones(n, n, dtype=torch.bool).triu(1)


LONG_MASKS = {
    "causal": lambda n: {"attn_mask": triangle(n)},
    "causal, hinted": lambda n: {"attn_mask": triangle(n), "is_causal": True},
    "causal float": lambda n: {"attn_mask": nn.Transformer.generate_square_subsequent_mask(n)},
    "nearly causal": lambda n: {"attn_mask": triangle(n).logical_xor(torch.eye(n, dtype=torch.bool).roll(1, 0))},
    "padding": lambda n: {"key_padding_mask": right_padding(3, n, 0.1)},
    "a little padding": lambda n: {"key_padding_mask": right_padding(3, n, 0.9)},
    "left padding": lambda n: {"key_padding_mask": right_padding(3, n, 0.1).flip(1)},
    "scattered padding": lambda n: {"key_padding_mask": torch.rand(3, n) < 0.6},
    "float padding": lambda n: {
        "key_padding_mask": torch.zeros(3, n).masked_fill(right_padding(3, n, 0.2), -torch.inf)
    },
    "padding with numbers": lambda n: {"key_padding_mask": torch.randn(3, n)},
    "causal and padding": lambda n: {"attn_mask": triangle(n), "key_padding_mask": right_padding(3, n, 0.3)},
    "causal and padding, hinted": lambda n: {
        "attn_mask": triangle(n),
        "key_padding_mask": right_padding(3, n, 0.3),
        "is_causal": True,
    },
    "random and padding": lambda n: {
        "attn_mask": triangle(n)[:, torch.randperm(n)].logical_and(~torch.eye(n, dtype=torch.bool)),
        "key_padding_mask": right_padding(3, n, 0.3),
    },
    "per head and padding": lambda n: {
        "attn_mask": mask((6, n, n), "bool", torch.float32),
        "key_padding_mask": right_padding(3, n, 0.3),
    },
    "added and padding": lambda n: {"attn_mask": torch.randn(n, n), "key_padding_mask": right_padding(3, n, 0.3)},
}


@pytest.mark.parametrize("length", [130, 257])
@pytest.mark.parametrize("kind", LONG_MASKS)
def test_masks_converted_to_rules_do_not_change_the_result(kind: str, length: int) -> None:
    torch.manual_seed(0)
    theirs, ours = pair(8, 2, batch_first=True)
    call = LONG_MASKS[kind](length)
    x = torch.randn(3, length, 8, requires_grad=True)
    pull = torch.randn(3, length, 8)
    for weights in (False, True):
        with torch_may_warn():
            its, its_weights = theirs(x, x, x, need_weights=weights, **call)
        mine, my_weights = ours(x, x, x, need_weights=weights, **call)
        seen = ~its.isnan()
        close(mine[seen], its[seen])
        close(my_weights, None if its_weights is None else its_weights.nan_to_num(0.0))
    (my,) = torch.autograd.grad((mine * pull).sum(), x)
    assert my.isfinite().all()
    if seen.all():
        close(my, torch.autograd.grad((its * pull).sum(), x)[0], 1e-4)


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("dropout", [0.3, 1.0])
def test_dropout_drops_the_same_weights_as_torch(weights: bool, average: bool, dropout: float) -> None:
    theirs, ours = pair(12, 3, dropout=dropout)
    x = torch.randn(7, 2, 12)
    found = []
    for layer in (theirs, ours):
        torch.manual_seed(5)
        found.append(layer(x, x, x, attn_mask=triangle(7), need_weights=weights, average_attn_weights=average))
    (its, its_weights), (mine, my_weights) = found
    close(mine, its)
    close(my_weights, its_weights)
    assert weights is False or not torch.allclose(my_weights.sum(-1), torch.ones(()))
    assert torch.equal(ours.eval()(x, x, x)[0], ours(x, x, x)[0])


def test_training_equals_training_with_torchs_layer() -> None:
    # In float64: the squares of a normalised row have a constant mean, so gradients are near the rounding error, which
    # Adam would enlarge.
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True, dtype=torch.float64)
    losses = []
    for model in (copy.deepcopy(layer), replace(copy.deepcopy(layer))):
        torch.manual_seed(1)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(5):
            x = torch.randn(3, 6, 8, dtype=torch.float64)
            loss = model(x, src_key_padding_mask=right_padding(3, 6, 0.4)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append(loss.detach())
    close(*losses)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("autocast", [True, False])
def test_half_precision(dtype: torch.dtype, weights: bool, autocast: bool) -> None:
    torch.manual_seed(0)
    theirs, ours = pair(16, 4, batch_first=True)
    x = torch.randn(2, 9, 16)
    exact = theirs(x, x, x, attn_mask=triangle(9))[0]
    if not autocast:
        theirs, ours, x = theirs.to(dtype), ours.to(dtype), x.to(dtype)
    with torch.autocast("cpu", dtype, enabled=autocast):
        its, its_weights = theirs(x, x, x, attn_mask=triangle(9), need_weights=weights)
        mine, my_weights = ours(x, x, x, attn_mask=triangle(9), need_weights=weights)
    assert mine.dtype == its.dtype == dtype
    assert (my_weights is None) == (its_weights is None)
    if my_weights is not None:
        assert my_weights.dtype == its_weights.dtype
    error = (mine - exact).abs().max(), (its - exact).abs().max()
    assert error[0] <= 2 * error[1] + 1e-3


@pytest.mark.parametrize(("batch", "queries", "keys"), [(2, 0, 3), (0, 2, 3), (2, 3, 0)])
@pytest.mark.parametrize("weights", [True, False])
def test_inputs_without_queries_keys_or_batch_items(batch: int, queries: int, keys: int, weights: bool) -> None:
    _, ours = pair(4, 2, batch_first=True)
    output, maps = ours(torch.randn(batch, queries, 4), *[torch.randn(batch, keys, 4)] * 2, need_weights=weights)
    assert output.shape == (batch, queries, 4)
    assert maps is None or maps.shape == (batch, queries, keys)
    assert keys or torch.equal(output, ours.out_proj.bias.expand_as(output))


# -- empty rows ------------------------------------------------------------------------------------------


def as_float(hides: Tensor) -> Tensor:
    return torch.zeros(hides.shape).masked_fill(hides, -torch.inf)


EMPTY = {
    "a padded item": lambda n: {"key_padding_mask": item(2, n)},
    "a padded item, float": lambda n: {"key_padding_mask": as_float(item(2, n))},
    "a hidden row": lambda n: {"attn_mask": row(n)},
    "a hidden row, float": lambda n: {"attn_mask": as_float(row(n))},
    "a hidden row of each head": lambda n: {"attn_mask": row(n).repeat(4, 1, 1)},
    "what two masks hide together": lambda n: {
        "attn_mask": ~triangle(n).mT,
        "key_padding_mask": torch.arange(n).expand(2, n) > 0,
    },
    "all, learned": lambda n: {"attn_mask": torch.full((n, n), -torch.inf, requires_grad=True)},
}


@pytest.mark.parametrize("length", [5, 140])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("kind", EMPTY)
def test_empty_rows_are_zero(kind: str, dropout: float, length: int) -> None:
    ours = pair(8, 2, batch_first=True, dropout=dropout)[1]
    call = EMPTY[kind](length)
    x = torch.randn(2, length, 8, requires_grad=True)
    hides = torch.zeros(2, 2, length, length, dtype=torch.bool)
    for name, given_mask in call.items():
        hidden = given_mask if given_mask.dtype == torch.bool else given_mask.isneginf()
        hides |= hidden[:, None, None] if name == "key_padding_mask" else hidden.view(-1, 1, length, length)[:1]
    empty = hides[:, 0].all(-1)
    assert empty.any()

    for training in (True, False):
        ours.train(training)
        for weights, average in ((True, True), (True, False), (False, True)):
            for grad in (True, False):
                with torch.set_grad_enabled(grad):
                    output, maps = ours(x, x, x, need_weights=weights, average_attn_weights=average, **call)
                assert output.isfinite().all()
                close(output[empty], ours.out_proj.bias.expand_as(output[empty]))
                if maps is not None:
                    maps = maps if average else maps.transpose(1, 2)
                    assert not maps[empty].any()
                    assert maps.isfinite().all()
                if grad:
                    learned = [p for p in (*ours.parameters(), x, *call.values()) if p.requires_grad]
                    total = output.sum() + (0 if maps is None else maps.square().sum())
                    found = torch.autograd.grad(total, learned, allow_unused=True)
                    assert all(g is None or g.isfinite().all() for g in found)


@pytest.mark.skipif(not torch.__version__.startswith("2.13"), reason="says what torch 2.13 does")
def test_torch_returns_nan_for_empty_rows() -> None:
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.randn(2, 5, 8)
    for weights, training, grad, gives in ((1, 1, 1, 1), (0, 1, 1, 0), (1, 0, 0, 1), (0, 0, 0, 1)):
        layer.train(bool(training))
        with torch.set_grad_enabled(bool(grad)):
            output, _ = layer(x, x, x, key_padding_mask=item(2, 5), need_weights=bool(weights))
        assert output.isnan().any() == bool(gives)


# -- the same layer ----------------------------------------------------------------------------------------

CONSTRUCTIONS = [
    {},
    {"bias": False},
    {"add_bias_kv": True, "add_zero_attn": True},
    {"kdim": 5, "vdim": 3, "dropout": 0.1, "batch_first": True},
    {"dtype": torch.float64},
]


@pytest.mark.parametrize("options", CONSTRUCTIONS)
def test_same_construction(options: dict[str, Any]) -> None:
    made = []
    for kind in (nn.MultiheadAttention, MultiheadAttention):
        torch.manual_seed(3)
        made.append((kind(8, 2, **options), torch.rand(1)))
    (theirs, their_next), (ours, our_next) = made
    assert torch.equal(their_next, our_next)
    assert list(theirs.state_dict()) == list(ours.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(theirs.parameters(), ours.parameters(), strict=True))
    plain = {name: x for name, x in vars(theirs).items() if not name.startswith("_") or name == "_qkv_same_embed_dim"}
    assert all(getattr(ours, name) == x for name, x in plain.items())
    assert repr(theirs) == repr(ours)
    theirs.load_state_dict(ours.state_dict())
    ours.load_state_dict(theirs.state_dict())


def test_same_signatures() -> None:
    assert isinstance(MultiheadAttention(4, 2), nn.MultiheadAttention)
    assert inspect.signature(MultiheadAttention) == inspect.signature(nn.MultiheadAttention)
    ours, theirs = (inspect.signature(kind.forward) for kind in (MultiheadAttention, nn.MultiheadAttention))
    assert [(p.name, p.default) for p in ours.parameters.values()] == [
        (p.name, p.default) for p in theirs.parameters.values()
    ]
    assert regard.compat.__all__ == ["MultiheadAttention", "replace"]


x3, x2 = torch.zeros(4, 4, 4), torch.zeros(4, 4)
WRONG: dict[str, tuple[tuple[Tensor, ...], dict[str, Tensor]]] = {
    "key of another rank": ((x3, x2, x3), {}),
    "value of another rank": ((x3, x3, x2), {}),
    "no batch, but a batch of keys": ((x2, x3, x2), {}),
    "too many dimensions": ((x3[None],) * 3, {}),
    "too few dimensions": ((x2[0],) * 3, {}),
    "another width": ((torch.zeros(4, 4, 6),) * 3, {}),
    "keys and values of different lengths": ((x3, x3, torch.zeros(5, 4, 4)), {}),
    "padding of one dimension": ((x3, x3, x3), {"key_padding_mask": torch.zeros(4, dtype=torch.bool)}),
    "padding for another batch": ((x3, x3, x3), {"key_padding_mask": torch.zeros(3, 4, dtype=torch.bool)}),
    "padding for other keys": ((x3, x3, x3), {"key_padding_mask": torch.zeros(4, 5, dtype=torch.bool)}),
    "padding of two dimensions, no batch": ((x2, x2, x2), {"key_padding_mask": torch.zeros(1, 4) == 1}),
    "padding of whole numbers": ((x3, x3, x3), {"key_padding_mask": torch.zeros(4, 4, dtype=torch.uint8)}),
    "mask of one dimension": ((x3, x3, x3), {"attn_mask": torch.zeros(4, dtype=torch.bool)}),
    "mask of other lengths": ((x3, x3, x3), {"attn_mask": torch.zeros(4, 5)}),
    "mask for other heads": ((x3, x3, x3), {"attn_mask": torch.zeros(5, 4, 4)}),
    "mask for other heads, no batch": ((x2, x2, x2), {"attn_mask": torch.zeros(5, 4, 4) == 1}),
    "mask of whole numbers": ((x3, x3, x3), {"attn_mask": torch.zeros(4, 4, dtype=torch.long)}),
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("inference", [True, False])
def test_errors_are_those_of_torch(what: str, inference: bool) -> None:
    inputs, call = WRONG[what]
    raised = []
    for kind in (nn.MultiheadAttention, MultiheadAttention):
        layer = kind(4, 2).train(not inference)
        with torch.set_grad_enabled(not inference), pytest.raises((AssertionError, RuntimeError)) as error:
            layer(*inputs, **call)
        raised.append((error.type, str(error.value)))
    assert raised[0] == raised[1]


@pytest.mark.parametrize("inference", [True, False])
def test_is_causal_without_a_mask_is_rejected(inference: bool) -> None:
    layer = MultiheadAttention(4, 2, batch_first=True).train(not inference)
    with torch.set_grad_enabled(not inference), pytest.raises(RuntimeError, match="Need attn_mask if specifying"):
        layer(x3, x3, x3, is_causal=True)


@pytest.mark.parametrize("options", [{}, {"add_bias_kv": True}, {"add_zero_attn": True}])
@pytest.mark.parametrize(("queries", "keys"), [(2, 5), (4, 4), (5, 4)])
def test_is_causal_hides_no_more_than_the_mask(queries: int, keys: int, options: dict[str, bool]) -> None:
    _, ours = pair(4, 2, batch_first=True, **options)
    q, k = torch.randn(1, queries, 4), torch.randn(1, keys, 4)
    end_aligned = torch.ones(queries, keys, dtype=torch.bool).triu(keys - queries + 1)
    hinted = ours(q, k, k, attn_mask=end_aligned, is_causal=True, need_weights=False)[0]
    close(hinted, ours(q, k, k, attn_mask=end_aligned, need_weights=True)[0])


def test_small_inputs_use_torchs_operator_unless_it_returns_nan() -> None:
    theirs, ours = (layer.eval() for layer in pair(8, 2, batch_first=True))
    x = torch.randn(2, 5, 8)
    native = torch._native_multi_head_attention
    with torch.no_grad(), mock.patch("torch._native_multi_head_attention", side_effect=native) as operator:
        close(ours(x, x, x)[0], theirs(x, x, x)[0])
        assert operator.call_count == 2
        assert ours(x, x, x, key_padding_mask=item(2, 5))[0].isfinite().all()
        long = torch.randn(2, 100, 8)
        ours(long, long, long)
        assert operator.call_count == 3
    x[0, 0, 0] = torch.nan
    with torch.no_grad():
        assert ours(x, x, x)[0].isnan().any(-1).tolist() == [[True] * 5, [False] * 5]
