"""A test case of an exercise."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    """A name in both languages and the arguments of the call.

    Arrays are NumPy arrays in float64; an exercise in torch gets them as float32 tensors. An exercise lists small
    cases first, because the first failing case is shown to the learner.

    >>> import numpy as np
    >>> Case("two scores", "两个分数", (np.zeros(2),)).zh
    '两个分数'
    """

    en: str
    zh: str
    arguments: tuple[Any, ...]


def case(en: str, zh: str, *arguments: Any) -> Case:
    """Return a case with these arguments.

    >>> import numpy as np
    >>> case("two scores", "两个分数", np.zeros(2)).arguments
    (array([0., 0.]),)
    """
    return Case(en, zh, arguments)
