"""`regard.intervene`: a context manager that changes the attention calls of a model."""

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from regard.attention.listeners import call_changers
from regard.watching.interventions.bound_interventions import Bound
from regard.watching.interventions.call_changes import LiveCall
from regard.watching.interventions.intervener import Intervener
from regard.watching.interventions.kinds import Ablation, Patch, Reweighting
from regard.watching.interventions.selection import Selector
from regard.watching.recorder.call_site import is_attention
from regard.watching.recorder.torch_overrides import has_tensor_subclass
from regard.watching.recorder.wrapped_forwards import TORCH_LAYERS
from regard.watching.watch_context import active, matches

KINDS = (Ablation, Patch, Reweighting)
Change = Ablation | Patch | Reweighting | Callable[[LiveCall], Any]
MOST_NAMES = 6  # modules listed in a message


@contextmanager
def intervene(model: nn.Module, interventions: Mapping[str, Change | Sequence[Change]]) -> Iterator[None]:
    """Change the attention calls that a model makes inside the with-block.

    interventions   from patterns of module paths, as `regard.watch` names modules, to interventions of
                    `regard.interventions`, to a function, or to a list of these. A pattern also matches modules inside
                    of those that it matches.

    The interventions of a call apply in this order: first patched q, k and v, then changes of weights, then changes of
    outputs; each in the order in which they are given, and those of outer with-blocks first.

    A function sees the changes of those before it. An output that it returns replaces the output, whatever later
    interventions do to the weights. It is called with a `LiveCall`, which has `name`, `shape`, `step`, `q`, `k`, `v`,
    `output` and `weights(…)`, and returns

        None                                nothing is changed
        {"output": tensor}                  the outputs of all heads (B, H, L, d_v)
        {"weights": tensor}                 all weights (B, H, L, S)
        {…, "head": 3, "queries": [5]}      those of some heads, queries or batch items ("batch") only
        a tensor                            outputs or weights, if its shape says which

    Attention is computed exactly and without an L×S matrix, except where a function asks for one, and is
    differentiable. Dropout applies to the changed weights. With gradient checkpointing, call backward inside the
    with-block, because it runs the model again. Compiled models run uncompiled, and torch's layers leave their native
    inference path.

    What cannot be changed is an error: a pattern that matches no module, or no module that attends; a head that does
    not exist; a row that would see nothing; a module that attends in a way that `regard.watch` reports as unseen. The
    last is raised when the with-block ends, as is a query or key that no call of a generation had.

    >>> import regard, torch
    >>> from regard.interventions import ablate, knockout
    >>> model = torch.nn.TransformerEncoderLayer(16, 2, batch_first=True).eval()
    >>> x = torch.randn(1, 5, 16)
    >>> with regard.intervene(model, {"self_attn": [knockout(keys=0), ablate(heads=1)]}), regard.watch(model) as seen:
    ...     _ = model(x)
    >>> seen[0].weights(keys=0).max(), seen[0].output[:, 1].abs().max()
    (tensor(0.), tensor(0.))
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"intervene expects an nn.Module, got {type(model).__name__}")
    intervener = Intervener(model, _bind(model, interventions), matches)
    with ExitStack() as stack:
        stack.enter_context(_slow_paths(intervener))
        stack.enter_context(_recomputation_seen())
        call_changers.append(intervener.change_attend)
        stack.callback(call_changers.remove, intervener.change_attend)
        stack.enter_context(active(intervener))
        yield
    _check_applied(intervener)


def _bind(model: nn.Module, interventions: Mapping[str, Any]) -> list[Bound]:
    """Check patterns and interventions, and return the interventions in their order."""
    if not isinstance(interventions, Mapping) or not interventions:
        raise TypeError(
            "intervene expects a dict from patterns of module paths to interventions, such as "
            f"{{'*': ablate(heads=0)}}, got {interventions!r}"
        )
    names = [name for name, _ in model.named_modules()]
    bound = []
    for pattern, value in interventions.items():
        if not isinstance(pattern, str):
            raise TypeError(f"a pattern of module paths must be a string, got {pattern!r}")
        if not any(matches(name, [pattern]) for name in names):
            raise ValueError(_explain_no_match(model, pattern))
        for one in value if isinstance(value, list | tuple) else [value]:
            if not isinstance(one, KINDS) and not callable(one):
                raise TypeError(
                    f"{pattern!r}: an intervention must come from regard.interventions or be a function of a call, got "
                    f"{one!r}"
                )
            kind = {Ablation: "ablate", Patch: "patch", Reweighting: "knockout"}.get(type(one))
            if isinstance(one, Reweighting) and one.factor:
                kind = "reweight"
            label = f"{kind or getattr(one, '__name__', type(one).__name__)} for {pattern!r}"
            bound.append(Bound(pattern, one, Selector(label)))
    return bound


def _explain_no_match(model: nn.Module, pattern: str) -> str:
    """Return an error message with the names of attention modules closest to a pattern that matches nothing."""
    every = [name for name, _ in model.named_modules(remove_duplicate=False)]
    if any(matches(name, [pattern]) for name in every):
        shared = {id(module): name for name, module in reversed(list(model.named_modules()))}
        alias = next(
            shared[id(module)]
            for name, module in model.named_modules(remove_duplicate=False)
            if matches(name, [pattern])
        )
        return f"the pattern {pattern!r} matches a module that is shared under another path; use {alias!r}"
    attending = [name for name, module in model.named_modules() if name and is_attention(module)]
    close = difflib.get_close_matches(pattern, attending, n=3, cutoff=0.4) or attending[:MOST_NAMES]
    names = ", ".join(map(repr, close)) if close else "the model itself, '*'"
    return f"the pattern {pattern!r} matches no module of {type(model).__name__}; modules that attend: {names}"


@contextmanager
def _recomputation_seen() -> Iterator[None]:
    """Let modes see what `torch.autograd.grad` runs, and not the function itself, inside of which none is active."""
    module: Any = torch.autograd
    original = module.has_torch_function
    module.has_torch_function = has_tensor_subclass
    try:
        yield
    finally:
        module.has_torch_function = original


@contextmanager
def _slow_paths(intervener: Intervener) -> Iterator[None]:
    """Keep torch's layers from their native inference path, in which attention is part of a larger kernel."""
    if not any(isinstance(module, TORCH_LAYERS) for module in intervener.stack.modules.values()):
        yield
        return
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)


def _check_applied(intervener: Intervener) -> None:
    """Raise an error for what was to be changed but was not, when the with-block ends without another error."""
    recording = intervener.recording
    names = list(dict.fromkeys(call.name or "the model" for call in recording.calls))
    problems = [
        f"{x.module or 'the model'}: {x.reason}" for x in recording.unseen if x.module in intervener.stack.modules
    ]
    problems += [f"{name or 'the model'}: {reason}" for name, reason in intervener.wrong.items()]
    if problems:
        raise RuntimeError("attention that was to be changed was not changed: " + "; ".join(problems))
    for one in intervener.bound:
        if not one.calls and names:
            listed = ", ".join(names[:MOST_NAMES]) + (", …" if len(names) > MOST_NAMES else "")
            raise ValueError(
                f"the pattern {one.pattern!r} matches modules, but none of them made an attention call inside the "
                f"with-block; these did: {listed}"
            )
        if one.calls and (complaints := one.selector.complaints()):
            raise ValueError("; ".join(complaints))
