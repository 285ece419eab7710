"""The intervener of `regard.intervene`: a recorder that changes the calls it sees instead of keeping them.

It is a TorchFunctionMode. Modes that are entered later see a function first. The innermost intervener applies the
interventions of all, outer ones first. Recorders of `regard.watch` inside it find the changed call at the output;
those around it are told.
"""

import threading
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import _get_current_function_mode_stack

from regard.attention.listeners import listeners_muted, report_call
from regard.watching.call import Call
from regard.watching.interventions.bound_interventions import Bound, apply_all
from regard.watching.interventions.call_changes import CallChanges
from regard.watching.interventions.eager_changes import (
    change_output,
    changed_values,
    copy_of_weights,
    eager_call,
    no_base,
    write_weights,
)
from regard.watching.interventions.fused_changes import edited_lse
from regard.watching.interventions.kinds import INPUTS
from regard.watching.readers import flex_attention_calls as flex
from regard.watching.readers import torch_calls as readers
from regard.watching.readers.eager import reader as eager_reader
from regard.watching.readers.eager.products import PRODUCTS
from regard.watching.readers.eager.trails import Fold, Weighing
from regard.watching.readers.eager.value_products import WEIGHING, follow_output
from regard.watching.recorder.call_site import CallSite
from regard.watching.recorder.function_mode import (
    ATTENTION,
    BEGIN,
    CHANGED_CALL,
    IGNORE,
    OPERATORS,
    PROJECT,
    READERS,
    ROLES,
    Recorder,
    active_recorders,
)
from regard.watching.recorder.shared_axes import likely_sizes, merge_groups
from regard.watching.recording import Recording
from regard.watching.weights.weight_edits import Rows, edited_rows

NATIVE = (readers.from_native_mha, readers.from_encoder_layer)


class Intervener(Recorder):
    """Changes the attention calls of modules that match its patterns."""

    def __init__(self, model: nn.Module, bound: list[Bound], matches: Callable[[str, Iterable[str]], bool]) -> None:
        patterns = [one.pattern for one in bound]
        super().__init__(Recording(model), "inputs", lambda name: matches(name, patterns), None, None)
        self.bound, self.matches = bound, matches
        self.by_name: dict[str | None, list[Bound]] = {None: []}
        self.assumed: list[tuple[str, Fold, tuple[int, int]]] = []  # axes separated into batch and heads
        self.wrong: dict[str, str] = {}  # modules that were changed although they are not attention, and why

    # Which interventions apply

    def interventions(self, name: str | None) -> list[Bound]:
        """Return the interventions of this intervener for a module."""
        if name not in self.by_name:
            assert name is not None
            self.by_name[name] = [one for one in self.bound if self.matches(name, [one.pattern])]
        return self.by_name[name]

    def all_interventions(self, name: str | None) -> list[Bound]:
        """Return the interventions of all active interveners for the module that runs now, outer ones first.

        The innermost intervener whose model contains the module applies those of the others too.
        """
        if name is None:
            return []
        bound = []
        for other in active_recorders:
            if isinstance(other, Intervener) and other is not self and other.records_this_thread():
                if own := other.interventions(path := other.stack.name()):
                    other.note(path)
                bound += own
        return bound + self.interventions(name)

    # What the mode sees

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs, role = kwargs or {}, ROLES.get(func)
        if role == IGNORE or listeners_muted.depth:
            return func(*args, **kwargs)
        if role == ATTENTION:
            return self.change_function(READERS[func], func, args, kwargs)
        if role is None and type(func) in OPERATORS:
            return self.change_operator(func, args, kwargs)
        if func is Tensor.backward:  # with gradient checkpointing it runs the model again, which must be seen
            with self:
                return backward(*args, **kwargs)
        if role == BEGIN or (not self.is_projection(func, args) if role == PROJECT else self.trails):
            return self.change_other(func, args, kwargs)
        return func(*args, **kwargs)

    def change_operator(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Change a direct call of an operator, as exported graphs make them."""
        overload = func.default if isinstance(func, torch._ops.OpOverloadPacket) and hasattr(func, "default") else func
        name = overload.__name__.split(".")[0]
        if name.startswith(("scaled_dot_product_attention", "_scaled_dot_product_")) and "backward" not in name:
            return self.change_function(readers.from_operator(overload), func, args, kwargs)
        if name in ("_native_multi_head_attention", "_transformer_encoder_layer_fwd"):
            return self.change_function(READERS[getattr(torch, name)], func, args, kwargs)
        out = func(*args, **kwargs)
        self.read_operator(func, args, kwargs, out)
        return out

    def record_eager(self, site: CallSite, weighing: Weighing) -> None:
        """Eager attention in a form that is read, but not changed."""
        if self.interventions(site.name) and not _changed_product.depth:
            self.unread[site.name] = "its attention is written in a form whose weights cannot be changed"
        self.note(site.name, weighing)

    def note(self, name: str | None, weighing: Weighing | None = None) -> None:
        """Remember that a module has attended."""
        if name is None:
            return
        call = Call(name, "", (0, 0, 0, 0), None)
        if weighing is not None:
            self.softmaxes[id(call)] = weighing.softmax
        self.recording.calls.append(call)

    def finish(self) -> None:
        for call in self.recording.calls:
            softmax = self.softmaxes.get(id(call))
            if softmax is not None and not softmax.is_attention and self.interventions(call.name):
                self.wrong[call.name] = "its softmax turned out not to be over the keys of attention"
        for name, fold, assumed in self.assumed:
            if fold.split is not None and fold.split != assumed and 1 not in assumed:
                self.wrong[name] = (
                    f"an axis of {fold.size} holds heads before batch items, which is known only after the call; "
                    "run a batch of 1"
                )
        super().finish()

    # Fused attention

    def change_function(
        self, read: Callable[..., Call], func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run an attention function with the interventions for its module."""
        name = self.stack.name()
        self.note(name)
        bound = self.all_interventions(name)
        if name is None or not bound:
            return func(*args, **kwargs)
        q = args[0] if args else next(iter(kwargs.values()))
        self._check_supported(read, name, q)
        others: list[Any] = []

        def base() -> Tensor:
            out = func(*args, **kwargs)
            others[:] = out[1:] if isinstance(out, tuple) else []
            return out[0] if isinstance(out, tuple) else out

        with torch._C.DisableTorchFunction(), listeners_muted:
            is_tuple = read is not readers.from_sdpa
            first = base() if is_tuple else None
            shape = first.shape if first is not None else _output_shape(args, kwargs)
            inputs, options = args, kwargs
            if q.dim() == 5 and args:
                inputs, options, _ = merge_groups(self.stack.heads_of(name), args, kwargs, None)
            call = read(name, *inputs, output=None, **options)
            fold = Fold(call.shape[1]) if q.dim() == 3 else None
            changes = self._describe(call, name, base if first is None else lambda: first, fold)
            out = self._run(changes, bound).reshape(shape)
            if fold is not None:
                follow_output(self.tracker, out, -3, fold)
        self._tell(changes.call, out)
        return (out, *others) if is_tuple and others else out

    def change_flex_attention(self, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor) -> Tensor:
        if hasattr(out, CHANGED_CALL):
            return out
        name = self.stack.name()
        self.note(name)
        bound = self.all_interventions(name)
        if name is None or not bound:
            return out
        with torch._C.DisableTorchFunction(), listeners_muted:
            call = flex.from_flex_attention(name, *args, output=None, **kwargs)
            changes = self._describe(call, name, lambda: out)
            result = self._run(changes, bound).reshape(out.shape)
        setattr(result, CHANGED_CALL, changes.call)
        return result

    def read_call(self, *_: Any) -> None:
        """Nothing is recorded: calls are changed where they are seen."""

    def on_attend(self, arguments: dict[str, Any]) -> None:
        """Remember that a module has attended; `change_attend` has had the chance to change the call."""
        self.note(self.stack.name() if self.records_this_thread() else None)

    def change_attend(self, arguments: dict[str, Any], output: Callable[[], Tensor]) -> Any:
        """Return the changed result of a call of `regard.attend`; None if nothing is changed."""
        name = self.stack.name() if self.records_this_thread() else None
        bound = self.all_interventions(name)
        if name is None or not bound:
            return None
        q, v = arguments["q"], arguments["v"]
        with torch._C.DisableTorchFunction(), listeners_muted:
            expanded = {key: arguments[key].expand(*q.shape[:-3], *arguments[key].shape[-3:]) for key in ("k", "v")}
            call = readers.from_attend(name, arguments | (expanded if q.dim() > 3 else {}))
            lead = (*q.shape[:-1], v.shape[-1])
            changes = self._describe(call, name, output)
            out = self._run(changes, bound).reshape(lead)
            lse = edited_lse(changes.call).reshape(lead[:-1]) if arguments.get("want_lse") else None
            maps = None
            if arguments.get("weights"):
                maps = edited_rows(changes.call, *Rows().indices(changes.call)).reshape(*lead[:-1], -1).to(q.dtype)
                maps = maps.mean(-3) if arguments["weights"] == "mean" and q.dim() > 2 else maps
        report_call(**arguments, changed_call=changes.call, output=out)
        return out, lse, maps

    def _describe(self, call: Call, name: str, base: Callable[[], Tensor], fold: Fold | None = None) -> CallChanges:
        """Complete a call by what the module around it shows; `fold`: the axis that holds batch and heads."""
        site = self.stack.site()
        assert site is not None
        if torch._C._current_graph_task_id() != -1:  # in backward, gradient checkpointing repeats the last call
            self.steps[name] = self.steps.get(name, 0) - 1
        self.describe(call, site)
        self.pieces.clear()
        if fold is not None:
            sizes = likely_sizes(fold.size, self.stack.heads_of(name), site.input_sizes)
            call.separate(sizes, False)
            self.assumed.append((name, fold, sizes))
        shape = call.shape

        def arranged() -> Tensor:
            out = base()
            return out.reshape(*shape[:3], out.shape[-1])

        return CallChanges(call, arranged, growing=call.cached or (site.has_cache and not call.cross))

    def _run(self, changes: CallChanges, bound: list[Bound]) -> Tensor:
        """Return the changed output (B, H, L, d_v), and keep it in the call."""
        call = changes.call
        apply_all(changes, bound)
        device = call.q.device.type
        autocast = device in ("cpu", "cuda") and torch.is_autocast_enabled(device)
        if autocast:
            dtype, run = torch.get_autocast_dtype(device), changes.base
            for key in INPUTS.values():
                setattr(call, key, call.tensor(key).to(dtype))

            def base() -> Tensor:
                with torch.autocast(device, dtype):
                    return run()

            changes.base = base
        with torch.autocast(device, enabled=False) if autocast else nullcontext():
            out = changes.output()
        call.outputs = out.detach()
        return out

    def _tell(self, call: Call, out: Tensor) -> None:
        """Let the recorders around this intervener record a changed call, and those inside find it."""
        for mode in _get_current_function_mode_stack():
            if isinstance(mode, Recorder) and not isinstance(mode, Intervener):
                mode.record_changed(call, out)
        if any(not isinstance(x, Intervener) for x in active_recorders):
            setattr(out, CHANGED_CALL, call)

    def _check_supported(self, read: Any, name: str, q: Any) -> None:
        if read in NATIVE:
            raise NotImplementedError(
                f"{name or 'the model'!r} calls torch's native kernel of a whole layer, which shows neither queries "
                "nor keys; call the layer, not its operator"
            )
        if isinstance(q, Tensor) and q.is_nested:
            raise NotImplementedError(
                f"{name or 'the model'!r} attends to nested tensors, whose calls cannot be changed; pass padded "
                "tensors with a mask"
            )
        if isinstance(q, Tensor) and torch._C._functorch.is_batchedtensor(q):
            raise NotImplementedError(
                f"{name or 'the model'!r} attends inside torch.vmap, where calls cannot be changed; pass a batch"
            )

    # Eager attention

    def change_other(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a function that is not attention by itself; change it if it multiplies weights with values."""
        if (
            func in PRODUCTS
            and self.tracker.trails
            and not _changed_product.depth
            and self._multiplies_weights(args, kwargs)
        ):
            name = self.stack.name()
            bound = self.all_interventions(name)
            if name is not None and bound:
                return self.change_product(name, bound, func, args, kwargs)
        out = func(*args, **kwargs)
        self.follow(func, args, kwargs, out)
        if self.tracker.trails and not _changed_product.depth and torch.is_grad_enabled():
            return copy_of_weights(self.tracker, func, out)
        return out

    def _multiplies_weights(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        operands = [x for a in (*args, *kwargs.values()) for x in (a if isinstance(a, list | tuple) else [a])]
        trails = [self.tracker.trail(x) for x in operands if isinstance(x, Tensor)]
        return any(trail is not None and trail.stage in WEIGHING for trail in trails)

    def change_product(
        self, name: str, bound: list[Bound], func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run a product with weights; if it is with values, with the changed weights."""
        with torch._C.DisableTorchFunction(), listeners_muted:
            trial = func(*args, **kwargs)  # the reader needs its shape
            weighing = eager_reader.read(self.tracker, func, args, kwargs, trial)
            changes = layout = None
            if weighing is not None and weighing.layout is not None:
                layout = weighing.layout
                self.note(name, weighing)
                changes = self._describe(eager_call(name, weighing, layout), name, no_base, weighing.fold)
                apply_all(changes, bound)
                write_weights(changes, layout)
                if changes.inputs_changed:
                    values, new = layout.values, changed_values(changes, layout)
                    args = tuple(_replaced(x, values, new) for x in args)
                    kwargs = {key: _replaced(x, values, new) for key, x in kwargs.items()}
        with _changed_product:
            out = func(*args, **kwargs)
        if (trail := self.tracker.trail(trial)) is not None:
            self.tracker.follow(out, trail)
        if changes is None or layout is None or not changes.output_changes:
            return out
        with torch._C.DisableTorchFunction(), listeners_muted:
            changed, outputs = change_output(changes, layout, out)
        for mode in _get_current_function_mode_stack():
            if isinstance(mode, Recorder):
                mode.replace_output(out, changed, outputs)
        if trail is not None:
            self.tracker.follow(changed, trail)
        return changed


def backward(
    tensor: Tensor, gradient: Any = None, retain_graph: Any = None, create_graph: bool = False, inputs: Any = None
) -> None:
    """Do what `Tensor.backward` does if no mode is active."""
    torch.autograd.backward(tensor, gradient, retain_graph, create_graph, inputs=inputs)


class _ChangedProduct(threading.local):
    """Context in which a product runs that has been changed already; outer interveners leave it as it is."""

    depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1


_changed_product = _ChangedProduct()


def _replaced(x: Any, old: Tensor, new: Tensor) -> Any:
    if isinstance(x, list | tuple):
        return type(x)(_replaced(y, old, new) for y in x)
    return new if x is old else x


def _output_shape(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, ...]:
    """Return the shape of the output of `F.scaled_dot_product_attention`."""
    names = ("query", "key", "value", "attn_mask")
    q, k, v, mask = (args[i] if len(args) > i else kwargs.get(name) for i, name in enumerate(names))
    assert isinstance(q, Tensor)
    assert isinstance(k, Tensor)
    assert isinstance(v, Tensor)
    tensors = [q, k, v, *([] if mask is None else [mask])]
    lead = torch.broadcast_shapes(*(x.shape[:-3] for x in tensors))
    grouped = kwargs.get("enable_gqa", False)
    heads = q.shape[-3:-2] if grouped else torch.broadcast_shapes(*(x.shape[-3:-2] for x in tensors if x.dim() > 2))
    return (*lead, *heads, q.shape[-2], v.shape[-1])
