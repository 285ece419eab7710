"""`regard.watch`: a context manager that records every attention call of a model.

A TorchFunctionMode sees every torch function that runs. Attention functions become `Call`s; all other functions pass
through. torch's layers leave their fast path while such a mode is active; `_FastPathsKept` prevents this, so that the
model runs exactly the kernels that it runs unwatched. The module that makes a call is read from the interpreter's
stack, and only when a call is recorded: hooks on all modules would cost more time than the rest of watching.
"""

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from types import FrameType
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.attention.listeners import call_listeners, listeners_muted
from regard.watching.call import Call
from regard.watching.readers import eager_softmax as eager
from regard.watching.readers import torch_calls as readers
from regard.watching.recording import Recording

Keep = Literal["inputs", "copies", "statistics"]
ModuleFilter = Callable[[str], bool]


@contextmanager
def watch(
    model: nn.Module,
    *,
    keep: Keep = "inputs",
    only: str | Iterable[str] | ModuleFilter | None = None,
    max_calls: int | None = None,
) -> Iterator[Recording]:
    """Record the attention calls that a model makes inside the with-block.

    keep        "inputs": keep references to queries and keys; weights are computed when they are requested.
                "copies": keep copies of them, for models that change them in place afterwards.
                "statistics": compute entropy, distance, spread and sink at once and keep nothing else.
    only        modules to record: a pattern such as "encoder.*", several patterns, or a function of the module's path
    max_calls   record at most this many calls

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
    recording = Recording(model)
    recorder = _Recorder(recording, keep, _module_filter(only), max_calls)
    with _fast_paths_kept, recorder:
        call_listeners.append(recorder.on_attend)
        try:
            yield recording
        finally:
            call_listeners.remove(recorder.on_attend)


def _module_filter(only: str | Iterable[str] | ModuleFilter | None) -> ModuleFilter:
    if only is None:
        return lambda name: True
    if callable(only):
        return only
    patterns = [only] if isinstance(only, str) else list(only)
    return lambda name: any(fnmatchcase(name, p) or name.startswith(f"{p}.") for p in patterns)


READERS: dict[Any, Callable[..., Call]] = {
    F.scaled_dot_product_attention: readers.from_sdpa,
    torch._native_multi_head_attention: readers.from_native_mha,
    torch._transformer_encoder_layer_fwd: readers.from_encoder_layer,
}
READ_FUNCTIONS = {*READERS, *eager.SOFTMAX, *eager.PASS_THROUGH, *eager.PRODUCTS}
MODULE_CALL_CODE = {nn.Module._call_impl.__code__, nn.Module._wrapped_call_impl.__code__}


class _Recorder(TorchFunctionMode):
    """Adds a `Call` to the recording for each attention function that runs in this thread."""

    def __init__(self, recording: Recording, keep: Keep, module_filter: ModuleFilter, max_calls: int | None) -> None:
        super().__init__()
        self.recording, self.keep, self.module_filter, self.max_calls = recording, keep, module_filter, max_calls
        self.modules = dict(recording.model.named_modules())
        self.names = {id(module): name for name, module in self.modules.items()}
        self.thread = threading.get_ident()
        self.eager_reader = eager.EagerReader()

    @property
    def module_name(self) -> str:
        """Path of the innermost module of the model whose forward is on the stack."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code in MODULE_CALL_CODE:
                name = self.names.get(id(frame.f_locals["self"]))
                if name is not None:
                    return name
            frame = frame.f_back
        return ""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if func not in READ_FUNCTIONS or listeners_muted.depth:
            return out  # inside regard.attend, which reports its call itself, through on_attend
        read = READERS.get(func)
        if read is None:
            call = self.eager_reader.read(func, args, kwargs, out)
            if call is not None:
                call.name = self.module_name
                self.record(self.split_heads(call))
        elif self.is_recorded(name := self.module_name):
            self.record(read(name, *args, **kwargs))
        return out

    def split_heads(self, call: Call) -> Call:
        """Separate batch and heads of nn.MultiheadAttention, which folds them into one dimension."""
        heads, weights = getattr(self.modules.get(call.name), "num_heads", None), call.eager_weights
        if weights is not None and call.shape[0] == 1 and isinstance(heads, int) and call.shape[1] % heads == 0:
            call.eager_weights = weights[0].unflatten(0, (-1, heads))
            call.shape = (call.shape[1] // heads, heads, *call.shape[2:])
        return call

    def on_attend(self, arguments: dict[str, Any]) -> None:
        """Record a call of `regard.attend`, which reports its arguments to its listeners."""
        if threading.get_ident() == self.thread and self.is_recorded(self.module_name):
            self.record(readers.from_attend(self.module_name, arguments))

    def is_recorded(self, name: str) -> bool:
        """Whether calls of this module are to be recorded; counts the calls skipped because of max_calls."""
        if self.max_calls is not None and len(self.recording.calls) >= self.max_calls:
            self.recording.skipped += 1
            return False
        return self.module_filter(name)

    def record(self, call: Call) -> None:
        if not self.is_recorded(call.name):
            return
        if self.keep == "statistics":
            # Computing statistics calls attention; those calls must not be recorded.
            with listeners_muted, torch._C.DisableTorchFunction():
                call.stored_statistics = call.statistics
            call.__dict__.pop("_q_and_k", None)
            call.queries = call.keys = call.eager_weights = call.bias = None
            call.versions = ()
        elif self.keep == "copies":
            if callable(call.queries):
                call.queries, call.keys = call.queries()
            elif call.queries is not None and call.keys is not None:
                call.queries, call.keys = call.queries.clone(), call.keys.clone()
            call.eager_weights = None if call.eager_weights is None else call.eager_weights.clone()
            call.versions = ()
        self.recording.calls.append(call)


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
