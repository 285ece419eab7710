"""Result of the statistics of a call."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.watching.call_inputs import PerQuery


@dataclass(frozen=True)
class Statistics:
    """Statistics of every head and query, each (B, H, L). An empty row has 0 in all but `empty` and `lse`.

    entropy             entropy of the weights, in nats
    position, spread    mean index of the keys, and its standard deviation
    sink                weight on the first key
    empty               whether the query sees no key
    lse                 log-sum-exp of the scores and the sink; −inf for an empty row without sink
    received            weight of each key from all queries, (B, H, S), if computed
    largest             largest score; −inf for an empty row; None where only the weights are known

    >>> import regard, torch
    >>> layer = regard.nn.MultiHeadAttention(16, 2, causal=True)
    >>> with regard.watch(layer) as seen:
    ...     _ = layer(torch.randn(1, 5, 16))
    >>> seen.calls[0].statistics.sink[0, :, 0]          # the first token can only attend to itself
    tensor([1., 1.])
    """

    entropy: PerQuery
    position: PerQuery
    spread: PerQuery
    sink: PerQuery
    empty: Bool[Tensor, "batch heads queries"]
    lse: PerQuery
    received: Float[Tensor, "batch heads keys"] | None = None
    largest: PerQuery | None = None


def include_sinks(statistics: Statistics, sinks: PerQuery | None) -> Statistics:
    """Return statistics of softmax over keys and sinks, from those of softmax over the keys alone.

    All weights of a row are multiplied by the share of the keys, p = sigmoid(lse − sink), so that the entropy
    −Σ pw log pw becomes p (entropy − log p). The mean position and the spread do not change.
    """
    if sinks is None:
        return statistics
    lse, sinks = statistics.lse, sinks.to(statistics.lse.dtype)
    share = torch.sigmoid(lse - sinks)
    return replace(
        statistics,
        entropy=share * (statistics.entropy - torch.where(share > 0, share, 1.0).log()),
        sink=statistics.sink * share,
        lse=torch.logaddexp(lse, sinks),
        received=None,  # the share differs from query to query
    )
