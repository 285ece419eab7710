"""Runs of a model on token ids for the head atlas: how it is called, and what its output says about the next token."""

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.watching.interventions.intervene_context import intervene
from regard.watching.recording import Recording
from regard.watching.watch_context import watch

Run = Callable[[nn.Module, Tensor], Any]


def default_run(model: nn.Module, ids: Tensor) -> Any:
    """Call a model with token ids; a model with encoder and decoder gets the same ids twice."""
    names = list(inspect.signature(model.forward).parameters)
    if "decoder_input_ids" in names:
        return model(input_ids=ids, decoder_input_ids=ids)
    if names[:2] == ["source", "target"]:
        return model(ids, ids)
    return model(ids)


def record(model: nn.Module, ids: Tensor, run: Run) -> tuple[Recording, Tensor]:
    """Return the recorded calls of a run, and its output."""
    with torch.no_grad(), watch(model) as seen:
        out = _tensor(run(model, ids))
    if not seen.calls:
        seen.summary()  # raises an error that explains why nothing was recorded
    return seen, out


def output(model: nn.Module, ids: Tensor, run: Run, changes: dict[str, Any] | None = None) -> Tensor:
    """Return the output of a run, with interventions."""
    with torch.no_grad(), intervene(model, changes) if changes else nullcontext():
        return _tensor(run(model, ids))


def _tensor(out: Any) -> Float[Tensor, "batch tokens _"]:
    """Return the scores of the next token, or the vectors of the tokens, from what a model returns."""
    for name in ("logits", "last_hidden_state"):
        if isinstance(x := getattr(out, name, None), Tensor):
            out = x
            break
    if isinstance(out, tuple | list):
        out = out[0]
    if not isinstance(out, Tensor) or out.dim() != 3:
        raise ValueError(
            f"the atlas needs an output (B, tokens, vocabulary or width), got {tuple(getattr(out, 'shape', ()))}; pass "
            "run=, a function of model and token ids that returns such a tensor"
        )
    return out.float()


def next_token_losses(out: Tensor, ids: Int[Tensor, "batch tokens"]) -> Float[Tensor, "batch predicted"]:
    """Return the loss of each next token."""
    return F.cross_entropy(out[:, :-1].transpose(1, 2), ids[:, 1:], reduction="none")
