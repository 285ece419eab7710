"""Forward functions of watched classes, replaced while recorders are active.

Two things are needed that a TorchFunctionMode cannot do. It is active in one thread only: in other threads that run the
model or a part of it, the first forward function enters the recorders. And it does not see which modules run: the
forward functions of attention classes note it, so that those without a recorded call are reported. Modules that cannot
attend by themselves, such as a linear layer, are left alone.

The function of the class is replaced, not that of the instance: copies of a module made inside the with-block would
run the original. A hook on every module would take longer, and cannot enter a mode.
"""

import functools
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.listeners import call_listeners
from regard.watching.readers import flex_attention_calls as flex
from regard.watching.recorder.call_site import is_attention
from regard.watching.recorder.function_mode import Recorder, active_recorders

TORCH_LAYERS = (
    nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerEncoder, nn.TransformerDecoderLayer,
    nn.TransformerDecoder, nn.Transformer,
)  # fmt: skip
_lock = threading.Lock()
_replaced: dict[Any, tuple[int, bool, Any]] = {}  # class or module → number of users, whether it had its own, forward
_entered = threading.local()  # whether this thread runs inside of a forward function that has entered recorders


@contextmanager
def register(recorder: Recorder) -> Iterator[None]:
    """Register a recorder with everything that reports calls from any thread."""
    model = recorder.recording.model
    recorder.attention_modules.update(_attention_modules(recorder))
    modules = [module for module in recorder.stack.modules.values() if module is model or _may_attend(module)]
    owners = {owner for module in modules if (owner := _owner(module)) is not None}
    with _lock:
        if not active_recorders:
            flex.report_calls(_report_flex_attention)
        active_recorders.append(recorder)
        call_listeners.append(recorder.on_attend)
        for owner in owners:
            _replace(owner)
    try:
        yield
    finally:
        with _lock:
            active_recorders.remove(recorder)
            call_listeners.remove(recorder.on_attend)
            if not active_recorders:
                flex.report_no_calls()
            for owner in owners:
                _restore(owner)


def _attention_modules(recorder: Recorder) -> Iterator[int]:
    """Yield the ids of modules whose class is named as attention. torch's own layers are always recorded."""
    modules = recorder.stack.modules
    torch_layers = [name for name, module in modules.items() if isinstance(module, TORCH_LAYERS)]
    for name, module in modules.items():
        if is_attention(module) and not any(
            name == layer or name.startswith(f"{layer}.") or not layer for layer in torch_layers
        ):
            yield id(module)


def _may_attend(module: nn.Module) -> bool:
    """Whether a module may attend by itself: it has parts, several parameters that are matrices, or the name."""
    if module._modules or is_attention(module):
        return True
    return sum(x is not None and x.dim() > 1 for x in module._parameters.values()) > 1


def _owner(module: nn.Module) -> Any:
    """Return what holds a module's forward function: its class, or the module itself; None if it cannot be replaced."""
    if isinstance(module, torch.jit.ScriptModule):
        return None
    kind = type(module)
    forward = next((base.__dict__["forward"] for base in kind.__mro__ if "forward" in base.__dict__), None)
    return kind if type(forward) is FunctionType and "forward" not in vars(module) else module


def _replace(owner: Any) -> None:
    count, is_own, forward = _replaced.get(owner, (0, "forward" in vars(owner), owner.forward))
    _replaced[owner] = count + 1, is_own, forward
    if count == 0:
        owner.forward = _recorded(forward) if isinstance(owner, type) else functools.partial(_run, owner, forward)
        if not isinstance(owner, type):
            functools.update_wrapper(owner.forward, forward)


def _restore(owner: Any) -> None:
    count, is_own, forward = _replaced[owner]
    if count > 1:
        _replaced[owner] = count - 1, is_own, forward
        return
    del _replaced[owner]
    if is_own:
        owner.forward = forward
    else:
        del owner.forward


def _recorded(forward: Any) -> Any:
    @functools.wraps(forward)
    def run(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        recorders = tuple(active_recorders)
        if len(recorders) == 1 and (recorder := recorders[0]).thread == threading.get_ident():
            if id(self) in recorder.attention_modules:  # the usual case: one recorder, in its own thread
                recorder.ran[recorder.stack.names[id(self)]] = None
            return forward(self, *args, **kwargs)
        return _run(self, functools.partial(forward, self), *args, **kwargs)

    return run


def _run(module: nn.Module, forward: Any, *args: Any, **kwargs: Any) -> Any:
    """Run a forward function; note it, and enter the recorders of the module in a thread without a recorder."""
    recorders = (
        active_recorders if len(active_recorders) < 2 else [x for x in active_recorders if x.records_this_thread()]
    )
    missing = []
    thread = threading.get_ident()
    for recorder in recorders:
        if id(module) in recorder.attention_modules:
            recorder.ran[recorder.stack.names[id(module)]] = None
        if recorder.thread != thread and id(module) in recorder.stack.names:
            missing.append(recorder)
    if not missing or getattr(_entered, "value", False):
        return forward(*args, **kwargs)
    _entered.value = True
    try:
        with ExitStack() as stack:
            for recorder in missing:
                stack.enter_context(recorder)
            return forward(*args, **kwargs)
    finally:
        _entered.value = False


def _report_flex_attention(args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor) -> Tensor:
    recorders = [recorder for recorder in active_recorders if recorder.records_this_thread()]
    for recorder in reversed(recorders):
        out = recorder.change_flex_attention(args, kwargs, out)
    for recorder in recorders:
        recorder.read_call(flex.from_flex_attention, args, kwargs, out)
    return out
