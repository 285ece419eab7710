"""Settings and fixtures that all tests share."""

import os
import signal
from collections.abc import Iterator

import jaxtyping
import pytest
import torch
from hypothesis import settings

# There are as many test processes as cores, or more: further threads would only compete.
torch.set_num_threads(1)

# A process started in the background ignores Ctrl-C, and so would the commands that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run, so that a failure is reproducible; the nightly workflow tries new ones.
settings.register_profile("fixed", deadline=None, derandomize=True, max_examples=60)
settings.register_profile("nightly", deadline=None, max_examples=300, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Switch the shape checker of pyproject.toml off, as it is for users.

    Tests of our own error messages need this: the checker would raise its error first.
    """
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
