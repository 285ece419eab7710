"""Multi-head attention as a layer: against the formula, with and without a cache."""

import copy
import itertools
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from regard import masks
from regard.nn import Alibi, GrowingCache, KVCache, MultiHeadAttention, Rotary, SlidingCache

# -- the formula -----------------------------------------------------------------------------------------


def projections(layer):
    """Return W_q, W_k, W_v and their biases from a packed or an unpacked layer."""
    if hasattr(layer, "qkv"):
        weight, bias = layer.qkv.weight, layer.qkv.bias
    else:
        weight = None
        bias = None if layer.q.bias is None else torch.cat((layer.q.bias, layer.kv.bias))
    q, kv = layer.heads * layer.d_k, layer.kv_heads * layer.d_k
    matrices = (layer.q.weight, *layer.kv.weight.split(kv)) if weight is None else weight.split((q, kv, kv))
    return zip(matrices, (None,) * 3 if bias is None else bias.split((q, kv, kv)), strict=True)


def plainly(layer, x, context=None, seen=None, places=None):
    """Return output and weights from the formula of the module's docstring, head by head, in float64."""
    layer, x = copy.deepcopy(layer).double(), x.double()
    context = x if context is None else context.double()
    q, k, v = (
        nn.functional.linear(y, w, b).unflatten(-1, (-1, layer.d_k)).transpose(-3, -2)
        for y, (w, b) in zip((x, context, context), projections(layer), strict=True)
    )
    if layer.q_norm is not None:
        q, k = layer.q_norm(q), layer.k_norm(k)
    if layer.rotary is not None:
        q, k = layer.rotary(q, k, 0 if places is None else places)
    k, v = (y.repeat_interleave(layer.heads // layer.kv_heads, -3) for y in (k, v))
    scores = q @ k.mT * (layer.d_k**-0.5 if layer.scale is None else layer.scale)
    queries, keys = scores.shape[-2:]
    if layer.alibi is not None:
        distance = (torch.arange(queries)[:, None] + keys - queries - torch.arange(keys)).abs()
        scores = scores - torch.tensor(layer.alibi.slopes).double()[:, None, None] * distance
    if layer.causal:
        past = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)
        seen = past if seen is None else past & seen
    if seen is not None:
        scores = scores.masked_fill(~seen, float("-inf"))
    if layer.sinks is not None:
        column = layer.sinks[:, None, None].expand(*scores.shape[:-1], 1)
        weights = torch.softmax(torch.cat((scores, column), -1), -1)[..., :-1]
    else:
        weights = torch.softmax(scores, -1).nan_to_num(0.0)  # an empty row
    return layer.out((weights @ v).transpose(-3, -2).flatten(-2)), weights


def lively(layer):
    """Randomise all parameters of a layer, so that each of them affects the output."""
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if parameter.dim() == 1:
                parameter.uniform_(-1, 1) if "norm" not in name else parameter.uniform_(0.5, 2)
    return layer


OPTIONS = {
    "plain": {},
    "grouped": {"kv_heads": 2},
    "multi-query": {"kv_heads": 1},
    "no bias": {"bias": False},
    "output bias alone": {"bias": False, "out_bias": True},
    "own head width": {"d_k": 5},
    "own scale": {"scale": 0.3},
    "causal": {"causal": True},
    "rotary": {"rotary": True},
    "partly rotary, interleaved": {"rotary": Rotary(6, rotated=4, interleaved=True)},
    "alibi": {"alibi": True},
    "qk_norm": {"qk_norm": True},
    "sinks": {"sinks": True},
    "everything": {
        "kv_heads": 2, "causal": True, "rotary": True, "alibi": True, "qk_norm": True, "sinks": True
    },
}  # fmt: skip
OF_ONE_SEQUENCE = ("causal", "rotary", "alibi")


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("mask", [None, masks.padding([3, 7]), masks.window(keys=3)])
def test_self_attention_equals_the_formula(options, mask):
    layer, x = lively(MultiHeadAttention(24, 4, **options)), torch.randn(2, 7, 24)
    seen = None if mask is None else mask.tensor(7, 7)
    want, want_weights = plainly(layer, x, seen=seen)
    output, weights = layer(x, mask=mask, weights=True)
    torch.testing.assert_close(layer(x, mask=mask).double(), want, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(output.double(), want, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(weights.double(), want_weights, atol=1e-6, rtol=1e-4)
    _, mean = layer(x, mask=mask, weights="mean")
    torch.testing.assert_close(mean, weights.mean(-3), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("context_dim", [None, 24, 10])
@pytest.mark.parametrize("options", ["plain", "grouped", "no bias", "own head width", "qk_norm", "sinks"])
def test_cross_attention_equals_the_formula(options, context_dim):
    layer = lively(MultiHeadAttention(24, 4, context_dim=context_dim, **OPTIONS[options]))
    x, context = torch.randn(2, 5, 24), torch.randn(2, 9, context_dim or 24)
    want, want_weights = plainly(layer, x, context)
    output, weights = layer(x, context, weights=True)
    torch.testing.assert_close(output.double(), want, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(weights.double(), want_weights, atol=1e-6, rtol=1e-4)
    known = layer.project_context(context)
    assert known.keys.shape == (2, layer.kv_heads, 9, layer.d_k)
    assert torch.equal(layer(x, known), layer(x, context))


@given(
    lead=st.sampled_from([(), (1,), (3,), (2, 2), (0,)]),
    length=st.integers(0, 6),
    keys=st.integers(0, 6),
    kv_heads=st.sampled_from([1, 2, 4]),
    d_k=st.integers(1, 5),
)
def test_any_shape_of_x_and_context(lead, length, keys, kv_heads, d_k):
    layer = MultiHeadAttention(8, 4, kv_heads, d_k=d_k)
    x, context = torch.randn(*lead, length, 8), torch.randn(*lead, keys, 8)
    output, weights = layer(x, context, weights=True)
    assert output.shape == x.shape
    assert weights.shape == (*lead, 4, length, keys)
    want, _ = plainly(layer, x, context)
    torch.testing.assert_close(output.double(), want, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(layer(x, context).double(), want, atol=1e-5, rtol=1e-5)
    assert layer(x).shape == x.shape


def test_results_equal_torchs_layer_with_the_same_weights():
    theirs = nn.MultiheadAttention(32, 4, batch_first=True)
    ours = MultiHeadAttention(32, 4)
    ours.qkv.load_state_dict({"weight": theirs.in_proj_weight, "bias": theirs.in_proj_bias})
    ours.out.load_state_dict(theirs.out_proj.state_dict())
    x = torch.randn(2, 6, 32)
    output, weights = ours(x, mask=masks.causal(), weights=True)
    want, want_weights = theirs(x, x, x, attn_mask=masks.causal().to_mha(6, 6), average_attn_weights=False)
    torch.testing.assert_close(output, want, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(weights, want_weights, atol=1e-6, rtol=1e-5)


def test_x_as_its_own_context_equals_self_attention():
    layer, x = MultiHeadAttention(8, 2, causal=True, rotary=True), torch.randn(2, 5, 8)
    assert torch.equal(layer(x, x), layer(x))


@pytest.mark.parametrize("options", ["plain", "sinks"])
def test_an_empty_row_is_zero_and_has_no_gradient(options):
    layer = MultiHeadAttention(8, 2, out_bias=False, **OPTIONS[options])
    x = torch.randn(2, 4, 8, requires_grad=True)
    output, weights = layer(x, mask=masks.padding([0, 4]), weights=True)
    assert output[0].eq(0).all()
    assert weights[0].eq(0).all()
    layer(x, mask=masks.padding([0, 4])).square().sum().backward()
    assert x.grad is not None
    assert x.grad[0].eq(0).all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in layer.parameters())


def test_weights_sum_to_one_and_with_sinks_to_less():
    x = torch.randn(2, 5, 8)
    _, weights = MultiHeadAttention(8, 2)(x, weights=True)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 5))
    _, weights = MultiHeadAttention(8, 2, sinks=True)(x, weights=True)
    assert weights.sum(-1).max() < 1


def test_rotary_positions_of_each_batch_item():
    layer, x = MultiHeadAttention(16, 2, rotary=True), torch.randn(2, 4, 16)
    places = torch.tensor([[0, 1, 2, 3], [0, 2, 4, 6]])
    output = layer(x, positions=places)
    torch.testing.assert_close(output[0], layer(x[0]), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(output[1], layer(x[1], positions=places[1]), atol=1e-6, rtol=1e-5)
    assert (output[1] - layer(x)[1]).abs().max() > 1e-3  # stretched places are other places
    shifted = layer(x, positions=100)  # but only distances count
    torch.testing.assert_close(shifted, layer(x), atol=1e-5, rtol=1e-4)


# -- gradients and modes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_gradients_of_all_parameters_and_inputs(options):
    layer = lively(MultiHeadAttention(24, 4, **options))
    x = torch.randn(2, 5, 24)
    mine, plain = x.clone().requires_grad_(), x.clone().double().requires_grad_()
    layer(mine).square().sum().backward()
    slow = copy.deepcopy(layer).double()
    slow.zero_grad()
    # plainly copies its layer: have it use this one, so that its parameters get the gradient
    for parameter in slow.parameters():
        parameter.requires_grad_()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copy, "deepcopy", lambda same: same)
        plainly(slow, plain)[0].square().sum().backward()
    torch.testing.assert_close(mine.grad.double(), plain.grad, atol=1e-4, rtol=1e-3)
    for got, want in zip(layer.parameters(), slow.parameters(), strict=True):
        torch.testing.assert_close(got.grad.double(), want.grad, atol=2e-3, rtol=1e-3)


def test_gradients_of_cross_attention_reach_x_and_context():
    layer = MultiHeadAttention(8, 2).double()
    x = torch.randn(1, 2, 8, dtype=torch.float64, requires_grad=True)
    context = torch.randn(1, 3, 8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, (x, context))


@pytest.mark.parametrize("options", ["plain", "sinks"])
def test_dropout_is_for_training_only(options):
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(16, 2, dropout=0.5, **OPTIONS[options]), torch.randn(2, 6, 16)
    assert not torch.equal(layer(x), layer(x))
    mean = layer(x[:1].expand(5000, 6, 16)).mean(0)
    layer.eval()
    assert torch.equal(layer(x), layer(x))
    assert (mean - layer(x)[0]).abs().max() < 0.1  # dropped weights are made up for by the others
    _, weights = layer.train()(x, weights=True)
    torch.testing.assert_close(weights, layer.eval()(x, weights=True)[1])  # weights are before dropout


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("options", ["plain", "everything"])
def test_half_precision(options, dtype):
    layer, x = lively(MultiHeadAttention(24, 4, **OPTIONS[options])), torch.randn(2, 7, 24)
    want, _ = plainly(layer, x)
    output, weights = layer.to(dtype)(x.to(dtype), weights=True)
    assert output.dtype == weights.dtype == dtype
    torch.testing.assert_close(output.double(), want, atol=0.1, rtol=0.1)
    layer(x.to(dtype)).sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in layer.parameters())


def test_autocast():
    layer, x = MultiHeadAttention(24, 4, **OPTIONS["everything"]), torch.randn(2, 7, 24)
    with torch.autocast("cpu", torch.bfloat16):
        output = layer(x)
    assert output.dtype == torch.bfloat16
    torch.testing.assert_close(output.float(), layer(x), atol=0.1, rtol=0.1)


# -- decoding with a cache -------------------------------------------------------------------------------

CUTS = {"token by token": [1] * 12, "prefill, then tokens": [7, *[1] * 5], "chunks": [3, 4, 1, 4], "whole": [12]}


def decode(layer, x, cache, cuts, **more):
    parts, start = [], 0
    with torch.no_grad():
        for n in cuts:
            parts.append(layer(x[:, start : start + n], cache=cache, **more))
            start += n
    assert start == x.shape[1] == cache.length
    return torch.cat(parts, 1)


@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize(
    "options", ["plain", "grouped", "own head width", "rotary", "alibi", "qk_norm", "sinks", "everything"]
)
def test_decoding_with_a_cache_equals_the_causal_forward(options, cuts):
    layer = lively(MultiHeadAttention(24, 4, **OPTIONS[options] | {"causal": True})).eval()
    x = torch.randn(2, 12, 24)
    want, _ = plainly(layer, x)
    for cache in (KVCache(2, layer.kv_heads, 12, layer.d_k), GrowingCache(capacity=2), SlidingCache(12)):
        got = decode(layer, x, cache, cuts)
        torch.testing.assert_close(got.double(), want, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize(
    ("options", "window", "first"),
    [
        *(("plain", window, first) for window, first in [(1, 0), (3, 0), (5, 0), (1, 1), (3, 2), (20, 2)]),
        *((options, 3, first) for options in ("grouped", "rotary", "sinks") for first in (0, 2)),
        ("alibi", 3, 0),
    ],
)
def test_decoding_with_a_sliding_cache_equals_the_window(options, window, first, cuts):
    layer = lively(MultiHeadAttention(24, 4, **OPTIONS[options] | {"causal": True})).eval()
    x = torch.randn(2, 12, 24)
    rule = masks.causal() & (masks.window(keys=window) | masks.prefix(first))
    want, _ = plainly(layer, x, seen=rule.tensor(12, 12))
    got = decode(layer, x, SlidingCache(window, first=first), cuts)
    torch.testing.assert_close(got.double(), want, atol=1e-5, rtol=1e-5)


def test_alibi_counts_distances_inside_a_cache_that_keeps_the_first():
    layer, x = MultiHeadAttention(16, 2, causal=True, alibi=True), torch.randn(1, 9, 16)
    got = decode(layer, x, SlidingCache(2, first=1), [1] * 9)[:, -1:]
    want = layer(x[:, [0, 7, 8]])[:, -1:]  # as if the tokens between had never been
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)


def test_a_causal_mask_replaces_the_causal_option():
    layer, x = MultiHeadAttention(16, 2, kv_heads=1), torch.randn(1, 8, 16)
    want = layer(x, mask=masks.causal())
    for cache in (GrowingCache(), KVCache(1, 1, 8, 8)):
        got = decode(layer, x, cache, [5, 1, 2], mask=masks.causal())
        torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)
    got = decode(layer, x, SlidingCache(3), [5, 1, 2], mask=masks.causal())  # it brings its own window
    torch.testing.assert_close(got, layer(x, mask=masks.window(keys=3)), atol=1e-5, rtol=1e-5)


def test_padding_on_the_left_with_a_cache():
    layer, x = MultiHeadAttention(16, 2, causal=True, rotary=True), torch.randn(1, 6, 16)
    want = layer(x)
    padded, cache = torch.cat((torch.randn(1, 2, 16), x), 1), GrowingCache()
    places = (torch.arange(8) - 2).clamp(min=0)[None]
    real = (torch.arange(8) >= 2)[None]
    with torch.no_grad():
        steps = [
            layer(padded[:, a:b], cache=cache, positions=places[:, a:b], mask=masks.padding(real[:, :b]))
            for a, b in ((0, 5), (5, 6), (6, 8))
        ]
    torch.testing.assert_close(torch.cat(steps, 1)[:, 2:], want, atol=1e-5, rtol=1e-5)


def test_reorder_continues_from_the_chosen_beams():
    layer = MultiHeadAttention(16, 2, causal=True, rotary=True)
    start, end = torch.randn(2, 5, 16), torch.randn(2, 1, 16)
    index = torch.tensor([1, 1])
    want = layer(torch.cat((start[index], end), 1))[:, -1:]
    for cache in (KVCache(2, 2, 8, 8), GrowingCache(), SlidingCache(16)):
        with torch.no_grad():
            layer(start, cache=cache)
            cache.reorder(index)
            torch.testing.assert_close(layer(end, cache=cache), want, atol=1e-5, rtol=1e-5)


def test_weights_of_a_decoding_step():
    layer, x, cache = MultiHeadAttention(16, 2, causal=True), torch.randn(1, 4, 16), GrowingCache()
    _, want = layer(x, weights=True)
    with torch.no_grad():
        layer(x[:, :3], cache=cache)
        _, weights = layer(x[:, 3:], cache=cache, weights=True)
    assert weights.shape == (1, 2, 1, 4)
    torch.testing.assert_close(weights, want[:, :, 3:], atol=1e-6, rtol=1e-5)


# -- as a module -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", ["plain", "everything"])
def test_a_layer_can_be_saved_and_copied(options):
    layer, x = lively(MultiHeadAttention(24, 4, **OPTIONS[options])), torch.randn(2, 5, 24)
    want = layer(x)
    other = MultiHeadAttention(24, 4, **OPTIONS[options])
    other.load_state_dict(layer.state_dict())
    for same in (other, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(same(x), want)


def test_names_in_the_state_dict():
    names = {"qkv.weight", "qkv.bias", "out.weight", "out.bias"}
    assert set(MultiHeadAttention(8, 2).state_dict()) == names
    assert set(MultiHeadAttention(8, 2, rotary=True, alibi=True, causal=True).state_dict()) == names
    more = set(MultiHeadAttention(8, 2, context_dim=6, qk_norm=True, sinks=True, bias=False).state_dict())
    assert more == {"q.weight", "kv.weight", "out.weight", "q_norm.weight", "k_norm.weight", "sinks"}


@pytest.mark.parametrize("options", ["plain", "grouped", "causal", "everything"])
def test_compiled_without_a_graph_break(options, unchecked):
    torch.compiler.reset()
    layer, x = lively(MultiHeadAttention(24, 4, **OPTIONS[options])), torch.randn(2, 5, 24)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    # Rules cannot be combined inside the graph while jaxtyping wraps their classes, as it does in these tests.
    mask = None if layer.causal else masks.causal()
    for each in (None, mask):
        want = layer(x, mask=each)
        torch.testing.assert_close(compiled(x, mask=each), want, atol=1e-5, rtol=1e-5)
    x.requires_grad_()
    got, want = (torch.autograd.grad(f(x, mask=mask).square().sum(), x)[0] for f in (compiled, layer))
    torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)


def test_vmap_and_per_sample_gradients():
    layer, x = MultiHeadAttention(8, 2, causal=True, rotary=True), torch.randn(3, 4, 8)
    torch.testing.assert_close(torch.func.vmap(layer)(x), layer(x), atol=1e-5, rtol=1e-5)
    parameters = dict(layer.named_parameters())

    def loss(parameters, x):
        return torch.func.functional_call(layer, parameters, (x,)).square().sum()

    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
    layer(x).square().sum().backward()
    torch.testing.assert_close(each["qkv.weight"].sum(0), layer.qkv.weight.grad, atol=1e-4, rtol=1e-4)


def test_each_projection_is_initialised_separately():
    torch.manual_seed(0)
    layer = MultiHeadAttention(128, 8, kv_heads=2)
    parts = (*layer.qkv.weight.split((128, 32, 32)), layer.out.weight)
    for part, outputs in zip(parts, (128, 32, 32, 128), strict=True):
        assert part.abs().max() <= (6 / (128 + outputs)) ** 0.5
        assert part.std().item() == pytest.approx((2 / (128 + outputs)) ** 0.5, rel=0.03)
    assert not layer.qkv.bias.any()
    assert not layer.out.bias.any()


def test_nothing_is_copied_between_the_projections():
    """q, k and v share one storage, and the merged heads are a view, as the module's docstring states."""
    layer, seen = MultiHeadAttention(64, 4, kv_heads=2), {}
    layer.qkv.register_forward_hook(lambda _, __, out: seen.update(packed=out))
    layer.out.register_forward_pre_hook(lambda _, args: seen.update(merged=args[0]))
    for length, mask in itertools.product((16, 300), (None, masks.causal(), masks.window(keys=50))):
        with torch.no_grad():
            layer(torch.randn(2, length, 64), mask=mask)
        assert seen["packed"].shape == (2, length, 128)
        assert seen["merged"].is_contiguous()


def test_repr_shows_the_options():
    layer = MultiHeadAttention(8, 2, causal=True, dropout=0.1)
    assert repr(layer).splitlines()[1].strip() == "d_model=8, heads=2, kv_heads=2, d_k=4, dropout=0.1, causal=True"


# -- bad input -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: MultiHeadAttention(128, 24), ValueError, r"24 heads for 128 channels; .* 16 .* and 32"),
        (lambda: MultiHeadAttention(64, 8, kv_heads=3), ValueError, r"got 3 for 8 query heads; .* 1, 2, 4, 8"),
        (lambda: MultiHeadAttention(64, 0), ValueError, r"heads must be at least 1, got 0"),
        (lambda: MultiHeadAttention(64, 8, d_k=0), ValueError, r"\(d_k\) must be at least 1, got 0"),
        (lambda: MultiHeadAttention(64, 8, dropout=1.5), ValueError, r"0 ≤ dropout < 1, got 1.5"),
        (lambda: MultiHeadAttention(64, 8, rotary=Rotary(4)), ValueError, r"d_k=8, got 4; use rotary=True"),
        (lambda: MultiHeadAttention(6, 2, rotary=True), ValueError, r"in pairs: .* at most d_k = 3, got 3"),
        (
            lambda: MultiHeadAttention(8, 2, context_dim=6, causal=True),
            ValueError,
            r"built with causal, which use positions",
        ),
    ],
)
def test_invalid_options_are_rejected(build, error, message):
    with pytest.raises(error, match=message):
        build()


def test_adjust_heads_uses_the_nearest_count():
    with pytest.warns(UserWarning, match=r"24 heads do not divide 128 channels: using 16 heads of width 8"):
        layer = MultiHeadAttention(128, 24, adjust_heads=True)
    assert (layer.heads, layer.kv_heads, layer.d_k) == (16, 16, 8)


X = torch.zeros(2, 3, 8)


@pytest.mark.parametrize(
    ("options", "call", "error", "message"),
    [
        ({}, lambda f: f(torch.zeros(2, 3, 6)), ValueError, r"x of shape \(..., L, 8\), got \(2, 3, 6\)"),
        ({}, lambda f: f(torch.zeros(8)), ValueError, r"got \(8,\)"),
        ({}, lambda f: f(X.long()), TypeError, r"got torch.int64; embed token ids first"),
        ({}, lambda f: f(X, torch.zeros(2, 3, 5)), ValueError, r"the context of .* \(..., L, 8\), got \(2, 3, 5\)"),
        ({}, lambda f: f(X, torch.zeros(4, 3, 8)), ValueError, r"batch dimension 0 is 2 in the query and 4"),
        ({}, lambda f: f(X, positions=3), ValueError, r"positions are for rotary, which this layer does not have"),
        ({}, lambda f: f(X, X + 0, positions=3), ValueError, r"a layer with rotary accepts no context"),
        ({}, lambda f: f(X, X + 0, cache=GrowingCache()), ValueError, r"compute its .* with project_context"),
        ({"causal": True}, lambda f: f(X, X + 0), ValueError, r"built with causal, which use positions"),
        ({"rotary": True, "alibi": True}, lambda f: f(X, X + 0), ValueError, r"built with rotary, alibi"),
        ({"context_dim": 6}, lambda f: f(X), ValueError, r"context of width 6, and x has width 8; call layer\(x,"),
        ({}, lambda f: f(X, cache=GrowingCache()), ValueError, r"3 new tokens .* with causal=True, or pass mask="),
        ({}, lambda f: f(X[0], cache=GrowingCache()), ValueError, r"must be \(B, L, D\), got 2 dim.*x\[None\]"),
        ({}, lambda f: f(X[:, :1], cache=KVCache(3, 2, 4, 4)), ValueError, r"holds \(B=3, H_kv=2, n, d=4\)"),
        ({}, lambda f: f(X, mask=X), TypeError, r"a mask must be boolean"),
        ({}, lambda f: f(X, masks.causal()), TypeError, r"second argument is the context .* pass a mask as mask="),
        ({}, lambda f: f(X, torch.ones(3, 3) > 0), TypeError, r"second argument is the context"),
        ({"rotary": True}, lambda f: f(X, positions=torch.zeros(2)), ValueError, r"\(3,\) or \(2, 3\) with"),
    ],
)  # fmt: skip
def test_invalid_calls_are_rejected(options, call, error, message, unchecked):
    with torch.no_grad(), pytest.raises(error, match=message):
        call(MultiHeadAttention(8, 2, **options))


def test_a_cache_under_autograd_is_rejected():
    with pytest.raises(ValueError, match=r"decode under torch.no_grad\(\)"):
        MultiHeadAttention(8, 2)(X[:, :1], cache=GrowingCache())


def test_alibi_has_one_slope_per_query_head():
    assert MultiHeadAttention(24, 6, kv_heads=2, alibi=True).alibi == Alibi(6)
