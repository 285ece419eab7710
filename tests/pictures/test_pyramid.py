"""Long sequences: a pyramid computed from strips equals the dense reduction."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.pictures import long_heatmap, max_mean_pyramid

sizes = st.integers(1, 40)


@given(sizes, sizes, st.integers(1, 16), st.integers(1, 9))
def test_it_equals_the_dense_reduction(queries: int, keys: int, pixels: int, strip: int) -> None:
    whole = np.random.default_rng(queries * 41 + keys).random((queries, keys))
    asked = []

    def weights(rows: slice) -> np.ndarray:
        asked.append(rows)
        return whole[rows]

    found = max_mean_pyramid(weights, queries, keys, pixels=pixels, strip=strip)
    assert found.maximum.shape == found.mean.shape == (min(queries, pixels), min(keys, pixels))
    for level in found.levels():
        r, c = level.row_edges, level.column_edges
        assert (r[0], r[-1], c[0], c[-1]) == (0, queries, 0, keys)
        for i, j in np.ndindex(level.maximum.shape):
            block = whole[r[i] : r[i + 1], c[j] : c[j + 1]]
            assert level.maximum[i, j] == block.max()
            assert level.mean[i, j] == pytest.approx(block.mean())
    assert level.maximum.shape == (1, 1)
    assert [rows.stop - rows.start for rows in asked] == [strip] * (queries // strip) + [queries % strip] * bool(
        queries % strip
    )


def test_pixels_differ_by_one_at_most() -> None:
    found = max_mean_pyramid(lambda rows: np.ones((rows.stop - rows.start, 1000)), 1000, 1000, pixels=96)
    assert set(np.diff(found.row_edges)) == {10, 11}


def test_memory_stays_small_for_32768_keys() -> None:
    import tracemalloc

    S = 32_768
    row = np.full(S, 1 / S, dtype=np.float32)

    def weights(rows: slice) -> np.ndarray:
        return np.broadcast_to(row, (rows.stop - rows.start, S))

    tracemalloc.start()
    found = max_mean_pyramid(weights, 4096, S, pixels=256)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(found.mean, 1 / S)
    assert peak < 40e6  # the matrix would be 537 MB


def test_tensors_and_the_picture() -> None:
    whole = torch.rand(100, 130)
    picture = long_heatmap(lambda rows: whole[rows], 100, 130, pixels=20)
    largest, mean = picture.figure.axes[:2]
    expected = max_mean_pyramid(lambda rows: whole[rows], 100, 130, pixels=20)
    np.testing.assert_allclose(largest.images[0].get_array(), expected.maximum)
    np.testing.assert_allclose(mean.images[0].get_array(), expected.mean, rtol=1e-6)
    assert largest.images[0].get_extent() == [0, 130, 100, 0]
    assert largest.get_title() == "largest weight of 5 × 6.5 pairs a pixel"


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="give queries= and keys="):
        long_heatmap(lambda rows: None)
    with pytest.raises(ValueError, match=r"must be of shape \(2, 5\), got \(2, 4\)"):
        max_mean_pyramid(lambda rows: np.ones((2, 4)), 2, 5)
