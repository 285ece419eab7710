"""One recorded attention call, with its exact weights and its statistics."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.watching.attribution.differentiable import live_entropy, live_weights
from regard.watching.call_inputs import CallInputs, PerQuery
from regard.watching.output_projection import find_output_projection
from regard.watching.query_positions import find_positions
from regard.watching.statistics import from_score_blocks, from_weights
from regard.watching.statistics.row_statistics import Statistics
from regard.watching.weights import exact_weights
from regard.watching.weights.exact_weights import WeightBlock

Selection = int | slice | list[int] | None


@dataclass(repr=False)
class Call(CallInputs):
    """A recorded attention call. Weights are exact, per head, and computed only for the part requested.

    stored_statistics, stored_sink          statistics that were computed while the model ran
    model                                   the model that was watched
    name                                    path of the module that made the call; "" for the model itself
    kernel                                  the function that computed it
    shape                                   B, H, L, S
    scale                                   factor of the scores; None where it is not known (eager attention)
    queries, keys, values, outputs          tensors, or functions that compute them; read them as `q`, `k`, `v` and
                                            `output`
    mask, boolean_mask                      masks of the call; True = visible
    bias, bias_rule                         added to the scores: a tensor, or a rule such as ALiBi
    softcap, score_function                 changes of the scores, as for `attend`
    sinks                                   logits in the denominator that belong to no key
    eager_weights                           the weights, where the model itself computes them
    edits                                   how `regard.intervene` changed the weights
    score_width, score_bias                 what is known of the scores of an eager model
    dropout                                 probability with which weights are dropped
    cross                                   whether the keys come from another sequence than the queries
    cached                                  whether the keys come from a cache that holds earlier tokens
    step                                    number of earlier calls of the same module
    folded                                  whether batch and heads share one axis and could not be separated
    query_positions, positions_searched     index of each query's own key, and whether it is final; read it as
                                            `positions`
    versions, write_logs, computed          what detects changes of the tensors after the call
    live                                    the tensors of a call with gradients
    gradient, output_gradients              what computes the gradients for `relevance` and `importance`

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

    stored_statistics: Statistics | None = None
    stored_sink: PerQuery | None = None
    model: nn.Module | None = field(default=None, repr=False)

    def weights(
        self,
        *,
        head: Selection = None,
        queries: Selection = None,
        keys: Selection = None,
        batch: Selection = None,
        grad: bool = False,
    ) -> Float[Tensor, "..."]:
        """Return the weights (B, H, L, S), or a selection of them; a single index drops its dimension.

        grad    whether gradients flow from the weights into the model, which must have run with gradients
        """
        b, h, i, j = self._selected_indices(batch, head, queries, keys)
        rows_at_once = max(1, 2**22 // max(1, self.shape[3]))
        select = live_weights if grad else exact_weights.selected
        with full_precision(self, gradients=grad):
            blocks = [select(self, b, h, rows)[..., j] for rows in i.split(rows_at_once)]
        weights = torch.cat(blocks, -2)
        for dim, selection in ((3, keys), (2, queries), (1, head), (0, batch)):
            weights = weights.squeeze(dim) if isinstance(selection, int) else weights
        return weights

    def _selected_indices(self, *selections: Selection) -> list[Int[Tensor, "count"]]:
        """Return the indices of selected batch items, heads, queries and keys, on the device of the call."""
        names = ("batch", "head", "queries", "keys")
        if self.folded and (isinstance(selections[0], int) or isinstance(selections[1], int)):
            raise ValueError(
                f"call {self.name!r} holds batch and heads in one axis of {self.shape[1]}, which could not be "
                "separated; select neither batch nor head, and index the result"
            )
        device = self.like.device
        return [_indices(name, x, size).to(device) for name, x, size in zip(names, selections, self.shape, strict=True)]

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
        self.check_unchanged()
        with full_precision(self):
            if from_score_blocks.supports(self):
                return from_score_blocks.statistics(self)
            return from_weights.statistics(self)

    @property
    def lse(self) -> PerQuery:
        """Log-sum-exp of each row of scores and its sink; −inf for an empty row, 0 where only the weights are known."""
        return self.statistics.lse

    def entropy(self, *, grad: bool = False) -> PerQuery:
        """Return the entropy of each row of weights, in nats: 0 = all on one key, log n = evenly on n keys.

        grad    whether gradients flow from it into the model, which must have run with gradients

        >>> import regard, torch
        >>> layer = regard.nn.MultiHeadAttention(16, 2, causal=True)
        >>> with regard.watch(layer) as seen:
        ...     out = layer(torch.randn(1, 5, 16))
        >>> loss = out.square().mean() - 0.01 * seen[0].entropy(grad=True).mean()   # rewards even weights
        >>> loss.backward()
        """
        if not grad:
            return self.statistics.entropy
        with full_precision(self, gradients=True):
            return live_entropy(self)

    def largest(self) -> PerQuery:
        """Return the largest score of each row, after scale, biases and masks; −inf for an empty row.

        Scores that grow during training make softmax saturate. Of eager attention only weights are known, so that this
        raises an error.

        >>> import regard, torch
        >>> layer = regard.nn.MultiHeadAttention(16, 2, causal=True)
        >>> with regard.watch(layer) as seen:
        ...     _ = layer(torch.randn(1, 5, 16))
        >>> torch.allclose(seen[0].largest(), seen[0].top(1)[0][..., 0].log() + seen[0].lse, atol=1e-5)
        True
        """
        largest = self.statistics.largest
        if largest is None:
            raise ValueError(
                f"largest: the scores of call {self.name!r} are not known, only its weights ({self.kernel}); run the "
                "model on fused attention (attn_implementation='sdpa')"
            )
        return largest

    def distance(self) -> PerQuery:
        """Return the mean distance in tokens from each query back to its keys; negative means ahead."""
        positions = self.known_positions("distance")
        distance = (positions if positions.dim() == 1 else positions[:, None]) - self.statistics.position
        return distance.masked_fill(self.statistics.empty, 0.0)

    def sink(self) -> PerQuery:
        """Return the share of each row's softmax that goes to no key: to a sink, or to the 1 of softmax-plus-one."""
        if self.stored_sink is not None:
            return self.stored_sink
        if self.eager_weights is not None:
            self.check_unchanged()
            return (1.0 - self.eager_weights.float().sum(-1)).clamp_min(0.0).masked_fill(self.statistics.empty, 0.0)
        if self.sinks is None:
            return torch.zeros_like(self.lse)
        if self.edits:
            return 1.0 - torch.cat([block.weights.sum(-1) for block in self.weight_blocks()], 2)
        sinks = self.sinks.expand(self.shape[:3]).to(self.lse.dtype)
        return (sinks - self.lse).exp()

    @property
    def positions(self) -> Int[Tensor, "*batch queries"] | None:
        """Index of each query's own key among the keys, (L,) or (B, L); None if it is not known.

        It is taken from the caller of `watch`, from equal lengths of queries and keys, from a causal mask, or from a
        cache that has grown by the number of queries.
        """
        if not self.positions_searched:
            self.query_positions, self.positions_searched = find_positions(self), True
        return self.query_positions

    def rows_seen(self) -> int:
        return self.shape[3] if self.positions is None else int(self.positions.max()) + 1

    def known_positions(self, purpose: str) -> Int[Tensor, "*batch queries"]:
        """Return the positions; raise ValueError if they are not known."""
        if self.positions is None:
            kind = "cross-attention" if self.cross else f"{self.shape[2]} queries over {self.shape[3]} keys"
            raise ValueError(
                f"{purpose} needs the position of each query among the keys, which is not known for call "
                f"{self.name!r} ({kind}); pass regard.watch(model, positions=…) if you know it"
            )
        return self.positions

    @property
    def output(self) -> Float[Tensor, "batch heads queries d_v"]:
        """Output of each head before the output projection, (B, H, L, d_v)."""
        if self.outputs is None and self.values is not None:
            rows = (self.weights(queries=slice(i, i + 256)) for i in range(0, self.shape[2], 256))
            blocks = [weights @ _values_of_each_head(self).to(weights.dtype) for weights in rows]
            return torch.cat(blocks, -2).to(self.v.dtype)
        return self.tensor("outputs")

    def contributions(
        self,
        *,
        head: Selection = None,
        queries: Selection = None,
        keys: Selection = None,
        batch: Selection = None,
        output_projection: Tensor | None = None,
    ) -> Float[Tensor, "..."]:
        """Return how much each key contributes to each query's output, ‖w · v · W_o‖, or a selection as in `weights`.

        W_o is the part of the output projection that belongs to the head. A large weight on a key whose value is
        small contributes little.

        output_projection   W_o as a matrix (H · d_v, d_model), if it cannot be found in the model
        """
        heads, width = self.shape[1], self.v.shape[-1]
        matrix = find_output_projection(self, heads * width) if output_projection is None else output_projection
        if matrix.dim() != 2 or matrix.shape[0] != heads * width:
            raise ValueError(
                f"output_projection must be a matrix with {heads * width} rows (H · d_v), got {tuple(matrix.shape)}; "
                "pass linear.weight.T"
            )
        with full_precision(self):
            parts = matrix.to(self.v.dtype).unflatten(0, (heads, width))
            norms = (_values_of_each_head(self) @ parts).norm(dim=-1)  # (B, H, S)
            b, h, _, j = self._selected_indices(batch, head, queries, keys)
            norms = norms.index_select(0, b).index_select(1, h).index_select(2, j)[:, :, None].float()
            for dim, selection in ((3, keys), (2, queries), (1, head), (0, batch)):
                norms = norms.squeeze(dim) if isinstance(selection, int) else norms
            return self.weights(head=head, queries=queries, keys=keys, batch=batch) * norms

    def mass(self, on: int | list[int]) -> PerQuery:
        """Return the total weight that each query puts on the given keys (sinks, separators, …)."""
        keys = _indices("mass(on=…)", [on] if isinstance(on, int) else list(on), self.shape[3]).unique()
        keys = keys.to(self.like.device)
        with full_precision(self):
            return exact_weights.on_keys(self, keys, lambda: self.lse).sum(-1)

    def at_offset(self, offset: int) -> PerQuery:
        """Return the weight of each query on the key `offset` tokens after it: −1 the previous token, 0 itself."""
        with full_precision(self):
            return exact_weights.at_offset(self, offset, self.known_positions("at_offset"), lambda: self.lse)

    def received(self) -> Float[Tensor, "batch heads keys"]:
        """Return the weight that each key receives from all queries together."""
        if self.statistics.received is not None:
            return self.statistics.received
        with full_precision(self):
            return from_weights.received(self)

    def top(
        self, count: int
    ) -> tuple[Float[Tensor, "batch heads queries top"], Int[Tensor, "batch heads queries top"]]:
        """Return the `count` largest weights of each query and their keys; key −1 where fewer are visible."""
        if count < 1:
            raise ValueError(f"top(count) must be at least 1, got {count}")
        count = min(count, self.shape[3])
        with full_precision(self):
            if count <= from_score_blocks.MOST_SORTED and from_score_blocks.supports(self):
                return from_score_blocks.top(self, count, self.lse)
            return from_weights.top(self, count)

    def __repr__(self) -> str:
        batch, heads, length, size = self.shape
        tensor = self.bias is not None or self.boolean_mask is not None
        mask = f", mask={self.mask!r}" if self.mask is not None else ", mask=<tensor>" if tensor else ""
        shape = f"B·H={heads}" if self.folded else f"B={batch} H={heads}"
        return f"Call({self.name!r}, {shape} L={length} S={size}, {self.kernel}{mask})"

    def separate_statistics(self, separate: Callable[[Any], Any]) -> None:
        if self.stored_statistics is not None:
            names = [x.name for x in fields(self.stored_statistics)]
            values = {name: separate(getattr(self.stored_statistics, name)) for name in names}
            self.stored_statistics = Statistics(**values)
            self.stored_sink = separate(self.stored_sink)


@contextmanager
def full_precision(call: CallInputs, *, gradients: bool = False) -> Iterator[None]:
    """Compute without autocast, which would round scores, and without gradients unless they are requested."""
    device = call.like.device.type
    try:
        autocast = torch.is_autocast_enabled(device)
    except RuntimeError:  # the device has no autocast
        autocast = False
    no_gradients = nullcontext() if gradients else torch.no_grad()
    with no_gradients, torch.autocast(device, enabled=False) if autocast else nullcontext():
        yield


def _values_of_each_head(call: Call) -> Float[Tensor, "batch heads keys d_v"]:
    """Return the values of every query head, a view where heads share values."""
    group = call.shape[1] // call.v.shape[1]
    return call.v if group == 1 else call.v[:, :, None].expand(-1, -1, group, -1, -1).flatten(1, 2)


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
