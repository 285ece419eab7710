"""The recurrent layer that attention is compared with, counted and run."""

import pytest

from regard.costs import Recurrent


@pytest.mark.parametrize("seq", [1, 2, 3, 4, 7, 40])
@pytest.mark.parametrize(("d_model", "batch"), [(8, 1), (24, 3)])
def test_what_is_predicted_is_measured(seq: int, d_model: int, batch: int) -> None:
    found = Recurrent(seq, d_model, batch).measure(repeats=1)
    assert (found.operations, found.peak) == (found.predicted_operations, found.predicted_peak)
    assert found.seconds > 0


def test_its_work_is_linear_and_its_steps_wait() -> None:
    short, long = Recurrent(100), Recurrent(400)
    assert long.operations == 4 * short.operations
    assert long.steps == 400
