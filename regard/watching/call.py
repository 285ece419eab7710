"""One recorded attention call, with its exact weights and its statistics."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.watching import exact_weights
from regard.watching.call_inputs import CallInputs, PerQuery
from regard.watching.exact_weights import WeightBlock
from regard.watching.statistics import from_fused_attention as fused
from regard.watching.statistics import from_score_blocks, from_weights
from regard.watching.statistics.row_statistics import Statistics

Selection = int | slice | list[int] | None


@dataclass(repr=False)
class Call(CallInputs):
    """A recorded attention call. Weights are exact, per head, and computed only for the part requested.

    >>> import regard, torch
    >>> layer = regard.nn.MultiHeadAttention(16, 2, causal=True)
    >>> with regard.watch(layer) as seen:
    ...     _ = layer(torch.randn(1, 5, 16))
    >>> call = seen.calls[0]
    >>> call.shape                                      # batch, heads, queries, keys
    (1, 2, 5, 5)
    >>> call.weights(head=0, queries=0)                 # the first token attends only to itself
    tensor([[1., 0., 0., 0., 0.]])
    """

    stored_statistics: Statistics | None = None  # computed while the model ran (keep="statistics")

    def weights(
        self, *, head: Selection = None, queries: Selection = None, keys: Selection = None, batch: Selection = None
    ) -> Float[Tensor, "..."]:
        """Return the weights (B, H, L, S), or a selection of them; a single index drops its dimension."""
        selections = {"batch": batch, "head": head, "queries": queries, "keys": keys}
        b, h, i, j = (_indices(name, x, size) for (name, x), size in zip(selections.items(), self.shape, strict=True))
        rows_at_once = max(1, 2**22 // max(1, self.shape[3]))
        blocks = [exact_weights.selected(self, b, h, rows)[..., j] for rows in i.split(rows_at_once)]
        weights = torch.cat(blocks, -2)
        for dim, selection in reversed(list(enumerate(selections.values()))):
            weights = weights.squeeze(dim) if isinstance(selection, int) else weights
        return weights

    def weight_blocks(self) -> Iterator[WeightBlock]:
        """Yield every visible weight once, in blocks of at most 16 MB.

        The blocks share one buffer: use a block before requesting the next.
        """
        return exact_weights.weight_blocks(self)

    @cached_property
    def statistics(self) -> Statistics:
        """Entropy, distance, spread and weight on the first key of every head and query, computed together."""
        if self.stored_statistics is not None:
            return self.stored_statistics
        with torch.no_grad():
            if self.eager_weights is not None:
                return from_weights.statistics(self.eager_weights)
            return from_score_blocks.statistics(self) if from_score_blocks.supports(self) else fused.statistics(self)

    @property
    def lse(self) -> PerQuery:
        """Log-sum-exp of each row of scores; −inf for an empty row, 0 where only the weights are known."""
        return self.statistics.lse

    def entropy(self) -> PerQuery:
        """Return the entropy of each row of weights, in nats: 0 = all on one key, log n = evenly on n keys."""
        return self.statistics.entropy

    def distance(self) -> PerQuery:
        """Return the mean distance in tokens from each query back to its keys; negative means ahead."""
        return self.statistics.distance

    def mass(self, on: int | list[int]) -> PerQuery:
        """Return the total weight that each query puts on the given keys (sinks, separators, …)."""
        keys = _indices("mass(on=…)", [on] if isinstance(on, int) else list(on), self.shape[3]).unique()
        with torch.no_grad():
            return exact_weights.on_keys(self, keys, lambda: self.lse).sum(-1)

    def at_offset(self, offset: int) -> PerQuery:
        """Return the weight of each query on the key `offset` tokens after it: −1 the previous token, 0 itself."""
        with torch.no_grad():
            return exact_weights.at_offset(self, offset, lambda: self.lse)

    def received(self) -> Float[Tensor, "batch heads keys"]:
        """Return the weight that each key receives from all queries together."""
        with torch.no_grad():
            if self.eager_weights is not None:
                return self.eager_weights.float().sum(-2)
            received = self.statistics.received
            return fused.received(self, self.lse) if received is None else received

    def top(
        self, count: int
    ) -> tuple[Float[Tensor, "batch heads queries top"], Int[Tensor, "batch heads queries top"]]:
        """Return the `count` largest weights of each query and their keys; key −1 where fewer are visible."""
        if count < 1:
            raise ValueError(f"top(count) must be at least 1, got {count}")
        count = min(count, self.shape[3])
        with torch.no_grad():
            if (
                self.eager_weights is None
                and count <= from_score_blocks.MOST_SORTED
                and from_score_blocks.supports(self)
            ):
                return from_score_blocks.top(self, count, self.lse)
            return from_weights.top(self, count)

    def __repr__(self) -> str:
        batch, heads, length, size = self.shape
        mask = f", mask={self.mask!r}" if self.mask is not None else ", mask=<tensor>" if self.bias is not None else ""
        return f"Call({self.name!r}, B={batch} H={heads} L={length} S={size}, {self.kernel}{mask})"


def _indices(name: str, selection: Selection, size: int) -> Int[Tensor, "count"]:
    if isinstance(selection, bool) or not isinstance(selection, int | slice | list | tuple | range | type(None)):
        raise TypeError(f"{name} must be an index, a slice or a list of indices, got {selection!r}")
    if selection is None or isinstance(selection, slice):
        return torch.arange(*(selection or slice(None)).indices(size))
    indices = [selection] if isinstance(selection, int) else list(selection)
    for index in indices:
        if not -size <= index < size:
            raise ValueError(f"{name}: index {index} is out of range, there are {size}")
    return torch.tensor([index % size for index in indices], dtype=torch.long)
