"""What is known about the tensors between scores and the output of eager attention."""

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

Stage = Literal[
    "scaled", "constant", "pairs", "scores", "exponentials", "sum", "log weights", "weights", "weighted exponentials",
    "weighted values", "unnormalized output", "output",
]  # fmt: skip

WRONG_AXIS = "its softmax was not multiplied with values over the axis that it normalizes"


@dataclass(eq=False)
class Scores:
    """What is known about scores, shared by everything computed from them."""

    learned: bool = False  # whether they are the product with a parameter
    over_parameter: bool = False  # whether a softmax was taken over the axis of the parameter: not attention
    width: int | None = None  # number of features over which queries and keys were multiplied
    biased: bool = False  # whether numbers were added that do not only hide keys; examined for unscaled scores only


PLAIN = Scores()  # of two activations; shared, since nothing about them changes


@dataclass
class Softmax:
    """One softmax of scores that ran, and the products with values that followed it."""

    module: Any
    shape: tuple[int, ...]
    size: int = 0  # number of keys
    scores: Scores = PLAIN
    scale: float | None = None
    products: int = 0
    partial_products: int = 0  # products that sum over a part of the softmax axis only
    lost_in: str = ""  # the function in which its axis could not be followed
    own_keys: bool = False  # whether every query has keys of its own
    merged: bool = False  # whether the result became part of the weights of another softmax
    queries_summed: bool = False  # whether the model sums over the queries next: linear attention
    wrong_axis: bool = False  # whether the product with values sums over an axis that the softmax does not normalize

    @property
    def is_attention(self) -> bool:
        """Whether the softmax is over keys; for learned queries this is known only when the model has run."""
        return not (self.scores.over_parameter or self.queries_summed)


@dataclass(slots=True)
class Trail:
    """What is known about a tensor on the way from scores to the product with values."""

    stage: Stage
    axis: int | None = None  # the axis of the keys, counted from the end; for scores that of the parameter
    value: Tensor | None = None  # what the tensor would be without dropout; None: itself, which must not be held
    softmax: Softmax | None = None
    scores: Scores = PLAIN
    scale: float | None = 1.0  # the factor by which a scaled activation or scores were multiplied
    inverse: bool = False  # for "sum": whether it is the reciprocal
    product: "Weighing | None" = None  # for "unnormalized output" and "weighted values"
    factors: tuple[Tensor, Tensor] | None = None  # for "weighted exponentials": exponentials and values
    fold: "Fold | None" = None  # for "output"


@dataclass
class Fold:
    """An axis that may hold batch and heads together, and the two sizes into which the model splits it later."""

    size: int
    split: tuple[int, int] | None = None


@dataclass
class Layout:
    """How the axes of a product are ordered in the arranged weights (…, L, S), values and output.

    Arranged tensors are the permuted ones with axes of size 1 added and neighbouring axes joined.
    """

    weights: Tensor  # what the model multiplies with the values
    order: list[int]
    before_dropout: Tensor | None  # the weights before dropout, if that was applied
    values: Tensor  # what it multiplies them with
    values_order: list[int]
    arranged_values: Tensor
    output_order: list[int] | None


@dataclass
class Weighing:
    """Weights (…, L, S) of a product with values; None for what the functions of the model do not show."""

    weights: Tensor
    softmax: Softmax
    values: Tensor | None = None  # (…, S, d_v), broadcasts with the weights
    output: Tensor | None = None  # (…, L, d_v): the product; with dropout it is not weights @ values
    scale: float | None = None  # the factor of the scores between the product of queries and keys and the softmax
    fold: Fold | None = None  # where the weights have one axis besides queries and keys
    dropout: bool = False  # whether the output was computed with dropout
    layout: Layout | None = None  # of products of weights with values
