"""Small matrices of exact numbers, as lists of rows, and the operations of attention on them."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from regard.learn.drills.exact_numbers import Exact, exact, exp, format_number

Matrix = list[list[Exact | float]]


def matrix(rows: Sequence[Sequence[int | Fraction | Exact]]) -> Matrix:
    """Return the rows as a matrix of `Exact` numbers."""
    return [[x if isinstance(x, Exact) else exact(x) for x in row] for row in rows]


def transpose(a: Matrix) -> Matrix:
    """Return the transpose."""
    return [list(column) for column in zip(*a, strict=True)]


def product(a: Matrix, b: Matrix) -> Matrix:
    """Return the matrix product.

    >>> [format_number(x) for x in product(matrix([[1, 2]]), matrix([[3], [4]]))[0]]
    ['11']
    """
    if len(a[0]) != len(b):
        raise ValueError(f"the inner dimensions must be equal, got {len(a[0])} columns and {len(b)} rows")
    return [[total([x * y for x, y in zip(row, column, strict=True)]) for column in zip(*b, strict=True)] for row in a]


def total(numbers: Sequence[Exact | float]) -> Exact | float:
    """Return the sum of numbers; it is exact if all of them are exact."""
    result: Exact | float = exact(0)
    for number in numbers:
        result = result + number
    return result


def map_cells(a: Matrix, function: "Callable[[Exact | float], Exact | float]") -> Matrix:
    """Return the matrix with the function applied to every cell."""
    return [[function(x) for x in row] for row in a]


def where(visible: Matrix, a: Matrix, otherwise: Exact | float) -> Matrix:
    """Return `a` where `visible` is 1 and `otherwise` where it is 0."""
    return [
        [x if v == exact(1) else otherwise for v, x in zip(*rows, strict=True)] for rows in zip(visible, a, strict=True)
    ]


def sums(a: Matrix) -> Matrix:
    """Return the sum of each row, as a column."""
    return [[total(row)] for row in a]


def divide_rows(a: Matrix, by: Matrix) -> Matrix:
    """Return each row of `a` divided by the number in that row of `by`; 0 / 0 is 0, as for an empty row of weights."""
    return [[exact(0) if d == exact(0) == x else x / d for x in row] for row, [d] in zip(a, by, strict=True)]


def softmax(scores: Matrix) -> Matrix:
    """Return exp(s) / Σ exp(s) of each row; scores are small, so no maximum is subtracted."""
    exponentials = map_cells(scores, exp)
    return divide_rows(exponentials, sums(exponentials))


def columns(a: Matrix, start: int, stop: int) -> Matrix:
    """Return the columns from start to stop."""
    return [row[start:stop] for row in a]


def concatenate(a: Matrix, b: Matrix) -> Matrix:
    """Return the columns of `a` followed by those of `b`."""
    return [[*left, *right] for left, right in zip(a, b, strict=True)]


def close(a: Matrix, b: Matrix) -> bool:
    """Return whether all cells are equal; a rounded number may differ by 1 %."""
    return not differing_cells(a, b)


def differing_cells(a: Matrix, b: Matrix) -> list[tuple[int, int]]:
    """Return the (row, column) of the cells in which two matrices of the same shape differ."""
    return [
        (i, j)
        for i, rows in enumerate(zip(a, b, strict=True))
        for j, (x, y) in enumerate(zip(*rows, strict=True))
        if not _same(x, y)
    ]


def shape(a: Matrix) -> tuple[int, int]:
    """Return the numbers of rows and columns."""
    return len(a), len(a[0])


def format_matrix(a: Matrix) -> str:
    """Return the matrix as text with aligned columns.

    >>> print(format_matrix(matrix([[1, Fraction(1, 2)], [10, 0]])))
    [  1  1/2 ]
    [ 10    0 ]
    """
    cells = [[format_number(x) for x in row] for row in a]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]
    return "\n".join(f"[ {line} ]" for line in lines)


def format_answer(a: Matrix) -> str:
    """Return the matrix in the form in which answers are typed.

    >>> format_answer(matrix([[1, Fraction(1, 2)], [10, 0]]))
    '1, 1/2; 10, 0'
    """
    return "; ".join(", ".join(format_number(x) for x in row) for row in a)


def _same(x: Exact | float, y: Exact | float) -> bool:
    if isinstance(x, Exact) and isinstance(y, Exact):
        return x == y
    if math.isinf(float(x)) or math.isinf(float(y)):
        return float(x) == float(y)
    return abs(float(x) - float(y)) <= 0.01 * max(1.0, abs(float(y)))
