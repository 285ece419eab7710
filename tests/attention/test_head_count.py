"""Numbers of heads that divide a width, and the errors for those that do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.attention import check_groups, check_heads, divisors, fit_heads, nearest_heads


@given(st.integers(1, 5000))
def test_divisors_are_complete(n: int) -> None:
    assert divisors(n) == [i for i in range(1, n + 1) if n % i == 0]


@given(st.integers(1, 600), st.integers(1, 700))
def test_nearest_heads_divides_and_no_divisor_is_nearer(channels: int, heads: int) -> None:
    nearest = nearest_heads(channels, heads)
    assert channels % nearest == 0
    distances = {d: abs(d - heads) for d in divisors(channels)}
    assert distances[nearest] == min(distances.values())
    assert all(distances[d] > distances[nearest] for d in distances if d < nearest)


def test_of_two_equally_near_counts_the_smaller_is_chosen() -> None:
    assert nearest_heads(128, 24) == 16  # 16 and 32 are both 8 away


@pytest.mark.parametrize(
    ("channels", "heads", "near"),
    [
        (128, 24, r"16 \(d_k = 8\) and 32 \(d_k = 4\)"),
        (144, 25, r"24 \(d_k = 6\) and 36 \(d_k = 4\)"),
        (8, 100, r"nearest count that does is 8 \(d_k = 1\)"),
        (7, 3, r"1 \(d_k = 7\) and 7 \(d_k = 1\)"),
    ],
)
def test_the_error_names_both_numbers_and_the_nearest_divisors(channels: int, heads: int, near: str) -> None:
    with pytest.raises(ValueError, match=rf"got {heads} heads for {channels} channels; .*{near}"):
        check_heads(channels, heads)
    with pytest.raises(ValueError, match=near):
        fit_heads(channels, heads)


def test_adjusting_warns_with_the_old_and_the_new_count() -> None:
    with pytest.warns(UserWarning, match="24 heads do not divide 128 channels: using 16 heads of width 8"):
        assert fit_heads(128, 24, adjust=True) == 16


def test_counts_that_divide_are_not_changed() -> None:
    for heads in (6, 12, 24):
        assert fit_heads(144, heads, adjust=True) == heads
        assert check_heads(144, heads) == 144 // heads


def test_groups() -> None:
    assert check_groups(8, 2) == 4
    with pytest.raises(ValueError, match=r"got 3 for 8 query heads.*choose one of 1, 2, 4, 8"):
        check_groups(8, 3)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("check", [check_heads, nearest_heads, fit_heads])
@pytest.mark.parametrize(
    ("channels", "heads", "error", "message"),
    [
        (128, 0, ValueError, "heads must be at least 1, got 0"),
        (128, -4, ValueError, "heads must be at least 1, got -4"),
        (0, 4, ValueError, "must be at least 1, got 0"),
        (128, 4.0, TypeError, r"heads must be a whole number, got 4\.0 of type float"),
        (128, True, TypeError, "heads must be a whole number, got True of type bool"),
        (128, "8", TypeError, "heads must be a whole number, got '8' of type str"),
    ],
)
def test_invalid_counts_are_rejected(check, channels, heads, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        check(channels, heads)
