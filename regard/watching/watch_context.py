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
from regard.watching.call_inputs import storage_id, tensor_versions
from regard.watching.readers import eager_softmax as eager
from regard.watching.readers import torch_calls as readers
from regard.watching.readers.function_sets import STARTS
from regard.watching.recording import Recording, Unseen

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
            recorder.finish()


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
MODULE_CALL_CODE = {nn.Module._call_impl.__code__, nn.Module._wrapped_call_impl.__code__}
HEAD_COUNTS = ("num_heads", "heads", "num_attention_heads", "n_heads", "n_head", "nhead", "num_head")


class _Recorder(TorchFunctionMode):
    """Adds a `Call` to the recording for each attention function that runs in this thread."""

    def __init__(self, recording: Recording, keep: Keep, module_filter: ModuleFilter, max_calls: int | None) -> None:
        super().__init__()
        self.recording, self.keep, self.module_filter, self.max_calls = recording, keep, module_filter, max_calls
        model = recording.model
        self.modules = dict(model.named_modules())
        self.names = {id(module): name for name, module in self.modules.items()}
        self.thread = threading.get_ident()
        self.constants = {storage_id(x) for x in (*model.parameters(), *model.buffers())} - {None}
        self.eager_reader = eager.EagerReader(
            self.is_constant, lambda: self.module_name, self.heads_of, self.input_sizes, self.attends
        )
        self.softmaxes: dict[int, eager.Softmax] = {}  # by id of the eager call
        self.folds: list[tuple[Call, eager.Fold, tuple[int, ...]]] = []
        self.foreign: dict[str, None] = {}

    def is_constant(self, x: Tensor) -> bool:
        """Whether a tensor is a parameter or a buffer, or a view of one."""
        return isinstance(x, nn.Parameter) or storage_id(x) in self.constants

    @property
    def module_name(self) -> str | None:
        """Path of the innermost module of the model whose code is on the stack; None outside of the model."""
        frame: FrameType | None = sys._getframe(1)
        other: nn.Module | None = None
        while frame is not None:
            this = frame.f_locals.get("self") if "self" in frame.f_code.co_varnames[:1] else None
            if isinstance(this, nn.Module):
                name = self.names.get(id(this))
                if name is not None:
                    return name
                other = this if frame.f_code in MODULE_CALL_CODE else other
            frame = frame.f_back
        if other is not None:
            self.foreign[type(other).__name__] = None
        return None

    def input_sizes(self) -> tuple[int, ...]:
        """Return the first two sizes of the first tensor that the innermost module of the model was called with."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code in MODULE_CALL_CODE and id(frame.f_locals["self"]) in self.names:
                inputs = (*frame.f_locals.get("args", ()), *frame.f_locals.get("kwargs", {}).values())
                return next((tuple(x.shape[:2]) for x in inputs if isinstance(x, Tensor) and x.dim() > 1), ())
            frame = frame.f_back
        return ()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        read = READERS.get(func)
        if read is None:
            if (self.eager_reader.trails or func in STARTS) and not listeners_muted.depth:
                weighing = self.eager_reader.read(func, args, kwargs, out)
                if weighing is not None and (name := self.module_name) is not None:
                    self.record_eager(name, weighing)
        elif not listeners_muted.depth and (name := self.module_name) is not None and self.is_recorded(name):
            call = read(name, *args, **kwargs)
            if func is F.scaled_dot_product_attention and isinstance(out, Tensor) and out.dim() == 3:
                fold = eager.Fold(call.shape[1])
                self.eager_reader.follow_output(out, -3, fold)
                self.folds.append((call, fold, self.input_sizes()))
            self.record(call)
        return out

    def record_eager(self, name: str, weighing: eager.Weighing) -> None:
        """Record a call whose weights the model has computed itself."""
        weights = weighing.weights
        weights = weights[(None,) * (4 - weights.dim())]
        weights = weights.reshape(-1, *weights.shape[-3:])
        call = Call(name, "eager softmax", tuple(weights.shape), 1.0, eager_weights=weights)  # type: ignore[arg-type]
        call.versions = tensor_versions(weights)
        self.softmaxes[id(call)] = weighing.softmax
        if weighing.fold is not None:
            self.folds.append((call, weighing.fold, self.input_sizes()))
        self.record(call)

    def attends(self, name: str) -> bool:
        """Whether a module, or the one that calls a layer of torch, is an attention layer by the name of its class."""
        module = self.modules[name]
        while name and type(module).__module__.startswith("torch.nn"):
            name = name.rpartition(".")[0]
            module = self.modules[name]
        return any(part in type(module).__name__.lower() for part in ("attention", "attn", "attentive"))

    def heads_of(self, name: str | None) -> int | None:
        """Return the number of heads that a module, or a module around it, states as an attribute."""
        while name is not None:
            module = self.modules[name]
            for attribute in HEAD_COUNTS:
                if isinstance(count := getattr(module, attribute, None), int) and not isinstance(count, bool):
                    return count
            name = name.rpartition(".")[0] if name else None
        return None

    def unfold(self) -> None:
        """Separate batch and heads of calls that hold them in one axis, once the model has shown how it does."""
        for call, fold, sizes in self.folds:
            heads, batches = self.heads_of(call.name), sizes or (1,)
            order = None
            if fold.split is not None:
                first, second = fold.split
                if heads == second or (heads != first and first in batches):
                    order = (first, second), False
                elif heads == first or second in batches:
                    order = (second, first), True
            elif fold.size == batches[0]:
                order = (fold.size, 1), False
            elif batches[0] == 1 and fold.size == heads:
                order = (1, fold.size), False
            if order is None:
                call.folded = fold.size > 1
            else:
                call.separate(*order)

    def finish(self) -> None:
        """Complete the recording when the with-block ends: separate heads, list what was not recorded."""
        self.unfold()
        recording = self.recording
        softmaxes, withdrawn = self.softmaxes, self.eager_reader.withdrawn()
        recording.calls[:] = [
            call
            for call in recording.calls
            if call.name not in withdrawn and (id(call) not in softmaxes or softmaxes[id(call)].is_attention)
        ]
        unseen = self.eager_reader.unseen({call.name for call in recording.calls})
        recording.unseen += [Unseen(name, reason) for name, reason in unseen.items() if self.module_filter(name)]
        recording.unseen += [Unseen(name, "another model, which ran inside the with-block") for name in self.foreign]

    def on_attend(self, arguments: dict[str, Any]) -> None:
        """Record a call of `regard.attend`, which reports its arguments to its listeners."""
        name = self.module_name
        if threading.get_ident() == self.thread and name is not None and self.is_recorded(name):
            self.record(readers.from_attend(name, arguments))

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
