"""What all tests share."""

import signal
from collections.abc import Iterator

import jaxtyping
import pytest
import torch
from hypothesis import settings

# As many test processes as cores, or more: further threads would only wait for each other.
torch.set_num_threads(1)

# A test run in the background is told to ignore Ctrl-C, and so would be the commands it starts, which tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples on every run: a failure is seen by everyone, not by whoever was unlucky.
settings.register_profile("regard", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("regard")


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Calls as a user makes them, without the shape checker that pyproject.toml switches on for tests.

    Tests of our own error messages need it: the checker would speak first.
    """
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
