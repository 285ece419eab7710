"""Which module of a watched model makes an attention call, and what that module was called with.

Both are read from the interpreter's stack, and only when a call is recorded: hooks on all modules would cost more time
than the rest of watching.
"""

import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

from regard.watching.readers.wrapped_tensors import unwrap

MODULE_CALL, WRAPPED_MODULE_CALL = nn.Module._call_impl.__code__, nn.Module._wrapped_call_impl.__code__
HEAD_COUNTS = ("num_heads", "heads", "num_attention_heads", "n_heads", "n_head", "nhead", "num_head", "nheads")
ATTENTION_CLASS = re.compile(r"[Aa]ttenti|[Aa]ttn|MHA|MHSA|MSA$")
OWN_MODULES = {
    __name__, "regard.watching.recorder.function_mode", "regard.watching.readers.eager.reader",
    "regard.watching.readers.eager.tracker", "torch.overrides",
}  # fmt: skip
OTHER_SEQUENCES = {
    "key_value_states", "encoder_hidden_states", "encoder_states", "encoder_output", "encoder_outputs", "encoder_out",
    "cross_attention_states", "memory", "context", "kv", "key", "keys", "k", "mem", "enc_output", "source", "context_x",
}  # fmt: skip
CACHES = {
    "past_key_values", "past_key_value", "layer_past", "past_kv", "past", "cache", "kv_cache", "cache_params", "mems",
    "incremental_state", "input_pos", "start_pos", "cache_position", "prev_key_values", "k_cache", "layer_cache",
}  # fmt: skip


class CallSite:
    """The module that makes a call.

    name        path of the innermost module of the model on the stack
    module      the innermost one that projects its input: it has matrices as parameters; else the innermost one
    arguments   what that module was called with, by name
    sequence    the first of them that is a sequence (B, L, …)
    """

    def __init__(self, name: str, module: nn.Module, arguments: dict[str, Any] | None = None) -> None:
        self.name, self.module, self.arguments = name, module, arguments or {}
        self.sequence: Tensor | None = next(filter(_is_sequence, self.arguments.values()), None)

    @property
    def input_sizes(self) -> tuple[int, ...]:
        """The first two sizes of the module's first input, or () if they are not known."""
        for x in self.arguments.values():
            if isinstance(x, Tensor) and not x.is_nested and x.dim() > 1:
                return tuple(x.shape[:2])
        return ()

    @property
    def has_single_token(self) -> bool:
        """Whether the module was called with sequences of one token."""
        first = self.sequence
        return (first is not None and first.shape[1] == 1) or self.input_sizes[1:] == (1,)

    @property
    def has_other_sequence(self) -> bool:
        """Whether the module was called with a second sequence for the keys."""
        first = self.sequence
        if first is None:
            return False
        names = self.arguments.keys() & OTHER_SEQUENCES
        others = [x for name in names if _is_sequence(x := self.arguments[name])]
        return any(not _same(first, x) for x in others)

    @property
    def has_cache(self) -> bool:
        """Whether the module was called with a cache, or holds one."""
        given = any(self.arguments[name] is not None for name in self.arguments.keys() & CACHES)
        return given or any(getattr(self.module, name, None) is not None for name in ("cache", "kv_cache", "k_cache"))


class ModuleStack:
    """Finds the module of a model whose code is running."""

    def __init__(self, model: nn.Module) -> None:
        self.modules = dict(_named_modules(model))
        self.names = {id(module): name for name, module in self.modules.items()}
        self.projecting: dict[str, bool] = {}  # whether a module has matrices as parameters
        self.others: dict[str, None] = {}  # classes of other models that ran

    def name(self) -> str | None:
        """Return the path of the innermost module of the model on the stack; None outside of the model."""
        found = self._innermost(sys._getframe(1))
        return None if found is None else found[0]

    def site(self) -> CallSite | None:
        """Return the call site of the innermost module of the model on the stack; None outside of the model."""
        found = self._innermost(sys._getframe(1))
        if found is None:
            return None
        name, frame = found
        outermost: dict[str, Any] = {}  # arguments of the outermost module, for models without matrices
        while frame is not None:
            if frame.f_code is MODULE_CALL or frame.f_code is WRAPPED_MODULE_CALL:  # hashing code is slow
                local = frame.f_locals
                module = local.get("self")
                path = self.names.get(id(module))
                if module is not None and path is not None:
                    arguments = dict(zip(_argument_names(module.__class__), local.get("args", ()), strict=False))
                    arguments.update(local.get("kwargs", {}))
                    if self._projects(path):
                        return CallSite(name, module, arguments)
                    outermost = arguments
            frame = frame.f_back
        several = (
            sum(isinstance(x, Tensor) for x in outermost.values()) > 1
        )  # perhaps q, k and v, after the projections
        return CallSite(name, self.modules[name], None if several else outermost)

    def _innermost(self, frame: FrameType | None) -> tuple[str, FrameType | None] | None:
        """Return the innermost module from this frame on, and the frame in which it runs."""
        other: nn.Module | None = None
        while frame is not None:
            code = frame.f_code
            if (
                code.co_argcount
                and code.co_varnames[0] == "self"
                and frame.f_globals.get("__name__") not in OWN_MODULES
            ):
                this = frame.f_locals.get("self")
                name = self.names.get(id(this))
                if name is not None:
                    return name, frame
                if code is MODULE_CALL or code is WRAPPED_MODULE_CALL:
                    other = this
            frame = frame.f_back
        if other is not None:
            self.others[type(other).__name__] = None
        return None

    def _projects(self, name: str) -> bool:
        if name not in self.projecting:
            self.projecting[name] = any(x.dim() > 1 for x in self.modules[name].parameters())
        return self.projecting[name]

    def input_sizes(self) -> tuple[int, ...]:
        """Return the first two sizes of the first input of the module that runs now."""
        site = self.site()
        return () if site is None else site.input_sizes

    def attends(self, name: str) -> bool:
        """Whether a module, or the one that calls a layer of torch, is an attention layer by the name of its class."""
        module = self.modules[name]
        while name and type(module).__module__.startswith("torch.nn"):
            name = name.rpartition(".")[0]
            module = self.modules[name]
        return is_attention(module)

    def heads_of(self, name: str | None) -> int | None:
        """Return the number of heads that a module, or a module around it, states as an attribute."""
        while name is not None:
            module = self.modules[name]
            for holder in (module, getattr(module, "config", None)):
                for attribute in HEAD_COUNTS:
                    if isinstance(count := config_value(holder, attribute), int) and not isinstance(count, bool):
                        return count
            name = name.rpartition(".")[0] if name else None
        return None


def is_attention(module: nn.Module) -> bool:
    """Whether the class of a module is named as attention."""
    return _names_attention(type(module).__name__)


@cache
def _names_attention(name: str) -> bool:
    return ATTENTION_CLASS.search(name) is not None


def config_value(config: Any, name: str, default: Any = None) -> Any:
    """Return a field of a configuration; the default if it has none, or a different one for each layer."""
    try:
        return getattr(config, name, default)
    except Exception:  # transformers raises its own error for fields that differ between layers
        return default


def _named_modules(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield each module once with its path, as `named_modules`, in half the time."""
    done, pending = {id(model)}, [("", model)]
    for prefix, module in pending:  # grows while it is traversed
        yield prefix, module
        for name, child in module._modules.items():
            if child is not None and id(child) not in done:
                done.add(id(child))
                pending.append((f"{prefix}.{name}" if prefix else name, child))


@cache
def _argument_names(kind: Any) -> tuple[str, ...]:
    """Return the names of the positional arguments of a module's forward function."""
    code = getattr(inspect.unwrap(kind.forward), "__code__", None)
    return () if code is None else code.co_varnames[1 : code.co_argcount]


def _is_sequence(x: Any) -> bool:
    return isinstance(x, Tensor) and not x.is_nested and x.dim() == 3 and x.dtype.is_floating_point


def _same(a: Tensor, b: Tensor) -> bool:
    if a is b:
        return True
    with torch._C.DisableTorchFunction():
        a, b = unwrap(a), unwrap(b)  # under vmap
        if a.shape == b.shape and a.data_ptr() == b.data_ptr():
            return True
        return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b)
