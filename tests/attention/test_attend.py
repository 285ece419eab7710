"""`attend` against the NumPy reference, on every path and with extreme inputs."""

import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from regard import attend, masks
from regard.attention import attend_with_lse
from regard.attention.reference import numpy_attention as reference
from support.strategies import problems, rules

CLOSE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def inputs(*shape: int, heads: int | None = None, keys: int | None = None, dtype=torch.float32, grad=False):
    """q (B, H, L, d), k and v (B, H_kv, S, d), as strided views of a packed projection where that is possible."""
    batch, h, length, d = shape
    q = torch.randn(batch, length, h, d, dtype=dtype).transpose(1, 2)
    k, v = (torch.randn(batch, keys or length, heads or h, d, dtype=dtype).transpose(1, 2) for _ in range(2))
    return tuple(x.requires_grad_(grad) for x in (q, k, v))


def expected(q, k, v, mask=None, bias=None, scale=None):
    """Return output, weights and log-sum-exp of the reference, in float64."""
    arrays = [x.detach().double().numpy() for x in (q, k, v)]
    mask = mask.numpy() if isinstance(mask, torch.Tensor) else mask
    bias = None if bias is None else bias.detach().double().numpy()
    out, weights = reference.attention(*arrays, mask, bias=bias, scale=scale, weights=True)
    lse = reference.log_sum_exp(reference.scores(*arrays[:2], mask, bias=bias, scale=scale))
    return out, weights, lse


def near(ours: torch.Tensor, theirs: np.ndarray, tolerance: float = 1e-5) -> None:
    np.testing.assert_allclose(ours.detach().double().numpy(), theirs, rtol=tolerance, atol=tolerance)


# -- the specification ---------------------------------------------------------------------------------------


@given(problems(), st.sampled_from(list(CLOSE)))
def test_output_weights_and_lse_equal_the_reference(problem, dtype) -> None:
    tensor = lambda x: None if x is None else torch.from_numpy(np.asarray(x)).to(dtype)  # noqa: E731
    q, k, v, bias = (tensor(x) for x in (problem.query, problem.keys, problem.values, problem.bias))
    mask = None if problem.mask is None else torch.from_numpy(problem.mask)
    if dtype in (torch.float16, torch.bfloat16) and bias is not None:
        bias = bias.float().to(dtype)
    out, weights, lse = expected(q, k, v, mask, bias, problem.scale)
    # Scores of 1e3 are rounded to 1e-4 in float32, and so are the exponents.
    tolerance = CLOSE[dtype] * max(1.0, float(np.abs(np.where(np.isfinite(lse), lse, 0)).max(initial=0)) / 10)
    near(attend(q, k, v, mask, bias=bias, scale=problem.scale), out, tolerance)
    ours, maps = attend(q, k, v, mask, bias=bias, scale=problem.scale, weights=True)
    near(ours, out, tolerance)
    near(maps, weights, tolerance)
    near(attend_with_lse(q, k, v, mask, bias=bias, scale=problem.scale).lse, lse, tolerance)


SIZES = st.tuples(st.integers(0, 3), st.sampled_from([1, 2, 4]), st.integers(1, 300), st.integers(1, 300))


@given(SIZES, st.data())
@settings(max_examples=120)
def test_mask_rules_equal_the_formula_forward_and_backward(size, data) -> None:
    """Sequences of several blocks: tiles, strips, several runs, triangles, with and without a bias."""
    batch, heads, queries, keys = size
    mask = data.draw(rules(*size))
    kv_heads = data.draw(st.sampled_from([h for h in (1, 2, 4) if heads % h == 0]))
    torch.manual_seed(data.draw(st.integers(0, 1000)))
    q, k, v = inputs(batch, heads, queries, 8, heads=kv_heads, keys=keys, grad=True)
    bias = data.draw(st.sampled_from([None, torch.randn(heads, 1, keys), torch.randn(queries, keys)]))
    out, weights, lse = expected(q, k, v, mask, bias)
    ours = attend_with_lse(q, k, v, mask, bias=bias)
    near(ours.output, out)
    near(ours.lse, lse)
    assert (attend(q, k, v, mask, bias=bias) == ours.output).all()

    d_out, d_lse = torch.randn_like(ours.output), torch.randn_like(ours.lse)
    finite = ~ours.lse.isneginf()
    got = torch.autograd.grad([ours.output, ours.lse], [q, k, v], [d_out, d_lse * finite])
    want = torch.autograd.grad(
        plain(q.double(), k.double(), v.double(), mask, bias), [q, k, v], [d_out.double(), (d_lse * finite).double()]
    )
    for mine, theirs in zip(got, want, strict=True):
        near(mine, theirs.double().numpy(), 2e-5)

    with_maps, maps = attend(q, k, v, mask, bias=bias, weights=True)
    near(maps, weights)
    near(with_maps, out)
    with torch.no_grad():
        near(attend(q, k, v, mask, bias=bias, weights="mean")[1], weights.mean(-3))


def plain(q, k, v, mask=None, bias=None, scale=None):
    """Return output and log-sum-exp (0 for empty rows), from differentiable operations of torch."""
    group = q.shape[-3] // k.shape[-3]
    k, v = k.repeat_interleave(group, -3), v.repeat_interleave(group, -3)
    s = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    s = s if bias is None else s + bias
    if mask is not None:
        s = s.masked_fill(~mask.tensor(q.shape[-2], k.shape[-2]), float("-inf"))
    empty = s.isneginf().all(-1, keepdim=True)
    s = s.masked_fill(empty, 0.0)
    return s.softmax(-1).masked_fill(empty, 0.0) @ v, s.logsumexp(-1).masked_fill(empty[..., 0], 0.0)


@given(st.tuples(st.integers(0, 2), st.sampled_from([1, 2]), st.integers(0, 4), st.integers(1, 4)), st.data())
@settings(max_examples=25)
def test_transforms_equal_those_of_the_formula(size, data) -> None:
    """torch.func with masks of every kind, any scale, empty batches and no queries."""
    batch, heads, queries, keys = size
    mask = data.draw(rules(*size, depth=1))
    scale = data.draw(st.sampled_from([None, 0.7, -0.7, 0.0, -3.0]))
    torch.manual_seed(data.draw(st.integers(0, 1000)))
    q, k, v, dq, dk, dv = (
        torch.randn(batch, h, n, 3, dtype=torch.float64)
        for _ in range(2)
        for h, n in ((heads, queries), (1, keys), (1, keys))
    )
    ours = lambda *x: attend(*x, mask, scale=scale)  # noqa: E731
    formula = lambda *x: plain(*x, mask, scale=scale)[0]  # noqa: E731

    def transformed(f):
        yield torch.func.grad(lambda q: f(q, k, v).square().sum())(q)
        yield from torch.func.jvp(f, (q, k, v), (dq, dk, dv))
        yield torch.func.vmap(f, (0, None, None))(torch.stack([q, dq]), k, v)
        yield from torch.func.vjp(f, q, k, v)[1](dq)
        yield torch.func.vmap(torch.func.grad(lambda q: f(q, k, v).square().sum()))(torch.stack([q, dq]))
        if batch and queries:
            yield torch.func.jacrev(f, 1)(q, k, v)
            yield torch.func.jacfwd(f, 2)(q, k, v)

    for mine, theirs in zip(transformed(ours), transformed(formula), strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-12, rtol=1e-12)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("scale", [float("nan"), float("inf"), float("-inf"), 10**400])
def test_a_scale_that_is_not_finite_is_rejected(scale) -> None:
    x = torch.randn(1, 2, 4)
    with pytest.raises(ValueError, match="scale must be a finite number"):
        attend(x, x, x, masks.causal(), scale=scale)


@pytest.mark.parametrize("scale", ["1", 1j, torch.ones(2)])
def test_a_scale_that_is_no_number_is_rejected(scale, unchecked: None) -> None:
    x = torch.randn(1, 2, 4)
    with pytest.raises(TypeError, match="scale must be one real number"):
        attend(x, x, x, masks.causal(), scale=scale)


@pytest.mark.parametrize(
    "create",
    [
        lambda: masks.padding(torch.tensor([2, 3])),
        lambda: masks.padding(torch.tensor([[True, False, True], [False, False, False]])),
        lambda: masks.documents(torch.tensor([[0, 0, 1], [0, 1, 1]])) & masks.causal(),
        lambda: masks.given(torch.tensor([[True, False, True]] * 3)),
    ],
)
def test_masks_of_tensors_created_inside_torch_func(create) -> None:
    q = torch.randn(2, 1, 3, 4, dtype=torch.float64)

    def function(create):
        return lambda q: attend(q, q, q, create()).square().sum()

    mask = create()
    want = torch.func.grad(function(lambda: mask))(q)
    for transform in (torch.func.grad, torch.func.jacfwd, torch.func.jacrev):
        torch.testing.assert_close(transform(function(create))(q), want)
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(function(create)))(q[None])[0], want)


def test_masks_in_any_memory_layout() -> None:
    """Before torch 2.8 the CPU operators ignore the stride of a mask along the keys."""
    q, k, v = inputs(2, 2, 5, 8, keys=7, grad=True)
    for table in (torch.rand(2, 1, 7, 5) < 0.6, torch.rand(2, 1, 7, 5).log()):
        strided = table.transpose(-1, -2)
        for each in (strided, strided[..., ::2].repeat_interleave(2, -1)[..., :7]):
            options = {"mask": each} if each.dtype == torch.bool else {"bias": each}
            copied = {name: x.contiguous() for name, x in options.items()}
            torch.testing.assert_close(attend(q, k, v, **options), attend(q, k, v, **copied))
            ours, want = (
                torch.autograd.grad(attend(q, k, v, **x).square().sum(), [q, k, v]) for x in (options, copied)
            )
            torch.testing.assert_close(ours, want)
            near(attend(q, k, v, **options), expected(q, k, v, copied.get("mask"), copied.get("bias"))[0])


def test_long_causal_tiles_and_backward_in_pieces() -> None:
    """Sizes at which the kernel's causal flag and the backward in pieces of keys are used."""
    for mask in (None, masks.causal(), masks.causal() & masks.padding([1100])):
        q, k, v = inputs(1, 1, 1200, 8, grad=True)
        out, _, _ = expected(q, k, v, mask)
        ours = attend(q, k, v, mask)
        near(ours, out)
        g = torch.randn_like(ours)
        want = torch.autograd.grad(plain(q, k, v, mask)[0], [q, k, v], g)
        for mine, theirs in zip(torch.autograd.grad(ours, [q, k, v], g), want, strict=True):
            torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_gradients_in_other_precisions(dtype: torch.dtype) -> None:
    q, k, v = inputs(2, 2, 200, 16, dtype=dtype, grad=True)
    for mask in (None, masks.window(keys=30), masks.causal()):
        g = torch.randn(q.shape, dtype=dtype)
        got = torch.autograd.grad(attend(q, k, v, mask), [q, k, v], g)
        want = torch.autograd.grad(plain(q.double(), k.double(), v.double(), mask)[0], [q, k, v], g.double())
        for mine, theirs in zip(got, want, strict=True):
            assert mine.dtype == dtype
            near(mine, theirs.double().numpy(), 3 * CLOSE[dtype])


# -- empty rows ----------------------------------------------------------------------------------------------

NOTHING = {
    "boolean tensor": lambda L, S: torch.zeros(L, S, dtype=torch.bool),
    "padding of length 0": lambda L, S: masks.padding([0]),
    "causal with L > S": lambda L, S: masks.causal() & ~masks.prefix(S),
    "rule": lambda L, S: masks.prefix(0),
}


@pytest.mark.parametrize("make", NOTHING.values(), ids=NOTHING.keys())
@pytest.mark.parametrize("size", [(3, 3), (200, 300)])
@pytest.mark.parametrize("weights", [False, True, "mean"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_empty_row_is_zero_everywhere(make, size, weights, dtype) -> None:
    q, k, v = inputs(1, 2, size[0], 8, keys=size[1], dtype=dtype, grad=True)
    found = attend(q, k, v, make(*size), weights=weights)
    for x in found if weights else (found,):
        assert (x == 0).all()
        x.sum().backward(retain_graph=True)
    assert all((x.grad == 0).all() for x in (q, k, v))


def test_an_empty_row_does_not_change_other_rows() -> None:
    q, k, v = inputs(1, 1, 200, 8, grad=True)
    mask = torch.ones(200, 200, dtype=torch.bool)
    mask[7] = False
    out = attend(q, k, v, mask)
    out.square().sum().backward()
    assert (out[:, :, 7] == 0).all()
    assert (q.grad[:, :, 7] == 0).all()
    assert all(x.grad.isfinite().all() for x in (q, k, v))
    near(out[:, :, :7], expected(q[:, :, :7], k, v)[0])


def test_a_bias_of_minus_infinity_gives_an_empty_row() -> None:
    q, k, v = inputs(1, 1, 40, 8)
    out, maps = attend(q, k, v, bias=torch.full((40, 40), float("-inf")), weights=True)
    assert (out == 0).all()
    assert (maps == 0).all()


@pytest.mark.parametrize(("queries", "keys"), [(0, 3), (3, 0), (0, 0)])
@pytest.mark.parametrize("mask", [None, masks.causal(), masks.window(keys=2)], ids=repr)
def test_inputs_without_queries_or_keys(queries: int, keys: int, mask: masks.Mask | None) -> None:
    q, k, v = (torch.randn(2, 2, n, 4, requires_grad=True) for n in (queries, keys, keys))
    out, maps = attend(q, k, v, mask, weights=True)
    assert out.shape == (2, 2, queries, 4)
    assert maps.shape == (2, 2, queries, keys)
    assert (out == 0).all()
    attend(q, k, v, mask).sum().backward()
    assert (attend_with_lse(q, k, v, mask).lse == float("-inf")).all()
    with torch.no_grad():
        assert attend(q, k, v, mask).shape == out.shape


# -- numbers that are too large ------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "size"), [(torch.float16, 1e2), (torch.bfloat16, 1e15), (torch.float32, 1e15)])
@pytest.mark.parametrize("mask", [None, masks.causal(), masks.window(keys=20)], ids=repr)
def test_huge_scores(dtype: torch.dtype, size: float, mask: masks.Mask | None) -> None:
    """Scores of ±1e4 in float16, ±1e30 in float32: the weights are those of the largest score, and finite."""
    q, k, v = inputs(1, 2, 130, 16, keys=300, dtype=torch.float32)
    q, k, v = (q * size).to(dtype), (k * size).to(dtype), v.to(dtype)
    out, weights, _ = expected(q, k, v, mask)
    near(attend(q, k, v, mask), out, CLOSE[dtype])
    near(attend(q, k, v, mask, weights=True)[1], weights, CLOSE[dtype])


@pytest.mark.parametrize("mask", [None, masks.causal(), masks.window(keys=150), masks.blocks(200)], ids=repr)
def test_equal_huge_scores_get_equal_weights(mask: masks.Mask | None) -> None:
    q, k, v = torch.full((1, 1, 300, 4), 1e15), torch.full((1, 1, 300, 4), 1e15), torch.randn(1, 1, 300, 4)
    seen = torch.ones(300, 300) if mask is None else mask.tensor(300, 300).float()
    torch.testing.assert_close(attend(q, k, v, mask)[0, 0], (seen / seen.sum(-1, keepdim=True)) @ v[0, 0])


def test_nan_is_propagated() -> None:
    q, k, v = inputs(1, 1, 40, 8)
    q[0, 0, 3, 0] = float("nan")
    out = attend(q, k, v)
    assert out[0, 0, 3].isnan().all()
    assert out[0, 0, :3].isfinite().all()


# -- shapes --------------------------------------------------------------------------------------------------


def test_any_leading_dimensions() -> None:
    q, k, v = torch.randn(2, 3, 4, 5, 8), torch.randn(2, 3, 2, 7, 8), torch.randn(2, 3, 2, 7, 6)
    mask, bias = torch.rand(3, 1, 5, 7) < 0.7, torch.randn(2, 1, 4, 5, 7)
    out, weights, _ = expected(q, k, v, mask, bias)
    near(attend(q, k, v, mask, bias=bias), out)
    near(attend(q, k, v, mask, bias=bias, weights=True)[1], weights)
    lengths = torch.tensor([[1, 7, 3], [0, 2, 5]])
    by_rule = attend(q, k, v, masks.padding(lengths.flatten()))
    near(by_rule, expected(q, k, v, (torch.arange(7) < lengths[..., None])[:, :, None, None])[0])
    assert attend(q[0, 0, 0], k[0, 0, 0], v[0, 0, 0], masks.causal()).shape == (5, 6)
    assert attend(q[0, 0], k[0, 0], v[0, 0], masks.causal()).shape == (4, 5, 6)
    assert attend(q[0, 0, 0, 0], k[0, 0, 0], v[0, 0, 0]).shape == (6,)


def test_keys_shared_by_the_batch() -> None:
    q, k, v = torch.randn(3, 2, 5, 4), torch.randn(1, 2, 6, 4), torch.randn(1, 2, 6, 4)
    near(
        attend(q, k, v, masks.causal()),
        expected(q, k.expand(3, -1, -1, -1), v.expand(3, -1, -1, -1), masks.causal())[0],
    )


def test_non_contiguous_inputs() -> None:
    q, k, v = (torch.randn(2, 40, 8, 4).permute(0, 3, 1, 2) for _ in range(3))
    assert not q.is_contiguous()
    for mask in (None, masks.causal(), masks.window(keys=5)):
        near(attend(q, k, v, mask), expected(q, k, v, mask)[0])
        turned = [x.transpose(-1, -2) for x in (q, k, v)]
        near(attend(*turned, mask), expected(*turned, mask)[0])


def test_gradient_of_a_bias() -> None:
    q, k, v = inputs(2, 2, 30, 8, dtype=torch.float64, grad=True)
    bias = torch.randn(2, 30, 30, dtype=torch.float64, requires_grad=True)
    g = torch.randn_like(q)
    got = torch.autograd.grad(attend(q, k, v, masks.causal(), bias=bias), [q, bias], g)
    want = torch.autograd.grad(plain(q, k, v, masks.causal(), bias)[0], [q, bias], g)
    torch.testing.assert_close(got, want)


def test_dropout_is_optional_and_weights_are_those_before_it() -> None:
    q, k, v = inputs(1, 2, 50, 8)
    assert (attend(q, k, v) == attend(q, k, v)).all()
    torch.manual_seed(0)
    out, maps = attend(q, k, v, masks.causal(), dropout=0.5, weights=True)
    near(maps, expected(q, k, v, masks.causal())[1])
    kept = torch.zeros(200, *out.shape)
    for n in range(200):
        kept[n] = attend(q, k, v, masks.causal(), dropout=0.5)
    near(kept.mean(0)[:, :, 20:], expected(q, k, v, masks.causal())[0][:, :, 20:], 0.15)


def test_returning_weights_does_not_change_the_output() -> None:
    q, k, v = inputs(2, 4, 64, 16)
    for mask in (None, masks.causal(), masks.padding([5, 64])):
        torch.testing.assert_close(attend(q, k, v, mask), attend(q, k, v, mask, weights=True)[0], atol=2e-6, rtol=1e-5)


def test_autocast() -> None:
    q, k, v = inputs(1, 2, 40, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert attend(q, k, v).dtype == torch.bfloat16
        assert attend(q.bfloat16(), k, v, masks.causal()).dtype == torch.bfloat16


# -- transforms ----------------------------------------------------------------------------------------------

RULES = [
    None,
    masks.causal(),
    masks.window(keys=9),
    torch.rand(40, 48, generator=torch.Generator().manual_seed(0)) < 0.5,
]


@pytest.mark.parametrize("mask", RULES, ids=["none", "causal", "window", "tensor"])
def test_vmap(mask) -> None:
    q, k, v = torch.randn(3, 2, 40, 8), torch.randn(3, 2, 48, 8), torch.randn(3, 2, 48, 8)
    whole = attend(q, k, v, mask)
    torch.testing.assert_close(torch.vmap(lambda q, k, v: attend(q, k, v, mask))(q, k, v), whole)
    across = torch.vmap(lambda q, k, v: attend(q, k, v, mask), in_dims=1, out_dims=1)(q, k, v)
    torch.testing.assert_close(across, whole)
    shared = torch.vmap(lambda q: attend(q, k[0], v[0], mask))(q)
    torch.testing.assert_close(shared[2], attend(q[2], k[0], v[0], mask))
    maps = torch.vmap(lambda q, k, v: attend(q, k, v, mask, weights=True))(q, k, v)[1]
    torch.testing.assert_close(maps, attend(q, k, v, mask, weights=True)[1])
    each = torch.vmap(torch.func.grad(lambda q, k, v: attend(q, k, v, mask).square().sum()))(q, k, v)
    wanted = torch.func.grad(lambda q: attend(q, k, v, mask).square().sum())(q)
    torch.testing.assert_close(each, wanted)


def test_vmap_over_masks() -> None:
    q, k, v = torch.randn(3, 2, 10, 8), torch.randn(3, 2, 12, 8), torch.randn(3, 2, 12, 8)
    table = torch.rand(3, 10, 12) < 0.5
    torch.testing.assert_close(torch.vmap(attend)(q, k, v, table), attend(q, k, v, table[:, None]))
    lengths = torch.tensor([[1], [12], [5]])
    by_item = torch.vmap(lambda q, k, v, n: attend(q[None], k[None], v[None], masks.padding(n))[0])(q, k, v, lengths)
    torch.testing.assert_close(by_item, attend(q, k, v, masks.padding(lengths[:, 0])))


@pytest.mark.parametrize("mask", [None, masks.causal(), torch.rand(5, 6) < 0.6], ids=["none", "causal", "tensor"])
@pytest.mark.parametrize("kv_heads", [1, 2])
def test_first_and_second_gradients_equal_numerical_ones(mask, kv_heads: int) -> None:
    q, k, v = inputs(1, 2, 5, 2, heads=kv_heads, keys=6, dtype=torch.float64, grad=True)
    for function in (
        lambda *x: attend(*x, mask),
        lambda *x: attend(*x, mask, weights=True),
        lambda *x: attend_with_lse(*x, masks.window(keys=4)),
    ):
        assert torch.autograd.gradcheck(function, (q, k, v))
        assert torch.autograd.gradgradcheck(function, (q, k, v), fast_mode=True)


def test_batched_gradients() -> None:
    q, k, v = inputs(1, 2, 40, 8, grad=True)
    g = torch.randn(3, *q.shape)
    (many,) = torch.autograd.grad(attend(q, k, v), q, g, is_grads_batched=True)
    torch.testing.assert_close(many[1], torch.autograd.grad(attend(q, k, v), q, g[1])[0])


def test_meta_tensors() -> None:
    x = torch.randn(2, 4, 600, 8, device="meta")
    assert attend(x, x, x, masks.causal()).shape == x.shape
    assert attend(x, x, x, weights=True)[1].shape == (2, 4, 600, 600)


def test_second_derivatives_through_torch_func() -> None:
    q, k, v = torch.randn(1, 3, 4), torch.randn(1, 5, 4), torch.randn(1, 5, 4)
    square = lambda f: torch.func.jacrev(torch.func.jacrev(lambda q: f(q).square().sum()))(q)  # noqa: E731
    torch.testing.assert_close(square(lambda q: attend(q, k, v)), square(lambda q: plain(q, k, v)[0]))


COMPILED = {
    "none": None,
    "causal": masks.causal(),
    "window": masks.window(keys=9),
    "padding": masks.padding(torch.tensor([148, 3])),
    "documents": masks.documents(torch.arange(148) // 10) & masks.causal(),
    "tensor": torch.rand(140, 148) < 0.5,
    "blocks": ~masks.blocks(16) | masks.prefix(3),
}


@pytest.mark.parametrize("mask", COMPILED.values(), ids=COMPILED.keys())
def test_compiled_without_a_graph_break(mask, unchecked) -> None:
    torch._dynamo.reset()
    q, k, v = inputs(2, 2, 140, 8, keys=148, grad=True)
    for weights in (False, True):
        compiled = torch.compile(lambda *x: attend(*x, mask, weights=weights), fullgraph=True, backend="aot_eager")  # noqa: B023
        got, want = compiled(q, k, v), attend(q, k, v, mask, weights=weights)
        torch.testing.assert_close(got, want)
        torch.testing.assert_close(
            torch.autograd.grad(got[0].sum(), [q, k, v]), torch.autograd.grad(want[0].sum(), [q, k, v])
        )


INSIDE = """
import torch
from regard import attend, masks

torch.set_num_threads(1)

def decode(q, k, v, lengths):
    return attend(q, k, v, masks.causal() & masks.padding(lengths)) * 2

def slide(q, k, v):
    return attend(q, k, v, masks.window(keys=50)) * 2

class Word:
    def __and__(self, other):
        return 1

try:
    torch.compile(lambda x: x * (Word() & Word()), fullgraph=True, backend="eager")(torch.ones(1))
except torch._dynamo.exc.Unsupported:
    print("skip")
    raise SystemExit

torch.manual_seed(0)
q, k, v = (torch.randn(2, 2, 300, 8, dtype=torch.float64, requires_grad=True) for _ in range(3))
for function, more in ((decode, (torch.tensor([300, 7]),)), (slide, ())):
    want, got = function(q, k, v, *more), torch.compile(function, fullgraph=True)(q, k, v, *more)
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(*(torch.autograd.grad(x.square().sum(), [q, k, v]) for x in (got, want)))
print("the same")
"""


def test_compiled_by_inductor_with_a_mask_created_inside() -> None:
    """Run in another process without the shape checker, because torch.compile does not support its wrappers."""
    done = subprocess.run([sys.executable, "-c", INSIDE], capture_output=True, text=True, check=False)
    if done.stdout.strip() == "skip":
        pytest.skip(f"torch.compile of torch {torch.__version__} does not trace operators such as & of Python classes")
    assert done.stdout.strip() == "the same", done.stderr


# -- bad input -----------------------------------------------------------------------------------------------


def x(*shape: int) -> torch.Tensor:
    return torch.randn(shape)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: attend(x(2, 4, 5, 8), x(4, 5, 8), x(4, 5, 8)), ValueError, "same number of dimensions"),
        (lambda: attend(x(), x(3, 4), x(3, 4)), ValueError, "single number"),
        (lambda: attend(x(4, 5, 8), x(4, 5, 6), x(4, 5, 6)), ValueError, "same last dimension d_k, got 8 and 6"),
        (lambda: attend(x(4, 5, 8), x(4, 7, 8), x(4, 6, 8)), ValueError, "7 keys and 6 values"),
        (lambda: attend(x(4, 5, 8), x(3, 5, 8), x(3, 5, 8)), ValueError, "got 3 for 4 query heads"),
        (lambda: attend(x(2, 4, 5, 8), x(3, 4, 5, 8), x(3, 4, 5, 8)), ValueError, "batch dimension 0 is 2 .* 3"),
        (
            lambda: attend(x(4, 5, 8).long(), x(4, 5, 8), x(4, 5, 8)),
            TypeError,
            r"q must be floating point.*q.float\(\)",
        ),
        (lambda: attend(x(4, 5, 8), x(4, 5, 8).double(), x(4, 5, 8)), TypeError, "one dtype"),
        (lambda: attend(np.zeros((4, 5, 8)), x(4, 5, 8), x(4, 5, 8)), TypeError, "must be a tensor, got ndarray"),
        (lambda: attend(*[x(2, 4, 5, 8)] * 3, x(5, 5) > 0, dropout=1.0), ValueError, "0 ≤ dropout < 1, got 1.0"),
        (lambda: attend(*[x(2, 4, 5, 8)] * 3, x(5, 6) > 0), ValueError, "dimension S is 6, expected 5 or 1"),
        (lambda: attend(*[x(2, 4, 5, 8)] * 3, x(3, 5, 5) > 0), ValueError, "dimension H is 3, expected 4 or 1"),
        (lambda: attend(*[x(2, 4, 5, 8)] * 3, x(2, 5) > 0), ValueError, r"regard.masks.padding\(mask\)"),
        (lambda: attend(*[x(2, 4, 5, 8)] * 3, x(5, 5)), TypeError, "True = visible.*bias="),
        (lambda: attend(*[x(2, 4, 5, 8)] * 3, (x(5, 5) > 0).int()), TypeError, "write mask != 0"),
        (
            lambda: attend(*[x(2, 4, 5, 8)] * 3, "causal"),
            TypeError,
            "mask of regard.masks or a boolean tensor, got str",
        ),
        (lambda: attend(*[x(2, 4, 5, 8)] * 3, bias=x(5, 5) > 0), TypeError, "pass booleans as mask="),
        (lambda: attend(*[x(2, 4, 5, 8)] * 3, bias=x(2, 5, 5)), ValueError, "bias of shape .* dimension H is 2"),
        (
            lambda: attend(*[x(2, 4, 5, 8)] * 3, masks.padding([9, 1])),
            ValueError,
            "length of 9 is longer than the 5 keys",
        ),
        (lambda: attend(*[x(2, 4, 5, 8)] * 3, masks.padding([1, 1, 1])), ValueError, "batch of 3, but the batch has 2"),
    ],
)
def test_bad_input(call, error: type[Exception], said: str, unchecked: None) -> None:
    with pytest.raises(error, match=said):
        call()


def test_results_equal_torch_sdpa() -> None:
    q, k, v = inputs(2, 4, 64, 16)
    torch.testing.assert_close(attend(q, k, v), F.scaled_dot_product_attention(q, k, v))
    torch.testing.assert_close(attend(q, k, v, masks.causal()), F.scaled_dot_product_attention(q, k, v, is_causal=True))
