"""The recorder of `regard.watch`: a TorchFunctionMode that turns attention functions into `Call`s.

It sees every torch function that runs in its thread. Functions in `READERS` are attention; the reader of eager
attention follows the others from scores to values. All functions run unchanged.
"""

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.attention.listeners import listeners_muted
from regard.watching.attribution.live_calls import live_call
from regard.watching.call import Call
from regard.watching.call_inputs import storage_id
from regard.watching.readers import torch_calls as readers
from regard.watching.readers.eager import reader as eager_reader
from regard.watching.readers.eager.products import WITH_ADDEND
from regard.watching.readers.eager.scores import BEGINNINGS, MAX_LEARNED
from regard.watching.readers.eager.tracker import Tracker
from regard.watching.readers.eager.trails import Fold, Layout, Softmax, Weighing
from regard.watching.readers.eager.value_products import follow_output
from regard.watching.readers.wrapped_tensors import unwrap, unwrap_arguments
from regard.watching.recorder.call_site import CallSite, ModuleStack
from regard.watching.recorder.call_tensors import CallTensors, Keep
from regard.watching.recorder.growing_keys import CONCATENATIONS, REPETITIONS, WRITES
from regard.watching.recorder.model_constants import ModelConstants
from regard.watching.recorder.shared_axes import (
    find_query_chunks,
    merge_groups,
    separate_heads,
    unpack_heads,
    use_positions,
)
from regard.watching.recorder.unseen_modules import attends_in_script, list_unseen, other_models
from regard.watching.recording import Recording, Unseen

ModuleFilter = Callable[[str], bool]

READERS: dict[Any, Callable[..., Call]] = {
    F.scaled_dot_product_attention: readers.from_sdpa,
    torch._native_multi_head_attention: readers.from_native_mha,
    torch._transformer_encoder_layer_fwd: readers.from_encoder_layer,
}
OPERATORS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)
# Attributes of a tensor that are tensors.
VIEWS = {"T", "mT", "H", "mH", "real", "imag", "data", "grad", "_grad", "_base"}
# Functions whose result is no tensor computed from their arguments. They are a third of all functions that run.
IGNORED = {
    Tensor.size, Tensor.dim, Tensor.numel, Tensor.stride, Tensor.is_contiguous, Tensor.is_floating_point,
    Tensor.__len__, torch.is_tensor, torch.is_floating_point, torch.arange, torch.tensor, torch.zeros, torch.ones,
    torch.empty, Tensor.item, Tensor.tolist, Tensor.__bool__, Tensor.data_ptr, Tensor.is_complex, torch.is_complex,
    Tensor.element_size, Tensor.ndimension, Tensor.get_device, Tensor.is_inference, torch.is_inference,
    *(x.__get__ for name, x in vars(torch._C.TensorBase).items() if hasattr(x, "__set__") and name not in VIEWS),
}  # fmt: skip
CHANGED_CALL = "_regard_changed_call"  # attribute of an output that `regard.intervene` has changed: its call
# What the recorder does with a function is decided by one lookup; functions that are not in the table are followed
# if one of their arguments is.
IGNORE, ATTENTION, BEGIN, PROJECT, CONCATENATE, CACHE = range(6)
WEIGHT_ARGUMENT = {F.linear: 1, **dict.fromkeys(WITH_ADDEND, 2)}  # functions that project with a parameter
ROLES: dict[Any, int] = {
    **dict.fromkeys(BEGINNINGS, BEGIN),
    **dict.fromkeys(WEIGHT_ARGUMENT, PROJECT),
    **dict.fromkeys(REPETITIONS | WRITES, CACHE),
    **dict.fromkeys(CONCATENATIONS, CONCATENATE),
    **dict.fromkeys(IGNORED, IGNORE),
    **dict.fromkeys(READERS, ATTENTION),
}


class Recorder(TorchFunctionMode):
    """Adds a `Call` to the recording for each attention function that runs in the threads that enter it."""

    keeps_graph = True  # whether calls that have gradients keep their tensors in the graph

    def __init__(
        self,
        recording: Recording,
        keep: Keep,
        module_filter: ModuleFilter,
        max_calls: int | None,
        positions: Tensor | None,
    ) -> None:
        super().__init__()
        self.recording, self.module_filter, self.max_calls, self.positions = (
            recording,
            module_filter,
            max_calls,
            positions,
        )
        self.thread = threading.get_ident()
        self.stack = stack = ModuleStack(recording.model)
        constants = ModelConstants(stack.modules)
        self.tracker = Tracker(
            constants.is_constant, constants.is_buffer, stack.name, stack.heads_of, stack.input_sizes, stack.attends
        )
        self.trails = self.tracker.trails
        self.softmaxes: dict[int, Softmax] = {}  # by id of the eager call
        self.tensors = CallTensors(keep)
        self.caches = self.tensors.caches
        self.folds: list[tuple[Call, Fold, tuple[int, ...]]] = []
        self.pieces: list[tuple[Call, Tensor | None]] = []  # calls with fewer queries than keys, their module's input
        self.steps: dict[str, int] = {}  # calls of each module so far
        self.key_counts: dict[str, int] = {}  # number of keys of each module's last call
        self.attention_modules: set[int] = set()  # ids of modules whose class is named as attention
        self.ran: dict[str, None] = {}  # paths of those that ran, in order
        self.scripts: dict[Any, bool] = {}  # TorchScript functions that ran, and whether they attend
        self.unread: dict[str, str] = {}  # modules with an attention function that no reader understands, and why

    def records_this_thread(self) -> bool:
        """Whether this recorder was made in the running thread, or no active recorder was."""
        thread = threading.get_ident()
        return thread == self.thread or all(thread != recorder.thread for recorder in active_recorders)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **kwargs) if kwargs else func(*args)
        role = ROLES.get(func)
        if role == IGNORE or listeners_muted.depth:
            return out
        if role == ATTENTION:
            self.read_call(READERS[func], args, kwargs or {}, out)
        elif role is None and type(func) in OPERATORS:
            self.read_operator(func, args, kwargs or {}, out)
        else:
            if role == BEGIN or (not self.is_projection(func, args) if role == PROJECT else self.trails):
                self.follow(func, args, kwargs or {}, out)
            if role == CONCATENATE or (role == CACHE and self.caches.is_used()):
                self.caches.follow(func, args, kwargs or {}, out)
        return out

    def is_projection(self, func: Any, args: tuple[Any, ...]) -> bool:
        """Whether a product with a parameter cannot be part of attention: its argument and result are not followed."""
        i, trails = WEIGHT_ARGUMENT[func], self.trails
        if len(args) <= i or type(weight := args[i]) is not nn.Parameter or (i == 1 and len(weight) <= MAX_LEARNED):
            return False
        return id(args[0]) not in trails and id(args[i - 1]) not in trails

    def follow(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """Follow a function that is not attention by itself; record a call where it completes eager attention."""
        try:
            weighing = eager_reader.read(self.tracker, func, args, kwargs, out)
            if weighing is not None and (site := self.stack.site()) is not None:
                self.record_eager(site, weighing)
        except Exception as error:
            name = getattr(func, "__name__", func)
            self.report_unread(f"the reader failed in {name}: {type(error).__name__}: {error}")

    def read_operator(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """Read a direct call of an operator, `torch.ops.aten.…`, as exported graphs make them."""
        overload = func.default if isinstance(func, torch._ops.OpOverloadPacket) and hasattr(func, "default") else func
        name, builtin = overload.__name__.split(".")[0], overload.namespace in ("aten", "prim", "prims")
        if name.startswith(("scaled_dot_product_attention", "_scaled_dot_product_")) and "backward" not in name:
            self.read_call(readers.from_operator(overload), args, kwargs, out[0] if isinstance(out, tuple) else out)
        elif name in ("_native_multi_head_attention", "_transformer_encoder_layer_fwd"):
            self.read_call(READERS[getattr(torch, name)], args, kwargs, out)
        elif "attention" in name or "attn" in name or (not builtin and _takes_queries_keys_values(args, out)):
            self.report_unread(f"the operator {overload} is not read")
        elif builtin and (function := _torch_function_of(name)) is not None:
            self.follow(function, args, kwargs, out)
            if ROLES.get(function) in (CONCATENATE, CACHE):
                self.caches.follow(function, args, kwargs, out)

    def read_script(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """Follow a TorchScript function; report it if it attends, since what happens inside is not seen."""
        if function not in self.scripts:
            self.scripts[function] = attends_in_script(function)
        if self.scripts[function]:
            self.report_unread(f"the TorchScript function {function.name} is not read")
        elif self.trails and not listeners_muted.depth:
            self.follow(function, args, kwargs, out)

    def report_unread(self, reason: str) -> None:
        module = self.stack.name()
        if module is not None:
            self.unread[module] = reason

    def read_call(self, read: Callable[..., Call], args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """Record a call of an attention function."""
        if (changed := getattr(out, CHANGED_CALL, None)) is not None:
            self.record_changed(changed, out)
            return
        site = self.stack.site()
        if site is None or not self.is_recorded(site.name):
            return
        with torch._C.DisableTorchFunction():
            plain_args, plain_kwargs, plain_out = unwrap_arguments(args, kwargs, out)
            if plain_args and isinstance(plain_args[0], Tensor) and plain_args[0].dim() == 5:
                heads = self.stack.heads_of(site.name)
                plain_args, plain_kwargs, plain_out = merge_groups(heads, plain_args, plain_kwargs, plain_out)
            call = read(site.name, *plain_args, output=plain_out, **plain_kwargs)
        if read is readers.from_sdpa and isinstance(out, Tensor) and out.dim() == 3 and not out.is_nested:
            fold = Fold(call.shape[1])
            follow_output(self.tracker, out, -3, fold)
            self.folds.append((call, fold, site.input_sizes))
        keys = plain_args[1] if len(plain_args) > 1 else None
        self.record(call, site, out, keys=keys, values=plain_args[2:3])

    def record_changed(self, call: Call, out: Any) -> None:
        """Record a call that `regard.intervene` has changed, and its output."""
        site = self.stack.site()
        if site is not None and self.is_recorded(site.name):
            self.record(replace(call, name=site.name, computed={}), site, out)

    def replace_output(self, old: Tensor, new: Tensor, outputs: Tensor) -> None:
        """Replace the output of the last call by one that `regard.intervene` has changed; `outputs`: (B, H, L, d)."""
        if (trail := self.tracker.trail(old)) is not None:
            self.tracker.follow(new, trail)
        if self.recording.calls:
            call = self.recording.calls[-1]
            if isinstance(call.outputs, Tensor) and storage_id(call.outputs) == storage_id(old):
                call.outputs = outputs.detach()
                call.remember_versions()

    def record_eager(self, site: CallSite, weighing: Weighing) -> None:
        """Record a call whose weights the model has computed itself."""
        if not self.is_recorded(site.name):
            return
        with torch._C.DisableTorchFunction():  # recorders around this one must not follow these views
            weights = unwrap(weighing.weights.detach())
            weights = weights[(None,) * (4 - weights.dim())]
            weights = weights.reshape(-1, *weights.shape[-3:])
            batch, heads, length, size = weights.shape
            call = Call(site.name, "eager softmax", (batch, heads, length, size), weighing.scale, eager_weights=weights)
            if weighing.values is not None:
                call.values = _like_weights(unwrap(weighing.values.detach()), weights)
            if weighing.output is not None and not weighing.dropout:
                call.outputs = _like_weights(unwrap(weighing.output.detach()), weights)
        call.score_width, call.score_bias = weighing.softmax.scores.width, weighing.softmax.scores.biased
        self.softmaxes[id(call)] = weighing.softmax
        if weighing.fold is not None:
            self.folds.append((call, weighing.fold, site.input_sizes))
        self.record(call, site, layout=weighing.layout)

    def on_attend(self, arguments: dict[str, Any]) -> None:
        """Record a call of `regard.attend`, which reports its arguments to its listeners."""
        site = self.stack.site() if self.records_this_thread() else None
        if site is not None and "changed_call" in arguments:
            self.record_changed(arguments["changed_call"], arguments["output"])
        elif site is not None and self.is_recorded(site.name):
            with torch._C.DisableTorchFunction():
                call = readers.from_attend(site.name, arguments)
            self.record(call, site, arguments["output"], keys=arguments["k"], values=(arguments["v"],))

    def change_flex_attention(self, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor) -> Tensor:
        """Return the output of a call of flex_attention; an intervener changes it."""
        return out

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

    def record(
        self,
        call: Call,
        site: CallSite,
        out: Any = None,
        *,
        keys: Any = None,
        values: tuple[Any, ...] = (),
        layout: Layout | None = None,
    ) -> None:
        """Complete a call by what the module around it shows, and add it to the recording.

        out     output of the attention function; of eager attention, `layout` has the weights that the model multiplies
        """
        self.describe(call, site)
        # The recorder's own computations must not be recorded.
        with listeners_muted, torch._C.DisableTorchFunction():
            if self.keeps_graph and self.tensors.keep != "statistics" and torch.is_grad_enabled():
                call.live = live_call(call, out, layout)
            call.detach()
            self.tensors.store(call, keys, values)
        self.recording.calls.append(call)

    def describe(self, call: Call, site: CallSite) -> None:
        """Complete a call by what the module around it shows."""
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
            unpack_heads(call, site, self.stack.heads_of(call.name))
        if self.positions is not None and not call.cross:
            use_positions(call, self.positions)

    def finish(self) -> None:
        """Complete the recording when the with-block ends: separate heads, list what was not recorded."""
        separate_heads(self.folds, self.stack.heads_of)
        find_query_chunks(self.pieces)
        self.pieces.clear()
        recording, softmaxes, withdrawn = self.recording, self.softmaxes, self.tracker.withdrawn()
        recording.calls[:] = [
            call
            for call in recording.calls
            if call.name not in withdrawn and (id(call) not in softmaxes or softmaxes[id(call)].is_attention)
        ]
        recorded = {call.name for call in recording.calls}
        unseen = list_unseen(
            self.stack.modules,
            self.unread | self.tracker.unseen(recorded),
            recorded,
            () if recording.skipped else self.ran,
        )
        recording.unseen += [Unseen(name, reason) for name, reason in unseen.items() if self.module_filter(name)]
        recording.unseen += other_models(self.stack.others)


active_recorders: list[Recorder] = []
"""The recorders of all watches that are active, in any thread."""


def _like_weights(x: Tensor, weights: Tensor) -> Tensor | None:
    """Return values or outputs that broadcast with the weights as (B, H or 1, rows, d); None if they do not."""
    x = x[(None,) * (4 - x.dim())]
    x = x.reshape(-1, *x.shape[-3:])
    fits = x.shape[0] in (1, weights.shape[0]) and x.shape[1] in (1, weights.shape[1])
    return x.expand(weights.shape[0], *x.shape[1:]) if fits else None


def _takes_queries_keys_values(args: tuple[Any, ...], out: Any) -> bool:
    """Whether an operator of another library may be attention: three sequences, and a result like the first."""
    q, k, v = args[:3] if len(args) > 2 else (None, None, None)
    if not (isinstance(q, Tensor) and isinstance(k, Tensor) and isinstance(v, Tensor)):
        return False
    out = out[0] if isinstance(out, tuple | list) and out else out
    same_rank = q.dim() == k.dim() == v.dim() > 2 and q.shape[-1] == k.shape[-1] > 1 and k.shape[:-1] == v.shape[:-1]
    return same_rank and isinstance(out, Tensor) and out.shape[:-1] == q.shape[:-1] and q.dtype.is_floating_point


@cache
def _torch_function_of(operator: str) -> Any:
    """Return the torch function that an operator belongs to: torch.softmax for aten._softmax."""
    name = {"_softmax": "softmax", "_log_softmax": "log_softmax", "_unsafe_view": "view"}.get(operator, operator)
    return getattr(torch, name, None) or getattr(Tensor, name, None) or getattr(F, name, None)
