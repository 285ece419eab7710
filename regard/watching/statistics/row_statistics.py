"""Result of the statistics of a call."""

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor

from regard.watching.call_inputs import PerQuery


@dataclass(frozen=True)
class Statistics:
    """Statistics of every head and query, each (B, H, L). An empty row has 0 in all but `empty` and `lse`.

    >>> import regard, torch
    >>> layer = regard.nn.MultiHeadAttention(16, 2, causal=True)
    >>> with regard.watch(layer) as seen:
    ...     _ = layer(torch.randn(1, 5, 16))
    >>> seen.calls[0].statistics.sink[0, :, 0]          # the first token can only attend to itself
    tensor([1., 1.])
    """

    entropy: PerQuery  # in nats
    distance: PerQuery  # mean distance back from the query to its keys; negative: ahead; float64, for long rows
    spread: PerQuery  # standard deviation of the position of the keys
    sink: PerQuery  # weight on the first key
    empty: Bool[Tensor, "batch heads queries"]  # whether the query sees nothing
    lse: PerQuery  # log-sum-exp of the scores; −inf for an empty row
    received: Float[Tensor, "batch heads keys"] | None = None  # weight of each key from all queries, if computed
