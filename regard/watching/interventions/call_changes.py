"""The changes of one attention call, collected from its interventions; and the view of the call that functions get.

Changes of q, k and v come first, then those of the weights, then those of the outputs, each in the given order.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.watching.call import Call, _indices, _values_of_each_head
from regard.watching.call import Selection as CallSelection
from regard.watching.interventions import fused_changes
from regard.watching.interventions.selection import Selection, Selector
from regard.watching.weights.weight_edits import Replace, Rows, WeightEdit, apply_edits, edited_rows

OutputChange = Callable[[Tensor], Tensor]


@dataclass
class CallChanges:
    """A call that runs, with tensors that have gradients, and what is changed in it.

    call        the call; q, k and v are replaced in it, and its weights are edited
    base        computes the output (B, H, L, d_v) by the function that the model called
    growing     whether later calls of a generation may have more keys and queries
    """

    call: Call
    base: Callable[[], Tensor]
    growing: bool = False
    inputs_changed: bool = False
    output_changes: list[OutputChange] = field(default_factory=list)

    def rows(self, selector: Selector, heads: Selection, queries: Selection, batch: Selection) -> Rows | None:
        """Return the rows that an intervention selects; None if there are none in this call."""
        call = self.call
        first = self.first_query() if queries is not None else 0
        chosen = Rows(
            selector.select(call, "batch", batch, call.shape[0]),
            selector.select(call, "heads", heads, call.shape[1]),
            selector.select(call, "queries", queries, call.shape[2], first=first, growing=self.growing),
        )
        empty = any(x is not None and not len(x) for x in (chosen.batch, chosen.heads, chosen.queries))
        return None if empty else chosen

    def keys(self, selector: Selector, keys: Selection) -> Tensor:
        """Return the indices of the selected keys."""
        size = self.call.shape[3]
        chosen = selector.select(self.call, "keys", keys, size, growing=self.growing)
        return torch.arange(size, device=self.call.like.device) if chosen is None else chosen

    def first_query(self) -> int:
        """Return the number of the first query: its position if the keys come from a cache, otherwise 0."""
        call = self.call
        if not call.cached:
            return 0
        with torch.no_grad():
            positions = call.positions
        if positions is None:
            return call.shape[3] - call.shape[2]
        return int(positions.flatten()[0]) if positions.numel() else 0

    def add_edit(self, edit: WeightEdit) -> None:
        self.call.edits = (*self.call.edits, edit)

    def replace_input(self, name: str, change: Callable[[Tensor], Tensor]) -> None:
        """Replace "queries", "keys" or "values" of the call."""
        setattr(self.call, name, change(self.call.tensor(name)))
        self.inputs_changed = True

    def edited(self) -> Float[Tensor, "batch heads queries d_v"]:
        """Return the output with all changes so far except those of the output."""
        call = self.call
        if call.eager_weights is not None:
            weights = apply_edits(call, call.eager_weights, list(call.edits), Rows().indices(call))
            return weights @ _values_of_each_head(call).to(weights.dtype)
        base = self.base if not self.inputs_changed else lambda: fused_changes.unedited_output(call)
        return fused_changes.edited_output(call, base)

    def output(self) -> Float[Tensor, "batch heads queries d_v"]:
        """Return the output with all changes."""
        out = self.edited()
        for change in self.output_changes:
            out = change(out)
        return out


class LiveCall:
    """An attention call while it runs, as the functions given to `regard.intervene` get it.

    name, shape     path of the module; B, H, L, S
    step            number of earlier calls of this module inside the with-block
    q, k, v         queries (B, H, L, d_k), keys and values (B, H_kv, S, d); eager attention shows only values
    output          outputs of the heads (B, H, L, d_v)
    weights(…)      weights (B, H, L, S), or those of the selected heads, queries, keys and batch items

    All are differentiable, and contain the changes of interventions before the function.

    >>> import regard
    >>> layer = regard.nn.MultiHeadAttention(8, 2, bias=False)
    >>> with regard.intervene(layer, {"*": lambda call: 0 * call.output}):
    ...     output = layer(torch.randn(1, 3, 8))
    >>> output.abs().max().item()
    0.0
    """

    def __init__(self, changes: CallChanges) -> None:
        self._changes = changes
        call = changes.call
        self.name, self.shape, self.step = call.name, call.shape, call.step

    @property
    def q(self) -> Float[Tensor, "batch heads queries d_k"]:
        return self._changes.call.tensor("queries")

    @property
    def k(self) -> Float[Tensor, "batch kv_heads keys d_k"]:
        return self._changes.call.tensor("keys")

    @property
    def v(self) -> Float[Tensor, "batch kv_heads keys d_v"]:
        return self._changes.call.tensor("values")

    @property
    def output(self) -> Float[Tensor, "batch heads queries d_v"]:
        return self._changes.output()

    def weights(
        self,
        *,
        head: CallSelection = None,
        queries: CallSelection = None,
        keys: CallSelection = None,
        batch: CallSelection = None,
    ) -> Float[Tensor, "..."]:
        """Return weights (B, H, L, S), or a selection of them; a single index drops its dimension."""
        call = self._changes.call
        selections = (batch, head, queries, keys)
        b, h, i, j = (
            _indices(name, x, size).to(call.like.device)
            for name, x, size in zip(("batch", "head", "queries", "keys"), selections, call.shape, strict=True)
        )
        if call.eager_weights is None:
            weights = edited_rows(call, b, h, i)[..., j]
        else:
            rows = call.eager_weights[b[:, None, None], h[:, None], i]
            weights = apply_edits(call, rows, list(call.edits), (b, h, i))[..., j]
        for dim in (3, 2, 1, 0):
            weights = weights.squeeze(dim) if isinstance(selections[dim], int) else weights
        return weights

    def __repr__(self) -> str:
        batch, heads, length, size = self.shape
        return f"LiveCall({self.name!r}, B={batch} H={heads} L={length} S={size})"


def apply_function(changes: CallChanges, function: Callable[[LiveCall], Any], label: str) -> None:
    """Call a user's function and add the changes that it returns."""
    call = changes.call
    # The function sees a copy: what is added later must not appear in a view that it keeps.
    view = LiveCall(replace(changes, call=replace(call, computed={}), output_changes=list(changes.output_changes)))
    result = function(view)
    if result is None:
        return
    output_shape = (*call.shape[:3], call.v.shape[-1])
    if isinstance(result, Tensor):
        kinds = [kind for kind, shape in (("output", output_shape), ("weights", call.shape)) if result.shape == shape]
        if len(kinds) != 1:
            problem = "is that of both" if kinds else "is neither"
            raise ValueError(
                f"{label} returned a tensor {tuple(result.shape)} for {call.name or 'the model'!r}; its outputs are "
                f"{output_shape} and its weights {call.shape}, and the shape {problem}; return "
                "{'output': tensor}, or {'weights': tensor, 'head': …, 'queries': …, 'batch': …} for some rows"
            )
        result = {kinds[0]: result}
    known = {"output", "weights", "head", "queries", "batch"}
    if not isinstance(result, dict) or not result.keys() <= known or len(result.keys() & {"output", "weights"}) != 1:
        raise TypeError(
            f"{label} must return None, a tensor, or a dict with 'output' or 'weights' and the 'head', 'queries' and "
            f"'batch' that they are for, got {result if not isinstance(result, dict) else sorted(result)!r}"
        )
    selections = [result.get(name) for name in ("batch", "head", "queries")]
    b, h, i = (
        _indices(name, x, size).to(call.like.device)
        for name, x, size in zip(("batch", "head", "queries"), selections, call.shape, strict=False)
    )
    kind = "output" if "output" in result else "weights"
    new = result[kind]
    last = output_shape[-1] if kind == "output" else call.shape[3]
    expected = (len(b), len(h), len(i), last)
    given = tuple(n for n, x in zip(expected, selections, strict=False) if not isinstance(x, int))
    if not isinstance(new, Tensor) or tuple(new.shape) not in (expected, (*given, last)):
        raise ValueError(
            f"{label} returned {kind} {tuple(getattr(new, 'shape', ())) or type(new).__name__} for "
            f"{call.name or 'the model'!r}, expected {expected}"
        )
    new = new.reshape(expected)
    if kind == "output":
        places = b[:, None, None], h[:, None], i
        changes.output_changes.append(lambda out: out.index_put(places, new.to(out.dtype)))
        return
    b, h, i, new = b.sort()[0], h.sort()[0], i.sort()[0], new[b.argsort()][:, h.argsort()][:, :, i.argsort()]

    def rows(items: Tensor, heads: Tensor, queries: Tensor) -> Tensor:
        at = [torch.searchsorted(own, index) for own, index in ((b, items), (h, heads), (i, queries))]
        return new[at[0][:, None, None], at[1][:, None], at[2]]

    changes.add_edit(Replace(Rows(b, h, i), rows))
