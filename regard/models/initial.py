"""The numbers a pre-norm model starts from."""

from collections.abc import Iterable

import torch
from torch import nn

from regard.models.layer import Layer


def shrink_residuals(layers: Iterable[nn.Module]) -> None:
    """Divide what each part adds by √(number of parts), so that the sum after all is no larger than one (GPT-2).

    For pre-norm only: post-norm normalises every sum.
    """
    stack = [layer for layer in layers if isinstance(layer, Layer) and layer.pre]
    parts = [
        part for layer in stack for part in (layer.attention.out, layer.cross and layer.cross.out, layer.feed.down)
    ]
    lasts = [part for part in parts if part is not None]
    with torch.no_grad():
        for part in lasts:
            part.weight.mul_(len(lasts) ** -0.5)
