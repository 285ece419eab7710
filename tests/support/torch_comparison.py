"""torch's attention layer and `compat.MultiheadAttention` with the same parameters, and masks for both."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from regard.compat import MultiheadAttention


def pair(*args: Any, **kwargs: Any) -> tuple[nn.MultiheadAttention, MultiheadAttention]:
    """Return torch's layer and ours with the same random parameters."""
    theirs = nn.MultiheadAttention(*args, **kwargs)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.5)
    ours = MultiheadAttention(*args, **kwargs)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


@contextmanager
def torch_may_warn() -> Iterator[None]:
    """Ignore torch's warnings about masks of two dtypes, nested tensors and TorchScript."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def close(mine: Tensor | None, its: Tensor | None, tolerance: float = 1e-5) -> None:
    assert (mine is None) == (its is None)
    if mine is None or its is None:
        return
    assert (mine.shape, mine.dtype) == (its.shape, its.dtype)
    torch.testing.assert_close(mine, its, atol=tolerance, rtol=tolerance)


def right_padding(batch: int, keys: int, share: float) -> Tensor:
    lengths = torch.linspace(share * keys, keys, batch).long().clamp(min=1)
    return torch.arange(keys) >= lengths[:, None]


def row(n: int) -> Tensor:
    hides = torch.zeros(n, n, dtype=torch.bool)
    hides[1] = True
    return hides


def item(batch: int, n: int) -> Tensor:
    hides = torch.zeros(batch, n, dtype=torch.bool)
    hides[1] = True
    return hides
