"""The widest floating point type of a device."""

import torch


def widest_float(device: torch.device) -> torch.dtype:
    """Return float64, or float32 on devices that have no float64, such as MPS.

    >>> widest_float(torch.device("cpu"))
    torch.float64
    """
    if device.type in ("cpu", "cuda", "meta") or torch.compiler.is_compiling():
        return torch.float32 if device.type == "mps" else torch.float64
    try:
        torch.empty(0, dtype=torch.float64, device=device)
    except (TypeError, RuntimeError):
        return torch.float32
    return torch.float64
