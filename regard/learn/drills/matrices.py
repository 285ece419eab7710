"""Small matrices of exact numbers: lists of rows, and what attention does with them."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from regard.learn.drills.exact_numbers import Exact, exact, exp, format_number

Matrix = list[list[Exact | float]]


def matrix(rows: Sequence[Sequence[int | Fraction | Exact]]) -> Matrix:
    """A matrix of whole numbers, fractions and logarithms."""
    return [[x if isinstance(x, Exact) else exact(x) for x in row] for row in rows]


def transposed(a: Matrix) -> Matrix:
    """Rows become columns."""
    return [list(column) for column in zip(*a, strict=True)]


def product(a: Matrix, b: Matrix) -> Matrix:
    """The matrix product.

    >>> [format_number(x) for x in product(matrix([[1, 2]]), matrix([[3], [4]]))[0]]
    ['11']
    """
    if len(a[0]) != len(b):
        raise ValueError(f"{len(a[0])} columns do not fit {len(b)} rows")
    return [[total([x * y for x, y in zip(row, column, strict=True)]) for column in zip(*b, strict=True)] for row in a]


def total(numbers: Sequence[Exact | float]) -> Exact | float:
    """The sum, exact where all are."""
    result: Exact | float = exact(0)
    for number in numbers:
        result = result + number
    return result


def each(a: Matrix, function: "Callable[[Exact | float], Exact | float]") -> Matrix:
    """A function of every cell."""
    return [[function(x) for x in row] for row in a]


def where(visible: Matrix, a: Matrix, otherwise: Exact | float) -> Matrix:
    """a where visible is 1, another number where it is 0."""
    return [
        [x if v == exact(1) else otherwise for v, x in zip(*rows, strict=True)] for rows in zip(visible, a, strict=True)
    ]


def sums(a: Matrix) -> Matrix:
    """The sum of each row, as a column."""
    return [[total(row)] for row in a]


def divided(a: Matrix, by: Matrix) -> Matrix:
    """Each row divided by its number; a row of nothing stays nothing, as an empty row's weights do."""
    return [[exact(0) if d == exact(0) == x else x / d for x in row] for row, [d] in zip(a, by, strict=True)]


def softmax(scores: Matrix) -> Matrix:
    """exp(s) / Σ exp(s) in each row; by hand, small scores need no maximum subtracted."""
    exponentials = each(scores, exp)
    return divided(exponentials, sums(exponentials))


def columns(a: Matrix, start: int, stop: int) -> Matrix:
    """Some columns."""
    return [row[start:stop] for row in a]


def beside(a: Matrix, b: Matrix) -> Matrix:
    """Two matrices side by side."""
    return [[*left, *right] for left, right in zip(a, b, strict=True)]


def close(a: Matrix, b: Matrix) -> bool:
    """Equal where both are exact, to 1 in 100 where one was rounded."""
    return not different(a, b)


def different(a: Matrix, b: Matrix) -> list[tuple[int, int]]:
    """The cells in which two matrices of one shape differ."""
    return [
        (i, j)
        for i, rows in enumerate(zip(a, b, strict=True))
        for j, (x, y) in enumerate(zip(*rows, strict=True))
        if not _same(x, y)
    ]


def shape(a: Matrix) -> tuple[int, int]:
    """Rows and columns."""
    return len(a), len(a[0])


def format_matrix(a: Matrix) -> str:
    """The matrix as text, its columns in line.

    >>> print(format_matrix(matrix([[1, Fraction(1, 2)], [10, 0]])))
    [  1  1/2 ]
    [ 10    0 ]
    """
    cells = [[format_number(x) for x in row] for row in a]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]
    return "\n".join(f"[ {line} ]" for line in lines)


def format_answer(a: Matrix) -> str:
    """The matrix as one types it.

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
