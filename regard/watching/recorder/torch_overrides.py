"""What is replaced in torch's own Python code while recorders are active.

torch's layers leave their fast path while a TorchFunctionMode is active. A recorder changes no result, so the test for
active modes answers no. And functions of `torch.nn.functional` that are written in Python take 10 µs to reach a mode;
if the recorder is the only one, a shorter way does the same. TorchScript functions reach no mode, so they are
passed to the recorders.
"""

import threading
from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.watching.recorder.function_mode import Recorder, active_recorders

PLAIN = {Tensor, nn.Parameter, type(None)}
_stack_size, _mode_at = torch._C._len_torch_function_stack, torch._C._get_function_stack_at
_script_call = torch.jit.ScriptFunction.__call__
_handle = torch.overrides.handle_torch_function


class TorchOverrides:
    """Context in which torch's tests for modes are replaced.

    One instance serves all threads: the first to enter replaces the functions, the last to leave restores them.
    """

    def __init__(self) -> None:
        self.lock, self.entered = threading.Lock(), 0
        self.originals: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> None:
        with self.lock:
            self.entered += 1
            if self.entered == 1:
                for module in (torch.overrides, F):
                    self._replace(module, "has_torch_function", has_tensor_subclass)
                self._replace(F, "handle_torch_function", call_recorder)
                self._replace(torch.jit.ScriptFunction, "__call__", call_script)

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.entered -= 1
            while self.entered == 0 and self.originals:
                module, name, original = self.originals.pop()
                setattr(module, name, original)

    def _replace(self, module: Any, name: str, replacement: Any) -> None:
        self.originals.append((module, name, getattr(module, name)))
        setattr(module, name, replacement)


def has_tensor_subclass(arguments: Iterable[Any]) -> bool:
    """Whether an argument overrides torch functions itself, as `has_torch_function` tests without active modes."""
    disabled = torch._C._disabled_torch_function_impl
    for x in arguments:
        if type(x) not in PLAIN and isinstance(x, Tensor) and type(x).__torch_function__ is not disabled:
            return True
    return False


def call_recorder(public_api: Any, relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """Do what `torch.overrides.handle_torch_function` does; faster if a recorder is the only mode."""
    if _stack_size() == 1 and type(recorder := _mode_at(0)) is Recorder and PLAIN.issuperset(map(type, relevant_args)):
        with torch._C.DisableTorchFunction():
            return recorder.__torch_function__(public_api, (), args, kwargs)
    return _handle(public_api, relevant_args, *args, **kwargs)


def call_script(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a TorchScript function, and pass it to the recorders like a function of torch."""
    out = _script_call(self, *args, **kwargs)
    with torch._C.DisableTorchFunction():
        for recorder in tuple(active_recorders):
            if recorder.records_this_thread():
                recorder.read_script(self, args, kwargs, out)
    return out


torch_overrides = TorchOverrides()
