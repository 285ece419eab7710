"""Products of tensors in one form: every axis of every operand and of the result has a label, as in an einsum equation.

Axes with the same label are multiplied elementwise; a label that the result lacks is summed over.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Label = str | int


@dataclass(frozen=True)
class Product:
    """Operands of a product with the labels of their axes, and the labels of the result's axes."""

    operands: Sequence[Tensor]
    labels: Sequence[Sequence[Label]]
    result: Sequence[Label]

    def summed_size(self) -> int | None:
        """Return the size of the axis that is summed over; None if there are several."""
        sizes = {
            label: size
            for x, labels in zip(self.operands, self.labels, strict=True)
            for label, size in zip(labels, x.shape, strict=True)
            if label not in self.result
        }
        return next(iter(sizes.values())) if len(sizes) == 1 else None

    def summed_axes(self, i: int) -> list[int]:
        """Return the axes of an operand that are summed over, counted from the end."""
        labels = self.labels[i]
        return [axis - len(labels) for axis, label in enumerate(labels) if label not in self.result]


def read_product(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Product | None:
    """Return the operands and labels of a call of a product function; None if its form is not known.

    >>> product = read_product(torch.matmul, (torch.zeros(2, 3, 4), torch.zeros(2, 4, 5)), {})
    >>> product.labels, product.result
    ([[-1, 'row', 'sum'], [-1, 'sum', 'column']], [-1, 'row', 'column'])
    """
    try:
        if func is torch.einsum:
            return _einsum(args, kwargs)
        if func is torch.tensordot:
            return _tensordot(*args, **kwargs)
        if func is torch.linalg.multi_dot:
            return _multi_dot(args[0])
        if func is F.linear:
            x, weight = args[0], kwargs["weight"] if "weight" in kwargs else args[1]
            batch: list[Label] = list(range(-x.dim() + 1, 0))
            return Product((x, weight), [[*batch, "sum"], ["column", "sum"]], [*batch, "column"])
        if func in (torch.inner, Tensor.inner):
            left: list[Label] = [f"a{i}" for i in range(args[0].dim() - 1)]
            right: list[Label] = [f"b{i}" for i in range(args[1].dim() - 1)]
            return Product(args[:2], [[*left, "sum"], [*right, "sum"]], [*left, *right])
        names = {"input": 0, "self": 0, "other": 1, "mat2": 1, "batch1": 1, "batch2": 2, "mat1": 1, "mat": 1, "vec": 2}
        operands = [*args, *(kwargs[name] for name in sorted(kwargs, key=lambda n: names.get(n, 9)) if name in names)]
        operands = operands[1:3] if func in WITH_ADDEND else operands[:2]
        a, b = operands if func is not Tensor.__rmatmul__ else reversed(operands)
        return _matmul(a, b) if isinstance(a, Tensor) and isinstance(b, Tensor) else None
    except (KeyError, ValueError, IndexError, TypeError):
        return None


def _matmul(a: Tensor, b: Tensor) -> Product:
    batch_a: list[Label] = list(range(-a.dim() + 2, 0))
    batch_b: list[Label] = list(range(-b.dim() + 2, 0))
    labels_a = [*batch_a, "row", "sum"] if a.dim() > 1 else ["sum"]
    labels_b = [*batch_b, "sum", "column"] if b.dim() > 1 else ["sum"]
    batch = max(batch_a, batch_b, key=len)
    rows, columns = ["row"] if a.dim() > 1 else [], ["column"] if b.dim() > 1 else []
    return Product((a, b), [labels_a, labels_b], [*batch, *rows, *columns])


def _tensordot(a: Tensor, b: Tensor, dims: Any = 2, **_: Any) -> Product:
    if isinstance(dims, int):
        dims = list(range(-dims, 0)), list(range(dims))
    axes_a, axes_b = ([d] if isinstance(d, int) else list(d) for d in dims)
    labels_a: list[Label] = [f"a{i}" for i in range(a.dim())]
    labels_b: list[Label] = [f"b{i}" for i in range(b.dim())]
    for i, j in zip(axes_a, axes_b, strict=True):
        labels_b[j] = labels_a[i]
    result = [x for x in (*labels_a, *labels_b) if not (x in labels_a and x in labels_b)]
    return Product((a, b), [labels_a, labels_b], result)


def _multi_dot(operands: Sequence[Tensor]) -> Product:
    last = len(operands) - 1
    labels: list[list[Label]] = [[i, i + 1] for i in range(len(operands))]
    labels[0], labels[last] = labels[0][-operands[0].dim() :], labels[last][: operands[last].dim()]
    return Product(operands, labels, [*labels[0][:-1], *labels[last][1:]])


def _einsum(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Product | None:
    equation, *operands = args if args else (kwargs["equation"],)
    if not isinstance(equation, str):  # einsum(a, [0, 1], b, [1, 2], [0, 2])
        terms = [equation, *operands]
        operands, lists = terms[: len(terms) // 2 * 2 : 2], [list(x) for x in terms[1::2]]
        result = list(terms[-1]) if len(terms) % 2 else None
        labels: list[list[Label]] = [_expand_ellipsis(x, y.dim()) for x, y in zip(lists, operands, strict=True)]
    else:
        if len(operands) == 1 and isinstance(operands[0], list | tuple):
            operands = list(operands[0])
        left, arrow, right = equation.replace(" ", "").partition("->")
        inputs = [_letters(term) for term in left.split(",")]
        result = _letters(right) if arrow else None
        labels = [_expand_ellipsis(x, y.dim()) for x, y in zip(inputs, operands, strict=True)]
    batch = max(([x for x in term if isinstance(x, int) and x < 0] for term in labels), key=len)
    if result is None:
        flat = [x for term in labels for x in term]
        letters: list[Label] = sorted({x for x in flat if flat.count(x) == 1 and x not in batch}, key=str)
        return Product(operands, labels, [*batch, *letters])
    return Product(operands, labels, [y for x in result for y in (batch if x is ... else [x])])


def _letters(term: str) -> list[Any]:
    return [x for part in term.replace("...", "\0") for x in [... if part == "\0" else part]]


def _expand_ellipsis(term: list[Any], dim: int) -> list[Label]:
    """Replace an ellipsis by the labels … −2, −1, which are aligned at the end like broadcast axes."""
    return [y for x in term for y in (range(len(term) - 1 - dim, 0) if x is ... else [x])]


WITH_ADDEND = {
    torch.baddbmm, Tensor.baddbmm, Tensor.baddbmm_, torch.addmm, Tensor.addmm, Tensor.addmm_, torch.addbmm,
    Tensor.addbmm, Tensor.addbmm_, torch.addmv, Tensor.addmv, Tensor.addmv_,
}  # fmt: skip
PRODUCTS = {
    torch.matmul, Tensor.matmul, Tensor.__matmul__, Tensor.__rmatmul__, torch.bmm, Tensor.bmm, torch.mm, Tensor.mm,
    torch.mv, Tensor.mv, torch.linalg.matmul, torch.sparse.mm, torch.einsum, torch.tensordot, torch.linalg.multi_dot,
    F.linear, torch.inner, Tensor.inner, *WITH_ADDEND,
}  # fmt: skip
