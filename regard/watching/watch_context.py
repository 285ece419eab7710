"""`regard.watch`: a context manager that records every attention call of a model."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from regard.watching.recorder.call_site import ModuleStack
from regard.watching.recorder.call_tensors import Keep
from regard.watching.recorder.function_mode import ModuleFilter, Recorder
from regard.watching.recorder.torch_overrides import torch_overrides
from regard.watching.recorder.wrapped_forwards import register
from regard.watching.recording import Recording


@contextmanager
def watch(
    model: nn.Module,
    *,
    keep: Keep = "inputs",
    only: str | Iterable[str] | ModuleFilter | None = None,
    max_calls: int | None = None,
    positions: Any = None,
) -> Iterator[Recording]:
    """Record the attention calls that a model makes inside the with-block.

    keep        "inputs": keep references to queries and keys; weights are computed when they are requested.
                "copies": keep copies of them, for models that change them in place afterwards.
                "statistics": compute entropy, distance, spread and sink at once and keep nothing else.
    only        modules to record: a pattern such as "encoder.*", several patterns, or a function of the module's path
    max_calls   record at most this many calls
    positions   index of each query's own key among the keys, (L,) or (B, L), where the model does not show it

    The model may run in other threads. Compiled models run uncompiled inside the with-block; `recording.notes` says so.
    What attends but could not be recorded is listed in `recording.unseen`.

    >>> import regard, torch
    >>> model = torch.nn.TransformerEncoderLayer(16, 2, batch_first=True).eval()
    >>> with torch.no_grad(), regard.watch(model) as seen:
    ...     _ = model(torch.randn(1, 5, 16))
    >>> seen.calls
    [Call('self_attn', B=1 H=2 L=5 S=5, native encoder layer)]
    """
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"watch expects an nn.Module, got {type(model).__name__}; watch the model that a function calls"
        )
    if keep not in ("inputs", "copies", "statistics"):
        raise ValueError(f"keep must be 'inputs', 'copies' or 'statistics', got {keep!r}")
    if max_calls is not None and max_calls < 1:
        raise ValueError(f"max_calls must be at least 1, got {max_calls}")
    recording = Recording(model, selective=only is not None)
    with active(Recorder(recording, keep, _module_filter(only), max_calls, _check_positions(positions))):
        yield recording


@contextmanager
def active(recorder: Recorder) -> Iterator[None]:
    """Let a recorder see the functions that its model runs inside the with-block, in any thread; then finish it."""
    with run_uncompiled(recorder.recording, recorder.stack), torch_overrides, register(recorder), recorder:
        try:
            yield
        finally:
            with torch._C.DisableTorchFunction():
                recorder.finish()


def _check_positions(positions: Any) -> Tensor | None:
    if positions is None:
        return None
    tensor = torch.as_tensor(positions)
    if tensor.dim() not in (1, 2) or tensor.dtype.is_floating_point or tensor.dtype == torch.bool or not tensor.numel():
        raise ValueError(
            f"positions must be the indices of the queries' own keys, integers (L,) or (B, L), got {tensor.dtype} "
            f"{tuple(tensor.shape)}"
        )
    return tensor.long()


@contextmanager
def run_uncompiled(recording: Recording, stack: ModuleStack) -> Iterator[None]:
    """Run compiled functions uncompiled: the recorder sees no function inside a compiled one."""
    if "torch._dynamo" not in sys.modules:  # nothing is compiled, and loading it takes seconds
        yield
        return
    compiled = [name for name, module in stack.modules.items() if _is_compiled(module)]
    if compiled:
        names = ", ".join(name or "the model" for name in compiled[:3])
        recording.notes.append(f"compiled parts ran uncompiled while they were watched: {names}")
    with torch.compiler.set_stance("force_eager"):
        yield


def _is_compiled(module: nn.Module) -> bool:
    """Whether a module is compiled, or holds a compiled function."""
    attributes = vars(module)
    if type(module).__name__ == "OptimizedModule" or "_compiled_call_impl" in attributes:
        return attributes.get("_compiled_call_impl") is not None or type(module).__name__ == "OptimizedModule"
    if FunctionType not in set(map(type, attributes.values())):
        return False
    return any(type(x) is FunctionType and hasattr(x, "_torchdynamo_orig_callable") for x in attributes.values())


def _module_filter(only: str | Iterable[str] | ModuleFilter | None) -> ModuleFilter:
    if only is None:
        return lambda name: True
    if callable(only):
        return only
    patterns = [only] if isinstance(only, str) else list(only)
    return lambda name: matches(name, patterns)


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a module's path matches one of the patterns, or is inside of a module that does."""
    return any(fnmatchcase(name, p) or name.startswith(f"{p}.") for p in patterns)
