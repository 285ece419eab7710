"""One torch function that ran: its arguments and its result, read by meaning."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import MethodWrapperType
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from regard.watching.readers.eager.function_sets import DIVISIONS, KEEP_SCALE, MULTIPLICATIONS

NUMBERS, SEQUENCES = (int, float), (tuple, list)  # building a union of types takes longer than the test


@dataclass(slots=True)
class FunctionCall:
    """A torch function, its arguments and its result."""

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    out: Any

    @property
    def name(self) -> str:
        return getattr(self.func, "__name__", str(self.func))

    @property
    def is_attribute(self) -> bool:
        """Whether an attribute of a tensor was read, such as x.mT."""
        return type(self.func) is MethodWrapperType and self.name == "__get__"

    def argument(self, i: int, name: str, default: Any = None) -> Any:
        """Return an argument by position or name."""
        return self.kwargs.get(name, self.args[i] if len(self.args) > i else default)

    def tensors(self) -> Iterator[Tensor]:
        """Yield the tensors among the arguments, also those in lists."""
        for x in (*self.args, *self.kwargs.values()) if self.kwargs else self.args:
            if isinstance(x, Tensor):
                yield x
            elif type(x) in SEQUENCES:
                for y in x:
                    if isinstance(y, Tensor):
                        yield y

    def outputs(self) -> Iterable[Any]:
        """Return the parts of the result: one tensor, or those of a tuple."""
        return [self.out] if isinstance(self.out, Tensor) else self.out if isinstance(self.out, SEQUENCES) else []

    def weight(self) -> Tensor:
        """Return the weight of F.linear or a convolution."""
        weight: Tensor = self.kwargs["weight"] if "weight" in self.kwargs else self.args[1]
        return weight

    def softmax_axis(self, x: Tensor) -> int:
        """Return the axis of a softmax of x, counted from the end."""
        dim = self.argument(1, "dim")
        if not isinstance(dim, int):  # torch's old default
            dim = 0 if x.dim() in (0, 1, 3) else 1
        return dim if dim < 0 else dim - x.dim()

    def normalizes_sum(self) -> bool:
        """Whether F.normalize divides by the sum of absolute values."""
        return bool(self.argument(1, "p", 2) == 1)

    def normalizes_other_axes(self, axis: int | None) -> bool:
        """Whether F.layer_norm normalizes the last axes of its argument, and not this one."""
        sizes = self.argument(1, "normalized_shape", ()) if self.func is F.layer_norm else ()
        return axis is not None and 0 < len(sizes) < -axis

    def normalized_axis(self, x: Tensor) -> int:
        """Return the axis of F.normalize, counted from the end."""
        dim: int = self.argument(2, "dim", 1)
        return dim if dim < 0 else dim - x.dim()

    def reduced_axes(self, x: Tensor) -> list[int]:
        """Return the axes that a reduction sums over, counted from the end."""
        dim = self.kwargs.get("dim", self.kwargs.get("axis", self.args[1] if len(self.args) > 1 else None))
        dims = [dim] if isinstance(dim, int) else list(dim) if isinstance(dim, list | tuple) and dim else range(x.dim())
        return [d if d < 0 else d - x.dim() for d in dims]

    def power(self) -> tuple[Any, Any]:
        """Return base and exponent of a power."""
        base, exponent = self.argument(0, "self"), self.argument(1, "exponent")
        return (exponent, base) if self.func is Tensor.__rpow__ else (base, exponent)

    def drops(self) -> bool:
        """Whether a dropout function changes its argument."""
        return bool(self.argument(1, "p", True) and self.argument(2, "training", True))

    def factor(self, x: Tensor, scale: float | None) -> float | None:
        """Return the factor of scores after the function; None if it is not one number."""
        if scale is None or self.func in KEEP_SCALE or self.is_attribute:
            return scale
        other = next((y for y in (*self.args, self.kwargs.get("other")) if y is not x and y is not None), None)
        value = number(other)
        if value is not None and self.func in MULTIPLICATIONS:
            return scale * value
        return scale / value if value and self.func in DIVISIONS and self.args[0] is x else None


def number(x: Any) -> float | None:
    """Return a number, or the only element of a tensor on the CPU."""
    if isinstance(x, NUMBERS):
        return float(x)
    if isinstance(x, Tensor) and x.numel() == 1 and x.device.type == "cpu" and type(x) in (Tensor, nn.Parameter):
        return float(x.detach())
    return None
