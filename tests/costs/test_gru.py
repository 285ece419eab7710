"""Predicted and measured cost of a GRU layer."""

import pytest

from regard.costs import Recurrent


@pytest.mark.parametrize("seq", [1, 2, 3, 4, 7, 40])
@pytest.mark.parametrize(("d_model", "batch"), [(8, 1), (24, 3)])
def test_prediction_equals_measurement(seq: int, d_model: int, batch: int) -> None:
    result = Recurrent(seq, d_model, batch).measure(repeats=1)
    assert (result.operations, result.peak) == (result.predicted_operations, result.predicted_peak)
    assert result.seconds > 0


def test_operations_are_linear_and_steps_sequential() -> None:
    short, long = Recurrent(100), Recurrent(400)
    assert long.operations == 4 * short.operations
    assert long.steps == 400
