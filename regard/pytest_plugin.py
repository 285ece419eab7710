"""Plugin for pytest: the fixture `regard_check`, which watches a model and fails the test if something looks wrong.

The plugin is loaded in every project that has regard installed, so it imports torch and the rest of regard only when
the fixture is used.
"""

from collections.abc import Callable
from typing import Any

import pytest

import regard

CHECKS = ("padding", "causal", "documents")


@pytest.fixture
def regard_check() -> Callable[..., Any]:
    """Return a function that runs a model, checks its attention and fails the test with a list of findings.

    regard_check(model, **inputs)
    regard_check(model, inputs, padding=…, causal=…, documents=…)

    inputs      a dict of keyword arguments, a tuple, or one tensor; further keyword arguments go to the model
    padding, causal, documents      as in `seen.check`

    It returns the recording, for further assertions.
    """
    return check_attention


def check_attention(model: Any, inputs: Any = None, /, **options: Any) -> Any:
    """Watch one forward pass in evaluation mode, without gradients; fail the test if the doctor finds anything."""
    import torch

    checks = {name: options.pop(name) for name in CHECKS if name in options}
    arguments, keywords = (), dict(options)
    if isinstance(inputs, dict):
        keywords |= inputs
    elif inputs is not None:
        arguments = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad(), regard.watch(model) as seen:
            model(*arguments, **keywords)
        findings = seen.check(**checks)
    finally:
        for module, training in modes:
            module.training = training
    if findings:
        pytest.fail(f"regard: {findings}", pytrace=False)
    return seen
