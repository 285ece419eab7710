"""A simulated accelerator, "sim:0", for tests on machines without one.

Its tensors are wrappers around CPU tensors. Inside `simulated()` torch behaves as on a real accelerator:

- an operation on tensors of both devices raises an error; only CPU tensors without dimensions may be mixed in;
- CPU tensors and lists are refused as indices, and as values that are written into a part of a tensor: torch
  accepts both, but copies them to the device in every call;
- with `float64=False`, float64 is refused, as on MPS.

It counts what makes a program wait for the device, and records the largest buffer:

    with simulated() as device:
        x = torch.randn(4, 4).to("sim")
        x.sum().item()
    device.syncs, device.largest                                    1, 16

`F.scaled_dot_product_attention` and the native layers of torch are fused: what they compute inside is not recorded.
"""

import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map

aten: Any = torch.ops.aten

# Operators whose result has a size that depends on values, or that return a value to Python.
SYNCS = {
    "_local_scalar_dense", "nonzero", "masked_select", "unique", "_unique", "_unique2", "unique_dim",
    "unique_consecutive", "equal", "is_nonzero", "bincount", "nonzero_numpy",
}  # fmt: skip
# Operators that may read a CPU tensor next to tensors of the device: copies, requested by the program.
COPIES = {"_to_copy"}


class SimulatedTensor(Tensor):
    """A tensor of the simulated device; `values` is the CPU tensor that holds its numbers."""

    values: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, values: Tensor) -> "SimulatedTensor":
        return torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined, no-any-return]
            cls, values.shape, values.stride(), values.storage_offset(), dtype=values.dtype, device="sim:0"
        )

    def __init__(self, values: Tensor) -> None:
        self.values = values

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if _devices:
            return _devices[-1].run(func, args, kwargs or {})
        return Device().run(func, args, kwargs or {})

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"sim({self.values!r})"


@dataclass
class Device:
    """What happened on the device inside `simulated()`."""

    float64: bool = True
    syncs: int = 0
    largest: int = 0  # number of elements of the largest buffer that an operation created
    operations: int = 0
    places: dict[str, int] = field(default_factory=dict)  # how often each line of regard waited for the device
    largest_from: str = ""  # operation and line that created the largest buffer

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator on the CPU tensors inside, and wrap the results."""
        name = func._schema.name.removeprefix("aten::")
        flat, _ = tree_flatten((args, kwargs))
        tensors = [x for x in flat if isinstance(x, Tensor)]
        inside = [x for x in tensors if isinstance(x, SimulatedTensor)]
        target = kwargs.get("device")
        if not inside and (target is None or torch.device(target).type != "sim"):
            return func(*args, **kwargs)
        self.operations += 1
        if inside and name not in COPIES:
            mixed = [x for x in tensors if x.device.type == "cpu" and (x.dim() > 0 or name in ("index", "index_put_"))]
            if mixed:
                raise RuntimeError(f"{name}: tensors of sim:0 and of the CPU, {tuple(mixed[0].shape)}")
        to_host = name == "_to_copy" and target is not None and torch.device(target).type == "cpu"
        by_mask = name.startswith("index") and any(x.dtype in (torch.bool, torch.uint8) for x in inside[1:])
        if name in SYNCS or to_host or (by_mask and name in ("index", "index_put", "index_put_")):
            self.syncs += 1
            place = _place()
            self.places[place] = self.places.get(place, 0) + 1
        plain_kwargs = tree_map(_unwrap, kwargs)
        if target is not None:
            plain_kwargs["device"] = "cpu"
        if plain_kwargs.get("pin_memory"):
            plain_kwargs["pin_memory"] = False
        with torch.inference_mode(False) if not torch.is_inference_mode_enabled() else _nothing():
            out = func(*tree_map(_unwrap, args), **plain_kwargs)
        if to_host:
            return out
        known = {x.values.untyped_storage()._cdata for x in inside}
        for x in tree_flatten(out)[0]:
            if isinstance(x, Tensor):
                if x.dtype == torch.float64 and not self.float64:
                    raise TypeError(f"{name}: sim:0 has no float64")
                if x.untyped_storage()._cdata not in known and x.numel() > self.largest:
                    size = x.untyped_storage().nbytes() // max(1, x.element_size())
                    if size > self.largest:
                        self.largest, self.largest_from = size, f"{name} {tuple(x.shape)} at {_place()}"
        wrapped = tree_map(lambda x: SimulatedTensor(x) if isinstance(x, Tensor) else x, out)
        return return_and_correct_aliasing(func, args, kwargs, wrapped)


_devices: list[Device] = []


def _unwrap(x: Any) -> Any:
    return x.values if isinstance(x, SimulatedTensor) else x


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _place() -> str:
    """Return file and line of the innermost frame in regard."""
    for frame in reversed(traceback.extract_stack(limit=60)):
        if "/regard/" in frame.filename and "/tests/" not in frame.filename:
            return f"{frame.filename.rpartition('/regard/')[2]}:{frame.lineno}"
    return "the test"


class _Factories(TorchDispatchMode):
    """Serves operators without tensors of the device, such as arange(device="sim"), and copies to it."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _devices[-1].run(func, args, kwargs or {})


class _BeforeDispatch(TorchFunctionMode):
    """Serves what torch decides before it dispatches: fused attention and indexing."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is F.scaled_dot_product_attention and any(map(_is_inside, (*args, *kwargs.values()))):
            return _fused_attention(*args, **kwargs)
        if func in (Tensor.__getitem__, Tensor.__setitem__) and _is_inside(args[0]):
            index = args[1] if isinstance(args[1], tuple) else (args[1],)
            if any(isinstance(x, list | range) or (isinstance(x, Tensor) and not _is_inside(x)) for x in index):
                raise RuntimeError(f"a CPU tensor or a list is the index of a tensor of sim:0: {index}")
            if len(args) > 2 and isinstance(args[2], Tensor) and not _is_inside(args[2]) and args[2].dim():
                raise RuntimeError("a CPU tensor is written into a tensor of sim:0")
        if func is Tensor.tolist and _is_inside(args[0]):
            return args[0].cpu().tolist()
        if func is Tensor.numpy and _is_inside(args[0]):
            raise TypeError("can't convert a tensor of sim:0 to numpy; use .cpu() first")
        return func(*args, **kwargs)


def _is_inside(x: Any) -> bool:
    return isinstance(x, SimulatedTensor)


def _fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    tensors = [query, key, value, *([] if attn_mask is None else [attn_mask])]
    if not all(map(_is_inside, tensors)):
        raise RuntimeError("scaled_dot_product_attention: tensors of sim:0 and of the CPU")
    options = {"dropout_p": dropout_p, "is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa}
    out: Tensor = _FusedAttention.apply(options, *tensors)  # type: ignore[no-untyped-call]
    return out


class _FusedAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, options: dict[str, Any], *tensors: Tensor) -> Tensor:
        ctx.options = options
        ctx.save_for_backward(*tensors)
        return _on_device(_attention([_unwrap(x) for x in tensors], options))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        with torch.enable_grad():
            inside = [_unwrap(x.detach()) for x in ctx.saved_tensors]
            inputs = [x.detach().requires_grad_(x.dtype.is_floating_point) for x in inside]
            out = _attention(inputs, ctx.options)
        wanted = [x for x in inputs if x.requires_grad]
        gradients = iter(torch.autograd.grad(out, wanted, _unwrap(grad)))
        return None, *(_on_device(next(gradients)) if x.requires_grad else None for x in inputs)


def _attention(tensors: list[Tensor], options: dict[str, Any]) -> Tensor:
    with torch._C.DisableTorchFunction(), torch.utils._mode_utils.no_dispatch():
        return F.scaled_dot_product_attention(*tensors[:3], *tensors[3:], **options)


def _on_device(x: Tensor) -> Tensor:
    return SimulatedTensor(x)


def _register() -> None:
    """Register the device, for the whole process; nothing changes for tensors on the CPU.

    autograd counts the devices at its first backward pass, so this must come before: when pytest imports the tests.
    """
    from torch.utils import backend_registration as registration

    if not hasattr(registration, "_setup_privateuseone_for_python_backend"):
        pytest.skip(f"torch {torch.__version__} cannot register a device in Python", allow_module_level=True)

    class Hook(registration._DummyPrivateUse1Hook):  # type: ignore[misc]
        def is_available(self) -> bool:
            return False  # torch.accelerator must not select the simulated device

    module: Any = ModuleType("torch.sim")
    module.is_available = lambda: False
    module.device_count = lambda: 1
    module.current_device = lambda: 0
    module._is_in_bad_fork = lambda: False
    module.manual_seed_all = lambda seed: None
    module.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]
    registration._setup_privateuseone_for_python_backend(rename="sim", backend_module=module, hook=Hook())


_register()


def _to_device_after(create: Any) -> Any:
    """Return torch.tensor or torch.as_tensor with support for the device, which they do not dispatch to."""

    def created(data: Any, *, dtype: Any = None, device: Any = None, **options: Any) -> Tensor:
        if device is None or torch.device(device).type != "sim":
            x: Tensor = create(data, dtype=dtype, device=device, **options)
            return x
        if isinstance(data, Tensor):
            return data.to(device, dtype or data.dtype)
        return create(data, dtype=dtype).to(device).requires_grad_(options.get("requires_grad", False))  # type: ignore[no-any-return]

    return created


@contextmanager
def simulated(*, float64: bool = True) -> Iterator[Device]:
    """Run the block with the simulated device; `float64=False` refuses that dtype, as MPS does."""
    device = Device(float64=float64)
    _devices.append(device)
    patches = [patch.object(torch, name, _to_device_after(getattr(torch, name))) for name in ("tensor", "as_tensor")]
    try:
        with patches[0], patches[1], _BeforeDispatch(), _Factories():
            yield device
    finally:
        _devices.pop()


def send(*tensors: Tensor) -> Iterable[Tensor]:
    """Return copies of CPU tensors on the simulated device."""
    return tuple(x.to("sim") for x in tensors)
