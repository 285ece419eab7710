"""Softcap and score functions of `attend` against the NumPy reference and against the formula in float64."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard import attend, attend_with_lse, masks
from regard.attention.kernels.changed_scores import row_blocks, softcap_tiles
from regard.attention.layers.sinks import attend_with_sinks
from regard.attention.reference import numpy_attention as reference
from support.strategies import problems

CLOSE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
TABLE = torch.rand(2, 1, 150, 150, generator=torch.Generator().manual_seed(0)) > 0.5
TABLE[0, 0, 5] = False  # an empty row
MASKS = {
    "none": None,
    "causal": masks.causal(),
    "window": masks.window(keys=20),
    "padding": masks.causal() & masks.padding([60, 150]),
    "documents": masks.documents([0] * 70 + [1] * 80) & masks.causal(),
    "tensor": TABLE,
    "mixed": masks.given(TABLE) & masks.causal(),
    "empty": masks.padding([0, 150]),
}


def relative_bias(score: torch.Tensor, b: object, h: object, q_idx: object, k_idx: object) -> torch.Tensor:
    return score * 0.7 + 0.01 * (q_idx - k_idx) * (h + 1) + 0.5 * b


def inputs(length: int, keys: int, dtype: torch.dtype = torch.float32, width: int = 8) -> list[torch.Tensor]:
    """Return q (2, 4, L, 8), k and v (2, 2, S, …) with gradients, as strided views."""
    sizes = ((length, 4, 8), (keys, 2, 8), (keys, 2, width))
    return [torch.randn(2, n, h, d, dtype=dtype).transpose(1, 2).requires_grad_() for n, h, d in sizes]


def formula(q, k, v, mask, softcap, score_mod=None, scale=None, bias=None):
    """Return output and log-sum-exp in float64, from the definition."""
    length, keys = q.shape[2], k.shape[2]
    visible = torch.ones(1, 1, length, keys, dtype=torch.bool)
    if mask is not None:
        visible = mask if isinstance(mask, torch.Tensor) else mask.tensor(length, keys)
    s = q @ k.repeat_interleave(2, 1).transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    s = s if softcap is None else softcap * torch.tanh(s / softcap)
    s = s if bias is None else s + bias
    if score_mod is not None:
        b, h, i, j = (torch.arange(n) for n in s.shape)
        s = score_mod(s, b[:, None, None, None], h[:, None, None], i[:, None], j)
    empty = ~visible.expand(s.shape).any(-1)
    s = s.masked_fill(~visible, -1e9)
    w = s.softmax(-1).masked_fill(empty[..., None], 0.0)
    return w @ v.repeat_interleave(2, 1), s.logsumexp(-1).masked_fill(empty, float("-inf"))


def check(arguments, mask, tolerance=1e-5, **options) -> None:
    """Compare output, log-sum-exp and gradients with the formula in float64."""
    exact = [x.detach().double().requires_grad_() for x in arguments]
    ours, expected = attend_with_lse(*arguments, mask, **options), formula(*exact, mask, **options)
    grads = torch.randn(expected[0].shape, dtype=torch.float64), torch.randn(expected[1].shape, dtype=torch.float64)
    losses = []
    for results in (ours, expected):
        finite = results[1].masked_fill(results[1].isneginf(), 0.0)
        losses.append((results[0] * grads[0].to(results[0].dtype)).sum() + (finite * grads[1]).sum())
    torch.testing.assert_close(ours[0].double(), expected[0], atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(ours[1].double(), expected[1], atol=tolerance, rtol=tolerance)
    for a, b in zip(torch.autograd.grad(losses[0], arguments), torch.autograd.grad(losses[1], exact), strict=True):
        assert (a - b).abs().max() <= tolerance * max(1.0, float(b.abs().max()))


@given(problems(), st.sampled_from(list(CLOSE)), st.sampled_from([0.5, 3.0, 50.0, 1000.0]))
def test_softcap_equals_the_reference(problem, dtype, softcap) -> None:
    arrays = [problem.query, problem.keys, problem.values]
    q, k, v = (torch.from_numpy(np.asarray(x)).to(dtype) for x in arrays)
    bias = None if problem.bias is None else torch.from_numpy(np.asarray(problem.bias)).to(dtype)
    exact = [x.double().numpy() for x in (q, k, v)]
    options = {"scale": problem.scale, "softcap": softcap}
    out, weights = reference.attention(
        *exact, problem.mask, bias=None if bias is None else bias.double().numpy(), weights=True, **options
    )
    mask = None if problem.mask is None else torch.from_numpy(problem.mask)
    scores = reference.scores(*exact[:2], problem.mask, **options)
    tolerance = CLOSE[dtype] * max(1.0, float(np.abs(np.where(np.isfinite(scores), scores, 0)).max(initial=0)) / 10)
    for ours in (
        attend(q, k, v, mask, bias=bias, **options),
        attend(q, k, v, mask, bias=bias, weights=True, **options)[0],
    ):
        np.testing.assert_allclose(ours.double().numpy(), out, rtol=tolerance, atol=tolerance)
    maps = attend(q, k, v, mask, bias=bias, weights=True, **options)[1]
    np.testing.assert_allclose(maps.double().numpy(), weights, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("softcap", [2.0, 100.0])
def test_softcap_forward_and_backward(mask: str, softcap: float) -> None:
    check(inputs(150, 150, width=5), MASKS[mask], softcap=softcap)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("softcap", [None, 3.0])
def test_score_functions_forward_and_backward(mask: str, softcap: float | None) -> None:
    check(inputs(150, 150), MASKS[mask], softcap=softcap, score_mod=relative_bias)


@pytest.mark.parametrize(("length", "keys"), [(1, 150), (40, 150), (150, 40), (3, 2), (600, 600)])
def test_softcap_with_other_lengths(length: int, keys: int) -> None:
    check(inputs(length, keys), masks.causal(), softcap=3.0)
    check(inputs(length, keys), masks.causal(), softcap=None, score_mod=relative_bias)


def test_softcap_with_bias_scale_and_other_precisions() -> None:
    check(inputs(150, 150), masks.causal(), softcap=3.0, bias=torch.randn(4, 150, 150), scale=-0.4)
    check(inputs(150, 150, torch.float64), masks.causal(), 1e-12, softcap=3.0)
    for dtype in (torch.bfloat16, torch.float16):
        q, k, v = inputs(150, 150, dtype)
        expected = formula(q.double(), k.double(), v.double(), masks.causal(), 3.0)
        result = attend_with_lse(q, k, v, masks.causal(), softcap=3.0)
        assert result.lse.dtype == torch.float32
        assert (result.lse - expected[1]).abs().max() <= 1e-5  # the rows are normalised in float32
        assert (result.output - expected[0]).abs().max() <= CLOSE[dtype]


def test_no_matrix_of_all_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest tensor that the forward and backward passes create is smaller than one head's matrix of scores."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        size = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            for x in out if isinstance(out, tuple | list) else (out,):
                if isinstance(x, torch.Tensor):
                    Largest.size = max(Largest.size, x.numel())
            return out

    monkeypatch.setattr(softcap_tiles, "BLOCK_SCORES", 1 << 14)
    for options in ({"softcap": 5.0}, {"score_mod": relative_bias}):
        q, k, v = inputs(700, 700)
        Largest.size = 0
        with Largest():
            attend(q, k, v, masks.causal(), **options).sum().backward()
        assert Largest.size <= 700 * 700 // 2


def test_gradients_reach_tensors_of_the_function() -> None:
    table = torch.randn(4, 150, 150, requires_grad=True)
    q, k, v = inputs(150, 150)
    direction = torch.randn(2, 4, 150, 8)
    gradients = []
    for options in (
        {"score_mod": lambda score, b, h, i, j: score + table[h, i, j]},
        {"bias": table},
    ):
        out = attend(q, k, v, masks.causal(), **options)
        gradients.append(torch.autograd.grad((out * direction).sum(), (q, k, v, table)))
    for a, b in zip(*gradients, strict=True):
        assert (a - b).abs().max() <= 1e-5 * max(1.0, float(b.abs().max()))


def test_second_derivatives_and_torch_func() -> None:
    q, k, v = (x.detach().requires_grad_() for x in inputs(5, 5, torch.float64))

    def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return attend(q, k, v, masks.causal(), softcap=2.0)

    assert torch.autograd.gradcheck(run, (q, k, v))
    assert torch.autograd.gradgradcheck(run, (q, k, v))
    jacobian = torch.func.grad(lambda q: run(q, k, v).sum())(q)
    assert torch.allclose(jacobian, torch.autograd.grad(run(q, k, v).sum(), q)[0])
    mapped = torch.func.vmap(run)(*(torch.stack([x, x]) for x in (q, k, v)))
    assert torch.allclose(mapped[1], run(q, k, v))


def test_sinks_with_softcap() -> None:
    q, k, v = inputs(20, 20)
    sinks = torch.randn(4, requires_grad=True)
    out, weights = attend_with_sinks(q, k, v, sinks, masks.causal(), softcap=2.0, weights=True)
    scores = 2 * torch.tanh(q @ k.repeat_interleave(2, 1).transpose(-1, -2) * 8**-0.5 / 2)
    scores = scores.masked_fill(~masks.causal().tensor(20, 20), float("-inf"))
    expected = torch.cat([scores, sinks[:, None, None].expand(2, 4, 20, 1)], -1).softmax(-1)[..., :-1]
    assert torch.allclose(weights, expected, atol=1e-6)
    assert torch.allclose(out, expected @ v.repeat_interleave(2, 1), atol=1e-6)
    ours = torch.autograd.grad(attend_with_sinks(q, k, v, sinks, masks.causal(), softcap=2.0).sum(), sinks)[0]
    assert torch.allclose(ours, torch.autograd.grad((expected @ v.repeat_interleave(2, 1)).sum(), sinks)[0], atol=1e-5)


def test_the_function_receives_indices_from_0_and_hidden_pairs_stay_hidden() -> None:
    seen = []

    def record(score, b, h, q_idx, k_idx):
        seen.append((b.flatten().tolist(), h.flatten().tolist(), q_idx.flatten().tolist(), k_idx.flatten().tolist()))
        return torch.zeros_like(score)

    q, k, v = inputs(2, 3)
    _, weights = attend(q, k, v, masks.causal(), score_mod=record, weights=True)
    assert seen == [([0, 1], [0, 1, 2, 3], [0, 1], [0, 1, 2])]
    assert torch.allclose(weights[0, 0], torch.tensor([[0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3]]))


def test_dropout_and_one_query() -> None:
    q, k, v = inputs(30, 30)
    dropped = attend(q, k, v, softcap=2.0, dropout=0.5)
    assert (dropped - attend(q, k, v, softcap=2.0)).abs().max() > 0
    single = attend(q[0, 0, 3], k[0, 0], v[0, 0], softcap=2.0)
    assert torch.allclose(single, attend(q, k, v, softcap=2.0)[0, 0, 3], atol=1e-6)


def test_nan_is_propagated() -> None:
    q, k, v = (x.detach() for x in inputs(40, 40))
    q[0, 1, 3] = float("nan")
    out = attend(q, k, v, masks.causal(), softcap=2.0)
    assert out[0, 1, 3].isnan().all()
    assert out.isnan().sum() == 8


def test_compiled(unchecked: None) -> None:
    q, k, v = (x.detach() for x in inputs(20, 20))
    mask = masks.causal()
    run = torch.compile(lambda q, k, v: attend(q, k, v, mask, softcap=2.0), backend="eager")
    assert torch.allclose(run(q, k, v), attend(q, k, v, masks.causal(), softcap=2.0), atol=1e-6)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"softcap": 0.0}, ValueError, "softcap must be a finite number greater than 0, or None for no cap, got 0.0"),
        ({"softcap": float("inf")}, ValueError, "greater than 0, or None for no cap, got inf"),
        ({"softcap": "50"}, TypeError, "softcap must be a number, or None for no cap, got str"),
        (
            {"score_mod": 3},
            TypeError,
            r"score_mod must be a function of \(score, b, h, q_idx, k_idx\), or None, got int",
        ),
        ({"score_mod": lambda s, *_: s > 0}, TypeError, "a floating point tensor of scores, got torch.bool"),
        ({"score_mod": lambda s, *_: None}, TypeError, "a floating point tensor of scores, got NoneType"),
        (
            {"score_mod": lambda s, *_: s[..., :2]},
            ValueError,
            r"shape \(2, 4, 3, 2\) for scores of shape \(2, 4, 3, 3\)",
        ),
    ],
)
def test_bad_input(options, error: type[Exception], said: str, unchecked: None) -> None:
    with pytest.raises(error, match=said):
        attend(*(x.detach() for x in inputs(3, 3)), **options)


def test_the_compiled_tanh() -> None:
    pytest.importorskip("numba")
    from regard.attention.kernels.changed_scores.compiled_tanh import write_tanh

    x = torch.cat([torch.linspace(-12, 12, 2001), torch.logspace(-8, 0, 100), torch.tensor([float("inf"), 0.0])])
    ours = x.clone()
    write_tanh(ours.numpy(), np.float32(2))
    expected = 2 * torch.tanh(x.double())
    assert ((ours - expected).abs() <= 4e-7 * expected.abs()).all()
    nan = np.array([np.nan], np.float32)
    write_tanh(nan, np.float32(2))
    assert np.isnan(nan).all()


def test_many_scores_use_the_compiled_tanh(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    monkeypatch.setattr(softcap_tiles, "COMPILED_FROM", 1)
    check(inputs(150, 150), masks.causal(), softcap=3.0)
    assert row_blocks.softcap_tiles is softcap_tiles
