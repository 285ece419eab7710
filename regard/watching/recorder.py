"""The recorder of `regard.watch`: a TorchFunctionMode that turns attention functions into `Call`s.

It sees every torch function that runs in its thread. Functions in `READERS` are attention; the reader of eager
attention follows the others from scores to values. All functions run unchanged.
"""

import threading
from collections.abc import Callable, Iterable
from functools import cache, partial
from types import MethodWrapperType
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.attention.listeners import listeners_muted
from regard.watching.call import Call
from regard.watching.call_inputs import TENSORS, storage_id
from regard.watching.call_site import CallSite, ModuleStack
from regard.watching.growing_keys import CONCATENATIONS, REPETITIONS, WRITES, CacheTracker
from regard.watching.readers import eager_softmax as eager
from regard.watching.readers import torch_calls as readers
from regard.watching.readers.function_sets import STARTS
from regard.watching.readers.wrapped_tensors import unwrap, unwrap_arguments
from regard.watching.recording import Recording, Unseen

Keep = Literal["inputs", "copies", "statistics"]
ModuleFilter = Callable[[str], bool]

READERS: dict[Any, Callable[..., Call]] = {
    F.scaled_dot_product_attention: readers.from_sdpa,
    torch._native_multi_head_attention: readers.from_native_mha,
    torch._transformer_encoder_layer_fwd: readers.from_encoder_layer,
}
OPERATORS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)
NUMBERS = {Tensor.size, Tensor.dim, Tensor.numel, Tensor.stride, Tensor.is_contiguous, torch.arange, torch.tensor}
FOLLOWED = CONCATENATIONS | REPETITIONS | WRITES
SHARED_FROM = 1 << 14  # copies of masks with at least this many elements are compared with earlier ones, and shared


class Recorder(TorchFunctionMode):
    """Adds a `Call` to the recording for each attention function that runs in the threads that enter it."""

    def __init__(
        self,
        recording: Recording,
        keep: Keep,
        module_filter: ModuleFilter,
        max_calls: int | None,
        positions: Tensor | None,
    ) -> None:
        super().__init__()
        self.recording, self.keep, self.module_filter, self.max_calls = recording, keep, module_filter, max_calls
        self.positions = positions
        self.thread = threading.get_ident()
        self.stack = ModuleStack(recording.model)
        stack = self.stack
        self.constants, self.buffers = _storages(stack.modules.values())
        owners = (
            module._parameters
            for module in stack.modules.values()
            if any(x is not None for x in module._parameters.values())
        )
        self.owner: dict[str, Any] = next(owners, {})  # the parameters of the first module that has any
        self.first_parameters: Any = tuple(map(id, self.owner.values()))
        self.eager_reader = eager.EagerReader(
            self.is_constant, self.is_buffer, stack.name, stack.heads_of, stack.input_sizes, stack.attends
        )
        self.softmaxes: dict[int, eager.Softmax] = {}  # by id of the eager call
        self.caches = CacheTracker()
        self.folds: list[tuple[Call, eager.Fold, tuple[int, ...]]] = []
        self.pieces: list[tuple[Call, Tensor | None]] = []  # calls with fewer queries than keys, their module's input
        self.copies: list[Tensor] = []  # copies of masks, which several calls may share
        self.steps: dict[str, int] = {}  # calls of each module so far
        self.key_counts: dict[str, int] = {}  # number of keys of each module's last call
        self.unread: dict[str, str] = {}  # modules with an attention function that no reader understands, and why

    def records_this_thread(self) -> bool:
        """Whether this recorder was made in the running thread, or no active recorder was."""
        thread = threading.get_ident()
        return thread == self.thread or all(thread != recorder.thread for recorder in active_recorders)

    def is_constant(self, x: Tensor) -> bool:
        """Whether a tensor is a parameter or a buffer, or a view of one."""
        if type(x) is nn.Parameter:
            return True
        now = tuple(map(id, self.owner.values()))
        if now != self.first_parameters:  # torch.func.functional_call has exchanged the parameters, or ended
            self.first_parameters = now
            self.constants, self.buffers = _storages(self.stack.modules.values())
        return storage_id(unwrap(x)) in self.constants

    def is_buffer(self, x: Tensor) -> bool:
        """Whether a tensor is a buffer, or a view of one."""
        return storage_id(unwrap(x)) in self.buffers

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        is_number = func in NUMBERS or (type(func) is MethodWrapperType and not isinstance(out, Tensor))  # but not x.mT
        if not is_number and not listeners_muted.depth:
            if func in READERS:
                self.read_call(READERS[func], func, args, kwargs, out)
            elif type(func) in OPERATORS:
                self.read_operator(func, args, kwargs, out)
            else:
                self.read_other(func, args, kwargs, out)
        return out

    def read_other(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """Follow a function that is not attention by itself."""
        if self.eager_reader.trails or func in STARTS:
            weighing = self.eager_reader.read(func, args, kwargs, out)
            if weighing is not None and (name := self.stack.name()) is not None:
                self.record_eager(name, weighing)
        if func in CONCATENATIONS or (func in FOLLOWED and (self.caches.origins or self.caches.writes)):
            self.caches.follow(func, args, kwargs, out)

    def read_operator(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """Read a direct call of an operator, `torch.ops.aten.…`, as exported graphs make them."""
        overload = func.default if isinstance(func, torch._ops.OpOverloadPacket) and hasattr(func, "default") else func
        name = overload.__name__.split(".")[0]
        if name.startswith(("scaled_dot_product_attention", "_scaled_dot_product_")) and "backward" not in name:
            self.read_call(
                readers.from_operator(overload), func, args, kwargs, out[0] if isinstance(out, tuple) else out
            )
        elif name in ("_native_multi_head_attention", "_transformer_encoder_layer_fwd"):
            self.read_call(READERS[getattr(torch, name)], func, args, kwargs, out)
        elif "attention" in name or "attn" in name:
            module = self.stack.name()
            if module is not None:
                self.unread[module] = f"the operator {overload} is not read"
        elif (function := _torch_function_of(name)) is not None:
            self.read_other(function, args, kwargs, out)

    def read_call(
        self, read: Callable[..., Call], func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any
    ) -> None:
        """Record a call of an attention function."""
        name = self.stack.name()
        if name is None or not self.is_recorded(name):
            return
        with torch._C.DisableTorchFunction():
            plain_args, plain_kwargs, plain_out = unwrap_arguments(args, kwargs, out)
            call = read(name, *plain_args, output=plain_out, **plain_kwargs)
        site = self.stack.site(name)
        if read is readers.from_sdpa and isinstance(out, Tensor) and out.dim() == 3 and not out.is_nested:
            fold = eager.Fold(call.shape[1])
            self.eager_reader.follow_output(out, -3, fold)
            self.folds.append((call, fold, site.input_sizes))
        self.record(call, site, keys=plain_args[1] if len(plain_args) > 1 else None, values=plain_args[2:3])

    def record_eager(self, name: str, weighing: eager.Weighing) -> None:
        """Record a call whose weights the model has computed itself."""
        if not self.is_recorded(name):
            return
        weights = unwrap(weighing.weights.detach())
        weights = weights[(None,) * (4 - weights.dim())]
        weights = weights.reshape(-1, *weights.shape[-3:])
        batch, heads, length, size = weights.shape
        call = Call(name, "eager softmax", (batch, heads, length, size), weighing.scale, eager_weights=weights)
        if weighing.values is not None:
            call.values = _like_weights(unwrap(weighing.values.detach()), weights)
        if weighing.output is not None and not weighing.dropout:
            call.outputs = _like_weights(unwrap(weighing.output.detach()), weights)
        call.score_width, call.score_bias = weighing.softmax.scores.width, weighing.softmax.scores.biased
        self.softmaxes[id(call)] = weighing.softmax
        site = self.stack.site(name)
        if weighing.fold is not None:
            self.folds.append((call, weighing.fold, site.input_sizes))
        self.record(call, site)

    def on_attend(self, arguments: dict[str, Any]) -> None:
        """Record a call of `regard.attend`, which reports its arguments to its listeners."""
        name = self.stack.name() if self.records_this_thread() else None
        if name is not None and self.is_recorded(name):
            with torch._C.DisableTorchFunction():
                call = readers.from_attend(name, arguments)
            self.record(call, self.stack.site(name), keys=arguments["k"], values=(arguments["v"],))

    def is_recorded(self, name: str) -> bool:
        """Whether calls of this module are to be recorded; counts the calls skipped because of max_calls."""
        if torch._C._current_graph_task_id() != -1:  # in backward: gradient checkpointing runs the model again
            return False
        if not self.module_filter(name):
            return False
        if self.max_calls is not None and len(self.recording.calls) >= self.max_calls:
            self.recording.skipped += 1
            return False
        return True

    def record(self, call: Call, site: CallSite, keys: Any = None, values: tuple[Any, ...] = ()) -> None:
        """Complete a call by what the module around it shows, and add it to the recording."""
        call.model = self.recording.model
        call.step = self.steps[call.name] = self.steps.get(call.name, -1) + 1
        length, size = call.shape[2:]
        call.cross = site.has_other_sequence
        grown = self.key_counts.get(call.name, -1) + length == size
        call.cached = not call.cross and length < size and (grown or site.has_cache)
        self.key_counts[call.name] = size
        if length < size and not call.cross and not call.cached:
            self.pieces.append((call, site.sequence))
        if length > 1 and call.eager_weights is None and site.has_single_token:
            _unpack_heads(call, site, self.stack.heads_of(call.name))
        if self.positions is not None and not call.cross:
            _use_positions(call, self.positions)
        # The recorder's own computations must not be recorded.
        with listeners_muted, torch._C.DisableTorchFunction():
            if self.keep == "statistics":
                _keep_statistics(call)
            elif self.keep == "copies":
                call.map_tensors(self.copy)
            else:
                self.hold(call, keys, values)
        self.recording.calls.append(call)

    def hold(self, call: Call, keys: Any, values: tuple[Any, ...]) -> None:
        """Keep references to the tensors of a call; inference tensors, whose changes cannot be detected, are copied."""
        for name, x in (("keys", keys), ("values", values[0] if values else None)):
            if isinstance(x, Tensor) and isinstance(getattr(call, name), Tensor) and len(x) == call.shape[0]:
                stored = self.caches.store(x)
                if stored is not None and stored[1] == call.shape[3]:
                    setattr(call, name, partial(stored[0].first, stored[1]))
        for x in (call.values, call.keys):
            if isinstance(x, Tensor) and not x.is_inference():
                call.write_log = self.caches.write_log(x)
        for name in TENSORS:
            x = getattr(call, name)
            if isinstance(x, Tensor) and x.is_inference():
                setattr(call, name, self.copy(name, x))
        call.remember_versions()

    def copy(self, name: str, x: Tensor) -> Tensor:
        """Return a copy of a tensor; calls with equal masks share one copy."""
        if name not in ("boolean_mask", "bias") or x.numel() < SHARED_FROM:
            return x.clone()
        for copy in self.copies:
            if copy.shape == x.shape and copy.dtype == x.dtype and copy.device == x.device and torch.equal(copy, x):
                return copy
        self.copies = [*self.copies[-3:], x.clone()]
        return self.copies[-1]

    def unfold(self) -> None:
        """Separate batch and heads of calls that hold them in one axis, once the model has shown how it does."""
        for call, fold, sizes in self.folds:
            heads, batches = self.stack.heads_of(call.name), sizes or (1,)
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

    def find_query_chunks(self) -> None:
        """Set the positions of calls that process the queries of one sequence in pieces, over the same keys."""
        groups: dict[Any, list[Call]] = {}
        for call, sequence in self.pieces:
            if isinstance(call.keys, Tensor) and sequence is not None and sequence.shape[1] == call.shape[3]:
                key = call.name, id(sequence), call.keys.data_ptr(), call.shape[:2], call.shape[3]
                groups.setdefault(key, []).append(call)
        for calls in groups.values():
            if len(calls) > 1 and sum(call.shape[2] for call in calls) == calls[0].shape[3]:
                start = 0
                for call in calls:
                    index = torch.arange(start, start + call.shape[2], device=call.like.device)
                    call.query_positions, call.positions_searched = index, True
                    start += call.shape[2]

    def finish(self, attention_modules: dict[str, int]) -> None:
        """Complete the recording when the with-block ends: separate heads, list what was not recorded.

        attention_modules   how often each module ran whose class is named as attention
        """
        self.unfold()
        self.find_query_chunks()
        self.pieces.clear()
        recording, softmaxes, withdrawn = self.recording, self.softmaxes, self.eager_reader.withdrawn()
        recording.calls[:] = [
            call
            for call in recording.calls
            if call.name not in withdrawn and (id(call) not in softmaxes or softmaxes[id(call)].is_attention)
        ]
        unseen = self.unread | self.eager_reader.unseen({call.name for call in recording.calls})
        if not recording.skipped:
            for name in _without_call(attention_modules, {call.name for call in recording.calls} | set(unseen)):
                unseen[name] = (
                    f"{type(self.stack.modules[name]).__name__} ran, but made no attention call that was seen"
                )
        for name, module in recording.model.named_modules():
            if isinstance(module, torch.jit.ScriptModule) and _attends(module):
                unseen[name] = "a TorchScript module, whose functions cannot be seen; watch the Python module"
        recording.unseen += [Unseen(name, reason) for name, reason in unseen.items() if self.module_filter(name)]
        recording.unseen += [
            Unseen(name, "another model, which ran inside the with-block") for name in self.stack.others
        ]


active_recorders: list[Recorder] = []
"""The recorders of all watches that are active, in any thread."""


def _storages(modules: Iterable[nn.Module]) -> tuple[set[int | None], set[int | None]]:
    """Return what identifies the memory of all parameters and buffers, and that of the buffers."""
    parameters, buffers = set(), set()
    for module in modules:
        parameters |= {storage_id(unwrap(x)) for x in module._parameters.values() if x is not None}
        buffers |= {storage_id(unwrap(x)) for x in module._buffers.values() if x is not None}
    return (parameters | buffers) - {None}, buffers - {None}


def _like_weights(x: Tensor, weights: Tensor) -> Tensor | None:
    """Return values or outputs that broadcast with the weights as (B, H or 1, rows, d); None if they do not."""
    x = x[(None,) * (4 - x.dim())]
    x = x.reshape(-1, *x.shape[-3:])
    fits = x.shape[0] in (1, weights.shape[0]) and x.shape[1] in (1, weights.shape[1])
    return x.expand(weights.shape[0], *x.shape[1:]) if fits else None


def _unpack_heads(call: Call, site: CallSite, heads: int | None) -> None:
    """Undo the packing of a single query with grouped heads: H_kv heads × (H / H_kv) queries are H heads × 1 query."""
    batch, packed, length, size = call.shape
    if packed * length != heads:
        return

    def unpack(x: Any) -> Any:
        if not isinstance(x, Tensor) or x.dim() < 3 or x.shape[1:3] != (packed, length):
            return x
        return x.reshape(x.shape[0], heads, 1, *x.shape[3:])

    call.shape = (batch, heads, 1, size)
    call.queries, call.outputs = unpack(call.queries), unpack(call.outputs)
    call.boolean_mask, call.bias = unpack(call.boolean_mask), unpack(call.bias)
    call.cached = call.cached or (not call.cross and site.has_cache)


def _use_positions(call: Call, positions: Tensor) -> None:
    """Use the positions that the caller gave, if they fit the call."""
    batch, _, length, size = call.shape
    fits = positions.shape[-1] == length and (positions.dim() == 1 or positions.shape[0] == batch)
    if fits and int(positions.max()) < size:
        call.query_positions, call.positions_searched = positions.to(call.like.device), True


def _keep_statistics(call: Call) -> None:
    """Compute the statistics of a call and drop everything else."""
    call.stored_statistics = call.statistics
    call.positions  # noqa: B018 (a property that is computed from the masks, which are dropped now)
    call.stored_sink = call.sink()
    call.__dict__.pop("statistics", None)
    call.computed.clear()
    call.queries = call.keys = call.values = call.outputs = None
    call.eager_weights = call.boolean_mask = call.bias = call.sinks = call.score_function = None


def _without_call(attention_modules: dict[str, int], names: set[str]) -> list[str]:
    """Return the innermost attention modules that ran although neither they, their parts nor their owners are named."""
    missing = []
    for name in attention_modules:
        inside = any(other == name or other.startswith(f"{name}." if name else "") for other in names)
        owners = [other for other in attention_modules if other != name and name.startswith(f"{other}.")]
        covered = any(owner in names for owner in owners)
        innermost = not any(other.startswith(f"{name}.") for other in attention_modules if other != name)
        if innermost and not inside and not covered:
            missing.append(name)
    return missing


def _attends(module: torch.jit.ScriptModule) -> bool:
    try:
        graph = str(module.inlined_graph)
    except RuntimeError:
        return True
    return "softmax" in graph or "scaled_dot_product" in graph or "multi_head_attention" in graph


@cache
def _torch_function_of(operator: str) -> Any:
    """Return the torch function that an operator belongs to: torch.softmax for aten._softmax."""
    name = {"_softmax": "softmax", "_log_softmax": "log_softmax", "_unsafe_view": "view"}.get(operator, operator)
    return getattr(torch, name, None) or getattr(Tensor, name, None) or getattr(F, name, None)
