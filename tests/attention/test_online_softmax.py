"""Online softmax in tiles, against the reference."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.attention.reference import numpy_attention as reference
from regard.attention.reference import online_softmax as online
from support.strategies import Problem, problems

rng = np.random.default_rng(0)


@given(problems(), st.tuples(st.integers(1, 9), st.integers(1, 9)))
def test_any_tiling_equals_the_reference(problem: Problem, tile: tuple[int, int]) -> None:
    q, k, v, mask = problem.query, problem.keys, problem.values, problem.mask
    options = {"bias": problem.bias, "scale": problem.scale}
    output, lse = online.attention(q, k, v, mask, tile=tile, lse=True, **options)
    np.testing.assert_allclose(output, reference.attention(q, k, v, mask, **options), rtol=0, atol=1e-12)
    expected = reference.log_sum_exp(reference.scores(q, k, mask, **options))
    np.testing.assert_allclose(lse, expected, rtol=1e-12, atol=1e-12)


def test_long_rows_over_many_tiles() -> None:
    q, k, v = rng.normal(size=(3, 2, 300, 16)) * 4
    causal = np.tri(300, dtype=bool)
    difference = online.attention(q, k, v, causal, tile=(32, 48)) - reference.attention(q, k, v, causal)
    assert np.abs(difference).max() < 1e-12


def test_sums_are_corrected_when_the_maximum_rises_with_each_tile() -> None:
    k = np.arange(1000.0)[:, None]  # every tile brings larger scores than all before
    v = rng.normal(size=(1000, 3))
    q = np.ones((2, 1))
    np.testing.assert_allclose(online.attention(q, k, v, tile=(1, 10)), reference.attention(q, k, v), atol=1e-12)


def test_a_row_with_visible_keys_in_its_last_tile_only() -> None:
    q, k, v = rng.normal(size=(2, 4)), rng.normal(size=(9, 4)), rng.normal(size=(9, 4))
    mask = np.zeros((2, 9), dtype=bool)
    mask[0, 8] = True
    output, lse = online.attention(q, k, v, mask, tile=(1, 2), lse=True)
    np.testing.assert_allclose(output, [v[8], np.zeros(4)], atol=1e-15)
    assert np.isneginf(lse[1])


def test_keys_added_in_pieces_equal_all_keys_at_once() -> None:
    scores, values = rng.normal(size=(5, 12)), rng.normal(size=(12, 3))
    running = online.RunningSoftmax.empty((5,), d_v=3)
    for piece in (slice(0, 1), slice(1, 7), slice(7, 7), slice(7, 12)):
        running.add(scores[:, piece], values[piece])
    np.testing.assert_allclose(running.output(), reference.softmax(scores) @ values, atol=1e-15)
    np.testing.assert_allclose(running.log_sum_exp(), reference.log_sum_exp(scores), atol=1e-15)


@pytest.mark.usefixtures("unchecked")
def test_invalid_input_raises_the_errors_of_the_reference() -> None:
    x = np.ones((3, 4))
    with pytest.raises(ValueError, match=r"tile must be two positive numbers, \(queries, keys\), got \(0, 4\)"):
        online.attention(x, x, x, tile=(0, 4))
    with pytest.raises(ValueError, match="same last dimension d_k, got 4 and 3"):
        online.attention(x, x[:, :3], x)
    with pytest.raises(ValueError, match="dimension S is 2, expected 3 or 1"):
        online.attention(x, x, x, np.ones((3, 2), dtype=bool))
    with pytest.raises(TypeError, match="query must be floating point, got int64"):
        online.attention(x.astype(int), x, x)
