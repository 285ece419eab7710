"""Modules that ran and attend, but made no call that was recorded."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from regard.watching.recording import Unseen


def list_unseen(
    modules: dict[str, nn.Module],
    reasons: dict[str, str],
    recorded: set[str],
    attention_modules: Iterable[str],
) -> dict[str, str]:
    """Return each module that attends but was not recorded, with the reason.

    reasons             what the readers report
    recorded            modules with recorded calls
    attention_modules   modules that ran and whose class is named as attention
    """
    unseen = dict(reasons)
    for name in _without_call(list(attention_modules), recorded | set(unseen)):
        unseen[name] = f"{type(modules[name]).__name__} ran, but made no attention call that was seen"
    for name, module in modules.items():
        if isinstance(module, torch.jit.ScriptModule) and attends_in_script(module):
            unseen[name] = "a TorchScript module, whose functions cannot be seen; watch the Python module"
    return unseen


def other_models(names: Iterable[str]) -> list[Unseen]:
    """Return a report for each other model that ran."""
    return [Unseen(name, "another model, which ran inside the with-block") for name in names]


def _without_call(attention_modules: list[str], names: set[str]) -> list[str]:
    """Return the innermost attention modules that ran although neither they, their parts nor their owners are named."""
    missing = []
    for name in attention_modules:
        inside = any(other == name or other.startswith(f"{name}." if name else "") for other in names)
        owners = [other for other in attention_modules if other != name and name.startswith(f"{other}.")]
        covered = any(owner in names for owner in owners)
        innermost = not any(other.startswith(f"{name}.") for other in attention_modules if other != name)
        if innermost and not inside and not covered:
            missing.append(name)
    return missing


def attends_in_script(function: Any) -> bool:
    """Whether the graph of a TorchScript module or function has an attention function or a softmax."""
    try:
        graph = str(function.inlined_graph)
    except RuntimeError:
        return True
    return "softmax" in graph or "scaled_dot_product" in graph or "multi_head_attention" in graph
