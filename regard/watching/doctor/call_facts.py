"""Facts about a call that not every version of `Call` records."""

from typing import Any

import torch
from torch import Tensor

from regard.watching.call import Call


def fact(call: Call, name: str) -> Any:
    """Return an attribute of the call, or None if it is not recorded."""
    try:
        return getattr(call, name, None)
    except ValueError:
        return None


def device_of(call: Call) -> torch.device:
    """Return the device of the call's tensors."""
    if call.eager_weights is not None:
        return call.eager_weights.device
    if call.stored_statistics is not None:
        return call.stored_statistics.entropy.device
    return call.q.device


def positions_of(call: Call) -> Tensor | None:
    """Return the index of each query's own key, (L,) or (B, L), or None if it is not known."""
    if hasattr(call, "positions"):
        return call.positions
    return torch.arange(call.shape[3] - call.shape[2], call.shape[3])


def mean_position(call: Call) -> Tensor:
    """Return the mean index of the keys of each query, (B, H, L)."""
    statistics = call.statistics
    if hasattr(statistics, "position"):
        return statistics.position
    positions = torch.arange(call.shape[3] - call.shape[2], call.shape[3])
    return positions - statistics.distance
