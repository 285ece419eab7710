"""Attention sinks: a learned logit s_h per head in the denominator of softmax, so that the weights can be small.

    weights[h, i, j] = e^{score_ij} / (e^{s_h} + Σ_j' e^{score_ij'})

These are the plain weights times the share of the keys in the denominator, which follows from the log-sum-exp of the
row:

    e^{lse} / (e^{s} + e^{lse}) = sigmoid(lse − s)

So the fused kernel can be used. Rows of weights sum to less than 1.
"""

from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.attend_function import BiasLike, attend, attend_with_lse
from regard.attention.kernels.changed_scores.score_change import ScoreFunction, score_change
from regard.attention.listeners import call_listeners, changed_result, listeners_muted, report_call
from regard.attention.masks import Mask


def attend_with_sinks(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    sinks: Float[Tensor, "..."],
    mask: Mask | Bool[Tensor, "..."] | None = None,
    *,
    bias: BiasLike | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    score_mod: ScoreFunction | None = None,
    weights: bool | Literal["mean"] = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the result of `attend`, with a sink in the denominator of softmax: one per head (H,), or row (..., H, L).

    >>> q = torch.zeros(1, 1, 4)                                          # one head, one query, score 0
    >>> attend_with_sinks(q, q, q, torch.zeros(1), weights=True)[1]       # e⁰ / (e⁰ + e⁰)
    tensor([[[0.5000]]])
    """
    options: dict[str, Any] = {"bias": bias, "scale": scale, "softcap": softcap, "score_mod": score_mod}
    if call_listeners and not listeners_muted.depth:

        def output() -> Tensor:
            result = attend_with_sinks(q, k, v, sinks, mask, **options, dropout=dropout)
            assert isinstance(result, Tensor)
            return result

        arguments: dict[str, Any] = {"q": q, "k": k, "v": v, "mask": mask, "bias": bias, "scale": scale}
        arguments |= {"dropout": dropout, "change": score_change(softcap, score_mod), "sinks": sinks}
        changed = changed_result(output, **arguments, weights=weights)
        if changed is not None:
            return changed[0] if changed[2] is None else (changed[0], changed[2])
        with listeners_muted:
            result = attend_with_sinks(q, k, v, sinks, mask, **options, dropout=dropout, weights=weights)
        report_call(**arguments, output=result[0] if isinstance(result, tuple) else result)
        return result
    out, lse = attend_with_lse(q, k, v, mask, **options)
    per_row = sinks[:, None] if sinks.dim() == 1 else sinks
    share = torch.sigmoid(lse - per_row.to(lse.dtype)).to(out.dtype)[..., None]  # (..., H, L, 1)
    if not weights and not dropout:
        return out * share
    out, maps = attend(q, k, v, mask, **options, dropout=dropout, weights=True)
    if not weights:
        return out * share
    maps = maps * share
    return out * share, maps.mean(-3) if weights == "mean" else maps
