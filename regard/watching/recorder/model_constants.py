"""Which tensors are parameters or buffers of the watched model."""

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from regard.watching.call_inputs import storage_id
from regard.watching.readers.wrapped_tensors import unwrap


class ModelConstants:
    """The memory of the parameters and buffers of a model, computed when it is needed first."""

    def __init__(self, modules: dict[str, nn.Module]) -> None:
        self.modules = modules
        self.constants: set[int | None] | None = None  # memory of parameters and buffers; None: not computed yet
        self.buffers: set[int | None] = set()
        owners = (
            module._parameters for module in modules.values() if any(x is not None for x in module._parameters.values())
        )
        self.owner: dict[str, Any] = next(owners, {})  # the parameters of the first module that has any
        self.first_parameters: Any = tuple(map(id, self.owner.values()))

    def is_constant(self, x: Tensor) -> bool:
        """Whether a tensor is a parameter or a buffer, or a view of one."""
        if type(x) is nn.Parameter:
            return True
        return storage_id(unwrap(x)) in self.storages()

    def storages(self) -> set[int | None]:
        """Return what identifies the memory of all parameters and buffers."""
        now = tuple(map(id, self.owner.values()))
        if self.constants is None or now != self.first_parameters:  # torch.func.functional_call exchanges parameters
            self.first_parameters = now
            self.constants, self.buffers = _storages(self.modules.values())
        return self.constants

    def is_buffer(self, x: Tensor) -> bool:
        """Whether a tensor is a buffer, or a view of one."""
        self.storages()
        return storage_id(unwrap(x)) in self.buffers


def _storages(modules: Iterable[nn.Module]) -> tuple[set[int | None], set[int | None]]:
    """Return what identifies the memory of all parameters and buffers, and that of the buffers."""
    parameters, buffers = set(), set()
    for module in modules:
        parameters |= {storage_id(unwrap(x)) for x in module._parameters.values() if x is not None}
        buffers |= {storage_id(unwrap(x)) for x in module._buffers.values() if x is not None}
    return (parameters | buffers) - {None}, buffers - {None}
