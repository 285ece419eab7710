"""`watch`: a context in which every attention call is recorded, whoever makes it.

A TorchFunctionMode sees every torch function that runs. Attention functions become `Call`s; all others pass
through. Where torch itself would leave its fast path because such a mode is on, it is told that none is, so that
the model runs exactly what it runs unwatched. Which module is at work is asked only when a call is recorded, of the
interpreter's own stack: hooks on all modules would cost every model more than all the rest of watching.
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
from regard.watching.readers import eager
from regard.watching.readers import torch_calls as readers
from regard.watching.recording import Seen

Keep = Literal["inputs", "copies", "statistics"]


@contextmanager
def watch(
    model: nn.Module,
    *,
    keep: Keep = "inputs",
    only: str | Iterable[str] | Callable[[str], bool] | None = None,
    max_calls: int | None = None,
) -> Iterator[Seen]:
    """Record the attention calls made while the model runs.

    keep        "inputs": references to queries and keys, nothing copied, weights computed when asked for;
                "copies": the same, copied, for models that change them in place afterwards;
                "statistics": entropy, distance, spread and sink mass computed at once, nothing else held
    only        modules to record: a pattern such as "encoder.*", several, or a function of the module's path
    max_calls   stop recording after so many calls

    >>> import regard, torch
    >>> model = torch.nn.TransformerEncoderLayer(16, 2, batch_first=True).eval()
    >>> with torch.no_grad(), regard.watch(model) as seen:
    ...     _ = model(torch.randn(1, 5, 16))
    >>> seen.calls
    [Call('self_attn', B=1 H=2 L=5 S=5, native encoder layer)]
    """
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"watch takes an nn.Module, got {type(model).__name__}; for a function, watch the model it calls"
        )
    if keep not in ("inputs", "copies", "statistics"):
        raise ValueError(f"keep must be 'inputs', 'copies' or 'statistics', got {keep!r}")
    if max_calls is not None and max_calls < 1:
        raise ValueError(f"max_calls must be at least 1, got {max_calls}")
    seen = Seen(model)
    recorder = _Recorder(model, seen, keep, _chooser(only), max_calls)
    with _fast_paths_kept, recorder:
        call_listeners.append(recorder.hear)
        try:
            yield seen
        finally:
            call_listeners.remove(recorder.hear)


def _chooser(only: str | Iterable[str] | Callable[[str], bool] | None) -> Callable[[str], bool]:
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
NOTICED = {*READERS, *eager.SOFTMAX, *eager.PASSES, *eager.PRODUCTS}
MODULE_RUNS = {nn.Module._call_impl.__code__, nn.Module._wrapped_call_impl.__code__}


class _Recorder(TorchFunctionMode):
    def __init__(
        self, model: nn.Module, seen: Seen, keep: Keep, chosen: Callable[[str], bool], max_calls: int | None
    ) -> None:
        super().__init__()
        self.seen, self.keep, self.chosen, self.max_calls = seen, keep, chosen, max_calls
        self.modules = dict(model.named_modules())
        self.names = {id(module): name for name, module in self.modules.items()}
        self.thread = threading.get_ident()
        self.eager = eager.Eager()

    @property
    def name(self) -> str:
        """The path of the module at work: the innermost of the model's whose code stands on the stack."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code in MODULE_RUNS:
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
        if func not in NOTICED or listeners_muted.depth:  # inside regard.attend, which tells of itself
            return out
        read = READERS.get(func)
        if read is None:
            call = self.eager.notice(func, args, kwargs, out)
            if call is not None:
                call.name = self.name
                self.record(self.by_head(call))
        elif self.wanted(name := self.name):
            self.record(read(name, *args, **kwargs))
        return out

    def by_head(self, call: Call) -> Call:
        """nn.MultiheadAttention folds heads into the batch; its module knows how many there are."""
        heads = getattr(self.modules.get(call.name), "num_heads", None)
        if call.maps is not None and call.shape[0] == 1 and isinstance(heads, int) and call.shape[1] % heads == 0:
            call.maps = call.maps[0].unflatten(0, (-1, heads))
            call.shape = (call.maps.shape[0], call.maps.shape[1], *call.shape[2:])
        return call

    def hear(self, said: dict[str, Any]) -> None:
        """A call of `regard.attend`, told by itself."""
        if threading.get_ident() == self.thread and self.wanted(self.name):
            self.record(readers.from_attend(self.name, said))

    def wanted(self, name: str) -> bool:
        if self.max_calls is not None and len(self.seen.calls) >= self.max_calls:
            self.seen.left_out += 1
            return False
        return self.chosen(name)

    def record(self, call: Call) -> None:
        if not self.wanted(call.name):
            return
        if self.keep == "statistics":
            with (
                listeners_muted,
                torch._C.DisableTorchFunction(),
            ):  # the statistics are attention calls too, not the model's
                call.kept = call.statistics
            call.__dict__.pop("_tensors", None)
            call.queries = call.keys = call.maps = call.added = None
            call.versions = ()
        elif self.keep == "copies":
            if isinstance(call.queries, Tensor):
                call.queries, call.keys = call.queries.clone(), call.keys.clone()
            elif call.queries is not None:
                call.queries, call.keys = call.queries()
            call.maps = None if call.maps is None else call.maps.clone()
            call.versions = ()
        self.seen.calls.append(call)


class _FastPathsKept:
    """torch's layers leave their fast path when a mode is on; for ours, which changes nothing, they need not.

    There is one for all threads: the first to come changes what torch asks, the last to go changes it back.
    """

    def __init__(self) -> None:
        self.lock, self.inside = threading.Lock(), 0
        self.places: list[Any] = [torch.overrides, F]
        self.before: list[Any] = []

    def __enter__(self) -> None:
        with self.lock:
            self.inside += 1
            if self.inside == 1:
                self.before = [place.has_torch_function for place in self.places]
                for place in self.places:
                    place.has_torch_function = _only_subclasses

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.inside -= 1
            if self.inside == 0:
                for place, before in zip(self.places, self.before, strict=True):
                    place.has_torch_function = before


def _only_subclasses(arguments: Iterable[Any]) -> bool:
    off = torch._C._disabled_torch_function_impl
    return any(
        isinstance(x, Tensor) and type(x) not in (Tensor, nn.Parameter) and type(x).__torch_function__ is not off
        for x in arguments
    )


_fast_paths_kept = _FastPathsKept()
