"""The numbers a pre-norm model starts from."""

from collections.abc import Iterable

import torch
from torch import nn

from regard.models.transformer.layer import Layer


def shrink_residuals(layers: Iterable[nn.Module]) -> None:
    """Divide what each part adds by √(number of parts), so that the sum after all is no larger than one (GPT-2).

    For pre-norm only: post-norm normalises every sum.
    """
    lasts: list[nn.Linear] = []
    for layer in layers:
        if isinstance(layer, Layer) and layer.pre:
            lasts += [layer.attention.out, layer.feed.down] + ([] if layer.cross is None else [layer.cross.out])
    with torch.no_grad():
        for last in lasts:
            last.weight *= len(lasts) ** -0.5
