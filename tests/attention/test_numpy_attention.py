"""The NumPy reference, against explicit sums in Python, and against common mistakes."""

import math

import numpy as np
import pytest
from hypothesis import given
from jaxtyping import TypeCheckError

from regard.attention.reference import numpy_attention as reference
from regard.attention.reference.numpy_attention import (
    attention,
    log_sum_exp,
    merge_heads,
    multi_head_attention,
    softmax,
    split_heads,
)
from regard.attention.reference.shape_checks import check_shapes
from support.strategies import Problem, problems

rng = np.random.default_rng(0)


def by_hand(problem: Problem) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return output, weights and log-sum-exp, computed pair by pair in plain Python."""
    shape = problem.scores_shape
    mask = np.broadcast_to(True if problem.mask is None else problem.mask, shape)
    bias = np.broadcast_to(0.0 if problem.bias is None else problem.bias, shape)
    scale = problem.query.shape[-1] ** -0.5 if problem.scale is None else problem.scale
    weights, lse = np.zeros(shape), np.full(shape[:-1], -np.inf)
    output = np.zeros((*shape[:-1], problem.values.shape[-1]))
    for row in np.ndindex(shape[:-1]):
        if problem.query.ndim > 2:
            *batch, head, _ = row
            shared = [0 if size == 1 else i for i, size in zip(batch, problem.keys.shape, strict=False)]
            lead = (*shared, head * problem.keys.shape[-3] // shape[-3])
        else:
            lead = ()
        keys, values = problem.keys[lead], problem.values[lead]
        scores = {
            j: scale * sum(a * b for a, b in zip(problem.query[row], keys[j], strict=True)) + bias[row][j]
            for j in range(shape[-1])
            if mask[row][j]
        }
        if not scores:
            continue
        largest = max(scores.values())
        total = math.fsum(math.exp(x - largest) for x in scores.values())
        lse[row] = largest + math.log(total)
        for j, x in scores.items():
            weights[row][j] = math.exp(x - largest) / total
            output[row] += weights[row][j] * values[j]
    return output, weights, lse


@given(problems())
def test_every_shape_mask_and_bias_equals_explicit_sums(problem: Problem) -> None:
    q, k, v = problem.query, problem.keys, problem.values
    options = {"bias": problem.bias, "scale": problem.scale}
    output, weights = attention(q, k, v, problem.mask, weights=True, **options)
    expected_output, expected_weights, expected_lse = by_hand(problem)
    np.testing.assert_allclose(weights, expected_weights, atol=1e-9)
    np.testing.assert_allclose(output, expected_output, atol=1e-8)
    lse = log_sum_exp(reference.scores(q, k, problem.mask, **options))
    np.testing.assert_allclose(lse, expected_lse, rtol=1e-9, atol=1e-9)


@given(problems())
def test_rows_sum_to_one_or_are_empty_and_hidden_weights_are_exactly_0(problem: Problem) -> None:
    _, weights = attention(problem.query, problem.keys, problem.values, problem.mask, weights=True)
    seen = np.broadcast_to(True if problem.mask is None else problem.mask, problem.scores_shape)
    np.testing.assert_allclose(weights.sum(-1), seen.any(-1).astype(float), atol=1e-12)
    assert (weights[~seen] == 0).all()


def test_one_query_equals_a_row_of_many() -> None:
    q, k, v = rng.normal(size=(5, 4)), rng.normal(size=(7, 4)), rng.normal(size=(7, 3))
    mask = rng.random((5, 7)) < 0.5
    many = attention(q, k, v, mask)
    for i in range(5):
        np.testing.assert_allclose(attention(q[i], k, v, mask[i]), many[i], atol=1e-15)


def test_grouped_heads_are_repeated_heads() -> None:
    q, k, v = rng.normal(size=(2, 6, 5, 4)), rng.normal(size=(2, 3, 7, 4)), rng.normal(size=(2, 3, 7, 4))
    repeated = attention(q, np.repeat(k, 2, axis=1), np.repeat(v, 2, axis=1))
    np.testing.assert_array_equal(attention(q, k, v), repeated)


def test_a_mask_rule_is_converted_to_an_array() -> None:
    class FirstKeyOnly:
        def numpy(self, queries: int, keys: int) -> np.ndarray:
            return np.broadcast_to(np.arange(keys) == 0, (1, 1, queries, keys))

    q, k, v = rng.normal(size=(3, 4)), rng.normal(size=(5, 4)), rng.normal(size=(5, 2))
    np.testing.assert_allclose(attention(q, k, v, FirstKeyOnly()), np.broadcast_to(v[0], (3, 2)))
    np.testing.assert_allclose(attention(q[0], k, v, FirstKeyOnly()), v[0])
    batched = attention(*(x[None, None] for x in (q, k, v)), FirstKeyOnly())
    np.testing.assert_allclose(batched, np.broadcast_to(v[0], (1, 1, 3, 2)))


@pytest.mark.parametrize(("L", "S"), [(0, 3), (3, 0), (0, 0), (1, 1)])
def test_no_keys_and_no_queries(L: int, S: int) -> None:
    output, weights = attention(np.ones((2, L, 4)), np.ones((2, S, 4)), np.ones((2, S, 3)), weights=True)
    assert output.shape == (2, L, 3)
    assert weights.shape == (2, L, S)
    assert (output == (1.0 if S else 0.0)).all()


def test_float64_by_default_and_never_half_precision() -> None:
    q = rng.normal(size=(3, 4)).astype(np.float16)
    assert attention(q, q, q).dtype == np.float64
    assert attention(q, q, q, dtype=np.float32).dtype == np.float32
    assert attention(q, q, q, dtype=np.float16).dtype == np.float32
    masked = attention(q, q, q, np.tri(3, dtype=bool), bias=q[:, :3], dtype=np.float32)
    assert masked.dtype == np.float32


@pytest.mark.parametrize("size", [1e4, 1e30])
def test_huge_scores_put_all_weight_on_the_largest(size: float) -> None:
    q, k = np.array([[size, 0.0]]), np.array([[1.0, 0.0], [-1.0, 0.0], [0.5, 0.0]])
    _, weights = attention(q, k, k, weights=True)
    assert weights.tolist() == [[1.0, 0.0, 0.0]]


def test_softmax_does_not_change_under_a_constant_shift() -> None:
    x = rng.normal(size=(4, 6))
    np.testing.assert_allclose(softmax(x + 1000), softmax(x), atol=1e-12)
    np.testing.assert_allclose(np.exp(x - log_sum_exp(x)[:, None]), softmax(x), atol=1e-15)


def test_nan_is_propagated_to_rows_that_see_it() -> None:
    q, k, v = np.ones((2, 2)), np.ones((3, 2)), np.ones((3, 2))
    k[2] = np.nan
    _, weights = attention(q, k, v, np.array([[True, True, False], [True, True, True]]), weights=True)
    assert weights[0].tolist() == [0.5, 0.5, 0.0]
    assert np.isnan(weights[1]).all()


class TestMultiHead:
    def layer(self, L: int = 5, D: int = 12) -> tuple[np.ndarray, ...]:
        return rng.normal(size=(L, D)), *(rng.normal(size=(4, D, D)) / D**0.5)

    def test_merge_heads_inverts_split_heads(self) -> None:
        x = rng.normal(size=(2, 5, 12))
        for heads in (1, 2, 3, 4, 6, 12):
            split = split_heads(x, heads)
            assert split.shape == (2, heads, 5, 12 // heads)
            np.testing.assert_array_equal(merge_heads(split), x)
        np.testing.assert_array_equal(split_heads(x, 3)[:, 1], x[..., 4:8])

    def test_each_head_uses_its_own_columns(self) -> None:
        x, w_q, w_k, w_v, w_o = self.layer()
        columns = [slice(h * 4, (h + 1) * 4) for h in range(3)]
        heads = [attention(x @ w_q[:, c], x @ w_k[:, c], x @ w_v[:, c]) for c in columns]
        expected = np.concatenate(heads, -1) @ w_o
        np.testing.assert_allclose(multi_head_attention(x, w_q, w_k, w_v, w_o, heads=3), expected, atol=1e-12)

    def test_one_head_with_identity_projections_equals_plain_attention(self) -> None:
        x, one = rng.normal(size=(5, 12)), np.eye(12)
        np.testing.assert_allclose(multi_head_attention(x, one, one, one, one, heads=1), attention(x, x, x))

    def test_keys_and_values_come_from_the_context(self) -> None:
        x, *weights = self.layer()
        context = rng.normal(size=(7, 12))
        output, maps = multi_head_attention(x, *weights, heads=3, context=context, weights=True)
        assert output.shape == (5, 12)
        assert maps.shape == (3, 5, 7)

    def test_biases_are_added_to_each_projection(self) -> None:
        x, *weights = self.layer()
        b = rng.normal(size=12)
        plain = multi_head_attention(x, *weights, heads=3)
        np.testing.assert_allclose(multi_head_attention(x, *weights, heads=3, b_o=b), plain + b)
        # One number added to every score of a row changes no weight: that is all a key's bias does.
        np.testing.assert_allclose(multi_head_attention(x, *weights, heads=3, b_k=b), plain, atol=1e-12)
        # The weights of a row sum to 1, so a value's bias goes through to the output.
        through = multi_head_attention(x, *weights, heads=3, b_v=b)
        np.testing.assert_allclose(through, plain + b @ weights[3], atol=1e-12)

    def test_fewer_key_value_heads_have_narrower_weights(self) -> None:
        x, w_q, w_k, w_v, w_o = self.layer()
        output = multi_head_attention(x, w_q, w_k[:, :4], w_v[:, :4], w_o, heads=3, kv_heads=1)
        shared = [np.tile(w[:, :4], 3) for w in (w_k, w_v)]
        np.testing.assert_allclose(output, multi_head_attention(x, w_q, *shared, w_o, heads=3), atol=1e-12)

    def test_leading_dimensions_are_a_batch(self) -> None:
        x, *weights = self.layer()
        batch = np.stack([x, 2 * x])
        both = multi_head_attention(batch, *weights, heads=3)
        np.testing.assert_allclose(both[1], multi_head_attention(2 * x, *weights, heads=3), atol=1e-12)


class TestWhatTheSourceDocumentsGetWrong:
    def test_unscaled_weights_at_width_512_do_not_give_nan(self) -> None:
        """Softmax without subtracting the maximum returns NaN here, in every entry."""
        x, *weights = rng.normal(size=(10, 512)), *rng.normal(size=(4, 512, 512))
        scores = (x @ weights[0]) @ (x @ weights[1]).T / 8
        with np.errstate(over="ignore", invalid="ignore"):
            naive = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
        assert np.isnan(naive).any()
        output, maps = multi_head_attention(x, *weights, heads=8, weights=True)
        assert np.isfinite(output).all()
        np.testing.assert_allclose(maps.sum(-1), 1)

    def test_similarity_is_query_times_key_not_an_outer_product(self) -> None:
        q, k = rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
        similarity = reference.scores(q, k, scale=1.0)
        np.testing.assert_allclose(similarity, q @ k.T)
        assert np.linalg.matrix_rank(similarity) == 3  # an outer product of similarities would have rank 1

    def test_pairs_where_the_mask_is_false_are_hidden(self) -> None:
        x = rng.normal(size=(3, 2))
        _, weights = attention(x, x, x, np.array([True, True, False]), weights=True)
        assert (weights[:, 2] == 0).all()
        assert (weights[:, :2] > 0).all()

    def test_a_fully_masked_row_is_zero_not_nan(self) -> None:
        x = rng.normal(size=(3, 2))
        mask = np.array([[True, True, True], [False, False, False], [True, False, False]])
        output, weights = attention(x, x, x, mask, weights=True)
        assert output[1].tolist() == [0, 0]
        assert weights[1].tolist() == [0, 0, 0]
        assert np.isneginf(log_sum_exp(reference.scores(x, x, mask))[1])


def a(*shape: int, dtype: type = float) -> np.ndarray:
    return np.ones(shape, dtype=dtype)


WRONG_SHAPES = [
    (a(), a(3, 4), a(3, 4), r"query must have shape \(d_k,\), \(L, d_k\) or \(\.\.\., H, L, d_k\)"),
    (a(4), a(4), a(4), r"keys must have shape \(S, d\).*got \(4,\).*keys\[None\]"),
    (a(2, 3, 4), a(3, 4), a(3, 4), r"same number of dimensions, got shapes \(2, 3, 4\), \(3, 4\)"),
    (a(4), a(2, 3, 4), a(2, 3, 4), "same number of dimensions"),
    (a(3, 4), a(3, 5), a(3, 5), r"same last dimension d_k, got 4 and 5"),
    (a(3, 4), a(5, 4), a(6, 4), r"same number of positions S, got 5 keys and 6 values"),
    (a(2, 3, 4), a(2, 3, 4), a(1, 3, 4), "keys and values must have the same leading dimensions"),
    (a(6, 3, 4), a(4, 3, 4), a(4, 3, 4), r"must divide the query heads, got 4 for 6.*1, 2, 3, 6"),
    (a(6, 3, 4), a(0, 3, 4), a(0, 3, 4), "at least one head"),
    (a(2, 1, 3, 4), a(3, 1, 3, 4), a(3, 1, 3, 4), r"batch dimension 0 is 2 in the query and 3 in the keys"),
]

WRONG_TYPES = [
    (
        a(3, 4, dtype=int),
        a(3, 4),
        a(3, 4),
        r"query must be floating point, got int64.*query\.astype\(float\)",
    ),
    (a(3, 4), a(3, 4, dtype=complex), a(3, 4), "keys must be floating point, got complex128"),
    (a(3, 4), a(3, 4), a(3, 4, dtype=bool), "values must be floating point, got bool"),
]

WRONG_MASKS = [
    (
        a(4, 5, dtype=bool),
        ValueError,
        r"mask of shape \(4, 5\) .*\(H, L, S\) = \(2, 3, 5\): dimension L is 4, expected 3 or 1",
    ),
    (a(3, 6, dtype=bool), ValueError, "dimension S is 6, expected 5 or 1"),
    (a(4, 1, 5, dtype=bool), ValueError, "dimension H is 4, expected 2 or 1"),
    (a(7, 1, 1, 5, dtype=bool), ValueError, r"1 leading dimension\(s\) \(7,\) that the scores do not have"),
    (
        a(3, 5, dtype=int),
        TypeError,
        "mask must be boolean, True where a query may see a key, got int64.*mask != 0",
    ),
    (a(3, 5), TypeError, "numbers to be added as bias="),
]


@pytest.mark.usefixtures("unchecked")
class TestBadInput:
    @pytest.mark.parametrize(("q", "k", "v", "message"), WRONG_SHAPES)
    def test_mismatched_shapes_are_rejected(self, q: np.ndarray, k: np.ndarray, v: np.ndarray, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            attention(q, k, v)

    @pytest.mark.parametrize(("q", "k", "v", "message"), WRONG_TYPES)
    def test_integers_are_rejected(self, q: np.ndarray, k: np.ndarray, v: np.ndarray, message: str) -> None:
        with pytest.raises(TypeError, match=message):
            attention(q, k, v)

    @pytest.mark.parametrize(("mask", "error", "message"), WRONG_MASKS)
    def test_invalid_masks_are_rejected(self, mask: np.ndarray, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            attention(a(2, 3, 4), a(2, 5, 4), a(2, 5, 4), mask)

    def test_a_mask_for_one_query_has_one_row(self) -> None:
        with pytest.raises(ValueError, match=r"\(L, S\) = \(1, 5\): dimension L is 2"):
            attention(a(4), a(5, 4), a(5, 4), a(2, 5, dtype=bool))

    def test_a_bias_that_does_not_broadcast(self) -> None:
        with pytest.raises(ValueError, match=r"bias of shape \(3, 4\) .*dimension S is 4, expected 5 or 1"):
            attention(a(3, 4), a(5, 4), a(5, 4), bias=a(3, 4))
        with pytest.raises(TypeError, match="bias must be floating point"):
            attention(a(3, 4), a(5, 4), a(5, 4), bias=a(3, 5, dtype=bool))

    def test_heads_that_do_not_divide_are_rejected(self) -> None:
        with pytest.raises(ValueError, match=r"24 heads for 128 channels.*16 \(d_k = 8\) and 32 \(d_k = 4\)"):
            split_heads(a(3, 128), 24)

    def test_the_error_for_a_wrong_weight_suggests_the_transpose(self) -> None:
        x, w, wide = a(3, 4), a(4, 4), a(8, 4)
        with pytest.raises(ValueError, match=r"w_q must have shape \(4, D_out\).*got \(8, 4\).*w_q\.T"):
            multi_head_attention(x, wide, w, w, w, heads=2)
        with pytest.raises(ValueError, match=r"the bias of w_o must have shape \(4,\), got \(3,\)"):
            multi_head_attention(x, w, w, w, w, heads=2, b_o=a(3))
        with pytest.raises(ValueError, match=r"x and context must have shapes.*got \(3, 4\) and \(2, 3, 4\)"):
            multi_head_attention(x, w, w, w, w, heads=2, context=a(2, 3, 4))


def test_the_shapes_in_the_signatures_are_checked_while_tests_run() -> None:
    with pytest.raises(TypeCheckError, match="keys"):
        attention(a(3, 4), a(3, 5), a(3, 5))
    with pytest.raises(TypeCheckError, match="query"):
        attention(a(3, 4, dtype=int), a(3, 4), a(3, 4))


@given(problems())
def test_check_shapes_returns_the_shape_of_the_scores(problem: Problem) -> None:
    assert check_shapes(problem.query.shape, problem.keys.shape, problem.values.shape) == problem.scores_shape
