"""The interventions of `regard.intervene`: ablate, knockout, reweight and patch.

Each selects heads, queries, keys and batch items; what is left out selects all of them. An index selects one, a slice
or a list several; see `selection` for how queries and keys are numbered in a generation.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, SupportsFloat, get_args

import torch
from torch import Tensor

from regard.watching.call import Call
from regard.watching.interventions.call_changes import CallChanges
from regard.watching.interventions.selection import Selection, Selector, check_selection
from regard.watching.recording import Recording
from regard.watching.weights import exact_weights
from regard.watching.weights.weight_edits import Replace, Rows, Scale

Patched = Literal["weights", "q", "k", "v", "output"]
INPUTS = {"q": "queries", "k": "keys", "v": "values"}


class Intervention(Protocol):
    """Adds its changes to a call."""

    def apply(self, changes: CallChanges, selector: Selector) -> None: ...


@dataclass(frozen=True)
class Ablation:
    """Sets the outputs of heads to 0 or to a mean; made by `ablate`."""

    heads: Selection
    to: Literal["zero", "mean"] | Recording
    queries: Selection
    batch: Selection

    def apply(self, changes: CallChanges, selector: Selector) -> None:
        rows = changes.rows(selector, self.heads, self.queries, self.batch)
        if rows is None:
            return
        call = changes.call
        chosen = rows.mask(call)[..., None]
        if self.to == "zero":
            # Without gradients the output, which no other tensor shares, is changed in place.
            changes.output_changes.append(
                lambda out: out.masked_fill(chosen, 0.0) if out.requires_grad else out.masked_fill_(chosen, 0.0)
            )
        elif self.to == "mean":
            if call.shape[0] == 1:
                raise ValueError(
                    f"{selector.label}: the mean over a batch of 1 in {call.name or 'the model'!r} is the output "
                    "itself; run a larger batch, or give a recording of a reference run: ablate(…, to=recording)"
                )
            changes.output_changes.append(lambda out: torch.where(chosen, out.mean(0, keepdim=True), out))
        else:
            mean = _mean_output(self.to, call, selector)
            changes.output_changes.append(lambda out: torch.where(chosen, mean.to(out), out))


def ablate(
    heads: Selection = None,
    *,
    to: Literal["zero", "mean"] | Recording = "zero",
    queries: Selection = None,
    batch: Selection = None,
) -> Ablation:
    """Return an intervention that removes the outputs of heads.

    to      "zero": set them to 0
            "mean": set them to their mean over the batch items of the call, for each query
            a recording (`regard.watch`) of a reference run: to their mean over its batch items and queries

    The weights stay as they are.

    >>> import regard, torch
    >>> layer = regard.nn.MultiHeadAttention(16, 2, bias=False)
    >>> with regard.intervene(layer, {"*": ablate([0, 1])}):
    ...     layer(torch.randn(1, 3, 16)).abs().max().item()
    0.0
    """
    if not isinstance(to, Recording) and to not in ("zero", "mean"):
        raise ValueError(f"to must be 'zero', 'mean' or a recording of a reference run, got {to!r}")
    heads, queries, batch = _checked(heads=heads, queries=queries, batch=batch)
    return Ablation(heads, to, queries, batch)


@dataclass(frozen=True)
class Reweighting:
    """Multiplies the weights on keys and renormalizes; made by `reweight` and `knockout`."""

    keys: Selection
    factor: float
    heads: Selection
    queries: Selection
    batch: Selection
    empty: Literal["error", "zero"]

    def apply(self, changes: CallChanges, selector: Selector) -> None:
        rows = changes.rows(selector, self.heads, self.queries, self.batch)
        keys = changes.keys(selector, self.keys)
        if rows is not None and len(keys) and self.factor != 1:
            changes.add_edit(Scale(rows, keys, self.factor, self.empty))


def knockout(
    *,
    keys: Selection,
    queries: Selection = None,
    heads: Selection = None,
    batch: Selection = None,
    empty: Literal["error", "zero"] = "error",
) -> Reweighting:
    """Return an intervention after which the queries do not see the keys; their other weights are renormalized.

    keys, queries, heads, batch     numbers, slices or index tensors; None selects all
    empty                           what to do with a query that would see nothing: raise an error, or set its weights
                                    and output to 0

    >>> import regard, torch
    >>> layer = regard.nn.MultiHeadAttention(16, 2, causal=True)
    >>> with regard.intervene(layer, {"*": knockout(queries=-1, keys=0)}), regard.watch(layer) as seen:
    ...     _ = layer(torch.randn(1, 3, 16))
    >>> seen[0].weights(queries=-1, keys=0)
    tensor([[0., 0.]])
    """
    return reweight(keys=keys, by=0.0, queries=queries, heads=heads, batch=batch, empty=empty)


def reweight(
    *,
    keys: Selection,
    by: SupportsFloat,
    queries: Selection = None,
    heads: Selection = None,
    batch: Selection = None,
    empty: Literal["error", "zero"] = "error",
) -> Reweighting:
    """Return an intervention that multiplies the weights on the keys by a factor ≥ 0, then renormalizes the rows.

    keys, queries, heads, batch     as in `knockout`
    by                              the factor
    empty                           for by=0, as in `knockout`

    >>> import regard, torch
    >>> q = torch.zeros(1, 1, 4)                        # equal weights on two keys
    >>> class Half(torch.nn.Module):
    ...     def forward(self, v):
    ...         return regard.attend(q, torch.zeros(1, 2, 4), v)
    >>> model = Half()
    >>> with regard.intervene(model, {"*": reweight(keys=0, by=3)}):
    ...     model(torch.tensor([[[1.0, 0, 0, 0], [0, 1, 0, 0]]]))
    tensor([[[0.7500, 0.2500, 0.0000, 0.0000]]])
    """
    if isinstance(by, bool) or not isinstance(by, int | float) or not 0 <= by < math.inf:
        raise ValueError(f"by must be a number of at least 0, got {by!r}; 0 hides the keys, 1 changes nothing")
    if empty not in ("error", "zero"):
        raise ValueError(f"empty must be 'error' or 'zero', got {empty!r}")
    if keys is None:
        raise ValueError("keys must be given: the keys whose weights change; slice(None) selects all")
    keys, heads, queries, batch = _checked(keys=keys, heads=heads, queries=queries, batch=batch)
    return Reweighting(keys, float(by), heads, queries, batch, empty)


@dataclass(frozen=True)
class Patch:
    """Replaces something of a call by that of another run; made by `patch`."""

    other: Recording | Call
    what: Patched
    heads: Selection
    queries: Selection
    keys: Selection
    batch: Selection

    def apply(self, changes: CallChanges, selector: Selector) -> None:
        call, other = changes.call, _call_of(self.other, changes.call, selector)
        rows = changes.rows(selector, self.heads, self.queries, self.batch)
        if rows is None:
            return
        if self.what == "weights":
            self._check_shape(selector, call, other, other.shape, call.shape)
            changes.add_edit(Replace(rows, _weights_of(other)))
        elif self.what == "output":
            replacement = other.output
            self._check_shape(selector, call, other, replacement.shape, (*call.shape[:3], call.v.shape[-1]))
            chosen = rows.mask(call)[..., None]
            changes.output_changes.append(lambda out: torch.where(chosen, replacement.to(out), out))
        else:
            if call.eager_weights is not None and self.what != "v":
                raise ValueError(
                    f"{selector.label}: {call.name or 'the model'!r} is eager attention, whose queries and keys are "
                    "not known; patch its weights, or run the model on fused attention (attn_implementation='sdpa')"
                )
            self._patch_input(changes, selector, other, rows)

    def _patch_input(self, changes: CallChanges, selector: Selector, other: Call, rows: Rows) -> None:
        """Replace queries, keys or values; heads that share keys get their own if only some of them are patched."""
        call, name = changes.call, INPUTS[self.what]
        replacement, places = other.tensor(name), rows
        if self.what != "q":
            keys = None if self.keys is None else changes.keys(selector, self.keys)
            heads, every = rows.heads, call.shape[1]
            own_keys = heads is not None or replacement.shape[1] == every
            count = every if own_keys else call.tensor(name).shape[1]  # earlier patches may have given heads their own
            if count > call.tensor(name).shape[1]:
                for shared in ("keys", "values"):
                    changes.replace_input(shared, lambda x: _repeated(x, every))
            replacement = _repeated(replacement, count)
            places = Rows(rows.batch, heads, keys)
        shape = call.tensor(name).shape
        self._check_shape(selector, call, other, replacement.shape, shape)
        chosen = places.mask(call, shape)[..., None]
        changes.replace_input(name, lambda x: torch.where(chosen, replacement.to(x), x))

    def _check_shape(self, selector: Selector, call: Call, other: Call, got: Any, expected: Any) -> None:
        if got[1:] != expected[1:] or got[0] not in (1, expected[0]):
            names = {"weights": "B, H, L, S"}.get(self.what, "B, H, length, d")
            raise ValueError(
                f"{selector.label}: the {self.what} of the other run ({other.name!r}) have shape {tuple(got)} "
                f"({names}), but the call of {call.name or 'the model'!r} needs {tuple(expected)}; record the other "
                "run on inputs of the same lengths, with the same batch size or 1"
            )


def patch(
    other_run: Recording | Call,
    what: Patched = "weights",
    *,
    heads: Selection = None,
    queries: Selection = None,
    keys: Selection = None,
    batch: Selection = None,
) -> Patch:
    """Return an intervention that replaces weights, q, k, v or the outputs of heads by those of another run.

    other_run   recording of the other run (`regard.watch`): the same call of the same module is used; or one call of
                a recording, whatever its module
    what        "weights", "q", "k", "v", or "output" for the outputs of heads before the output projection
    queries     for "weights", "q" and "output"
    keys        for "k" and "v"

    The other run has inputs of the same length, and the same batch size or 1. It is a constant: gradients do not flow
    into it.

    >>> import regard, torch
    >>> layer = regard.nn.MultiHeadAttention(16, 2)
    >>> a, b = torch.randn(2, 1, 3, 16)
    >>> with regard.watch(layer) as seen:
    ...     expected = layer(a)
    >>> with regard.intervene(layer, {"*": patch(seen, "output")}):
    ...     bool((layer(b) - expected).abs().max() < 1e-6)
    True
    """
    if not isinstance(other_run, Recording | Call):
        raise TypeError(
            f"patch expects a recording of another run (from regard.watch) or one of its calls, got "
            f"{type(other_run).__name__}"
        )
    if what not in get_args(Patched):
        raise ValueError(f"what must be 'weights', 'q', 'k', 'v' or 'output', got {what!r}")
    wrong = "queries" if what in ("k", "v") else "keys"
    if (queries if wrong == "queries" else keys) is not None:
        right = "keys" if wrong == "queries" else "queries"
        raise ValueError(f"patch(what={what!r}) takes {right}=, not {wrong}=")
    return Patch(other_run, what, *_checked(heads=heads, queries=queries, keys=keys, batch=batch))


def _repeated(x: Tensor, heads: int) -> Tensor:
    """Return keys or values (B, H_kv, S, d) of groups of heads with a copy for each head; others as they are."""
    return x if heads % x.shape[1] else x.repeat_interleave(heads // x.shape[1], 1)


def _checked(**selections: Selection) -> tuple[Any, ...]:
    return tuple(check_selection(name, x) for name, x in selections.items())


def _weights_of(other: Call) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Return a function that computes rows of weights of a recorded call, which may have a batch of 1."""

    def rows(b: Tensor, h: Tensor, i: Tensor) -> Tensor:
        items = b if other.shape[0] > 1 else torch.zeros_like(b[:1])
        weights = exact_weights.selected(other, items, h, i)
        return weights.expand(len(b), *weights.shape[1:])

    return rows


def _call_of(other: Recording | Call, call: Call, selector: Selector) -> Call:
    """Return the call of another run that belongs to a call: of the same module, and as many calls into the run."""
    if isinstance(other, Call):
        return other
    calls = [x for x in other.calls if x.name == call.name]
    if not calls:
        names = ", ".join(dict.fromkeys(x.name or "the model" for x in other.calls)) or "none"
        raise ValueError(
            f"{selector.label}: the other run has no attention call of {call.name or 'the model'!r}; it has calls of: "
            f"{names}"
        )
    if len(calls) > 1 and call.step >= len(calls):
        raise ValueError(
            f"{selector.label}: the other run has {len(calls)} calls of {call.name or 'the model'!r}, but this is call "
            f"number {call.step + 1}; record a run of the same number of steps"
        )
    return calls[call.step] if len(calls) > 1 else calls[0]


def _mean_output(reference: Recording, call: Call, selector: Selector) -> Tensor:
    """Return the mean output (1, H, 1, d_v) of each head over the batch items and queries of a reference run."""
    calls = [x for x in reference.calls if x.name == call.name]
    if not calls:
        _call_of(reference, call, selector)
    outputs = torch.cat([x.output.movedim(1, 0).flatten(1, 2) for x in calls], 1)  # (H, B · L, d_v)
    expected = (call.shape[1], call.v.shape[-1])
    if (outputs.shape[0], outputs.shape[2]) != expected:
        raise ValueError(
            f"{selector.label}: the reference run has {outputs.shape[0]} heads of width {outputs.shape[2]} in "
            f"{call.name or 'the model'!r}, expected {expected[0]} heads of width {expected[1]}"
        )
    return outputs.mean(1)[None, :, None]
