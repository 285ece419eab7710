"""`regard.watch`: a context manager that records every attention call of a model.

The `Recorder` sees every torch function that runs. torch's layers leave their fast path while it is active;
`_FastPathsKept` prevents this, so that the model runs exactly the kernels that it runs unwatched.
"""

import functools
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatchcase
from types import FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.listeners import call_listeners
from regard.watching.call_site import ATTENTION_CLASS, ModuleStack
from regard.watching.readers import flex_attention_calls as flex
from regard.watching.recorder import Keep, ModuleFilter, Recorder, active_recorders
from regard.watching.recording import Recording

TORCH_LAYERS = (
    nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerEncoder, nn.TransformerDecoderLayer,
    nn.TransformerDecoder, nn.Transformer,
)  # fmt: skip


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
    recorder = Recorder(recording, keep, _module_filter(only), max_calls, _check_positions(positions))
    counts: dict[str, int] = {}
    with (
        _run_uncompiled(recording, recorder.stack),
        _fast_paths_kept,
        _attention_modules_counted(recorder, counts),
        _other_threads_recorded.of(recorder),
        recorder,
    ):
        try:
            yield recording
        finally:
            with torch._C.DisableTorchFunction():
                recorder.finish(counts)


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
def _run_uncompiled(recording: Recording, stack: ModuleStack) -> Iterator[None]:
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
    return (
        type(module).__name__ == "OptimizedModule"
        or attributes.get("_compiled_call_impl") is not None
        or any(type(x) is FunctionType and hasattr(x, "_torchdynamo_orig_callable") for x in attributes.values())
    )


@contextmanager
def _attention_modules_counted(recorder: Recorder, counts: dict[str, int]) -> Iterator[None]:
    """Count how often the modules run whose class is named as attention, to report those without a recorded call.

    torch's own layers leave their fast path if they have hooks. They are always recorded, so they get none.
    """
    handles, stack = [], recorder.stack
    torch_layers = [name for name, module in stack.modules.items() if isinstance(module, TORCH_LAYERS)]
    for name, module in stack.modules.items():
        if not ATTENTION_CLASS.search(type(module).__name__) or isinstance(module, torch.jit.ScriptModule):
            continue
        if not any(name == layer or name.startswith(f"{layer}.") or not layer for layer in torch_layers):

            def count(*_: Any, name: str = name) -> None:
                if recorder.records_this_thread():
                    counts[name] = counts.get(name, 0) + 1

            handles.append(module.register_forward_pre_hook(count))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


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


class _OtherThreadsRecorded:
    """Registers recorders with what is not bound to one thread: `regard.attend`, flex_attention, the model's forward.

    A TorchFunctionMode is active in one thread only. While recorders of a model are active, its forward function enters
    them in each thread that runs the model and has no recorder of its own.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.forwards: dict[
            int, tuple[Any, bool]
        ] = {}  # id of a model → its forward function, and whether it is its own
        self.entered = threading.local()

    @contextmanager
    def of(self, recorder: Recorder) -> Iterator[None]:
        model = recorder.recording.model
        with self.lock:
            if not active_recorders:
                flex.report_calls(self._report_flex_attention)
            active_recorders.append(recorder)
            call_listeners.append(recorder.on_attend)
            if id(model) not in self.forwards and not isinstance(model, torch.jit.ScriptModule):
                self.forwards[id(model)] = model.forward, "forward" in vars(model)
                model.forward = self._recorded(model, model.forward)
        try:
            yield
        finally:
            with self.lock:
                active_recorders.remove(recorder)
                call_listeners.remove(recorder.on_attend)
                if not active_recorders:
                    flex.report_no_calls()
                if all(other.recording.model is not model for other in active_recorders) and id(model) in self.forwards:
                    forward, is_own = self.forwards.pop(id(model))
                    if is_own:
                        model.forward = forward
                    else:
                        del model.forward

    def _recorded(self, model: nn.Module, forward: Any) -> Any:
        """Return the forward function of a model, which enters the model's recorders in threads without a recorder."""

        @functools.wraps(forward)
        def run(*args: Any, **kwargs: Any) -> Any:
            recorders = [x for x in active_recorders if x.recording.model is model and x.records_this_thread()]
            thread = threading.get_ident()
            if getattr(self.entered, "value", False) or any(recorder.thread == thread for recorder in recorders):
                return forward(*args, **kwargs)
            self.entered.value = True
            try:
                with ExitStack() as stack:
                    for recorder in recorders:
                        stack.enter_context(recorder)
                    return forward(*args, **kwargs)
            finally:
                self.entered.value = False

        return run

    @staticmethod
    def _report_flex_attention(*call: Any) -> None:
        for recorder in tuple(active_recorders):
            if recorder.records_this_thread():
                recorder.read_call(flex.from_flex_attention, None, *call)


class _FastPathsKept:
    """Context in which torch's layers stay on their fast path although a TorchFunctionMode is active.

    The recorder changes no result, so the layers need not leave it. One instance serves all threads: the first to
    enter replaces torch's test for active modes, the last to leave restores it.
    """

    def __init__(self) -> None:
        self.lock, self.entered = threading.Lock(), 0
        self.modules: list[Any] = [torch.overrides, F]
        self.originals: list[Any] = []

    def __enter__(self) -> None:
        with self.lock:
            self.entered += 1
            if self.entered == 1:
                self.originals = [module.has_torch_function for module in self.modules]
                for module in self.modules:
                    module.has_torch_function = _has_tensor_subclass

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.entered -= 1
            if self.entered == 0:
                for module, original in zip(self.modules, self.originals, strict=True):
                    module.has_torch_function = original


def _has_tensor_subclass(arguments: Iterable[Any]) -> bool:
    """Whether an argument overrides torch functions itself, as `has_torch_function` tests without active modes."""
    disabled = torch._C._disabled_torch_function_impl
    return any(
        isinstance(x, Tensor) and type(x) not in (Tensor, nn.Parameter) and type(x).__torch_function__ is not disabled
        for x in arguments
    )


_fast_paths_kept = _FastPathsKept()
_other_threads_recorded = _OtherThreadsRecorded()
