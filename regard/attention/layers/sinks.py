"""Attention sinks: a learned logit s_h per head in the denominator of softmax, so that the weights can be small.

    weights[h, i, j] = e^{score_ij} / (e^{s_h} + Σ_j' e^{score_ij'})

These are the plain weights times the share of the keys in the denominator, which follows from the log-sum-exp of the
row:

    e^{lse} / (e^{s} + e^{lse}) = sigmoid(lse − s)

So the fused kernel can be used. Rows of weights sum to less than 1.
"""

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.attend_function import BiasLike, attend, attend_with_lse
from regard.attention.listeners import call_listeners, listeners_muted, report_call
from regard.attention.masks import Mask


def attend_with_sinks(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    sinks: Float[Tensor, " heads"],
    mask: Mask | Bool[Tensor, "..."] | None = None,
    *,
    bias: BiasLike | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    weights: bool | Literal["mean"] = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the result of `attend`, with one sink per query head in the denominator of softmax.

    >>> q = torch.zeros(1, 1, 4)                                          # one head, one query, score 0
    >>> attend_with_sinks(q, q, q, torch.zeros(1), weights=True)[1]       # e⁰ / (e⁰ + e⁰)
    tensor([[[0.5000]]])
    """
    if call_listeners and not listeners_muted.depth:
        report_call(q=q, k=k, v=v, mask=mask, bias=bias, scale=scale, dropout=dropout, sinks=sinks)
        with listeners_muted:
            return attend_with_sinks(q, k, v, sinks, mask, bias=bias, scale=scale, dropout=dropout, weights=weights)
    out, lse = attend_with_lse(q, k, v, mask, bias=bias, scale=scale)
    share = torch.sigmoid(lse - sinks[:, None].to(lse.dtype)).to(out.dtype)[..., None]  # (..., H, L, 1)
    if not weights and not dropout:
        return out * share
    out, maps = attend(q, k, v, mask, bias=bias, scale=scale, dropout=dropout, weights=True)
    if not weights:
        return out * share
    maps = maps * share
    return out * share, maps.mean(-3) if weights == "mean" else maps
