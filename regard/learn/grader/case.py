"""One input that a learner's code is tried on."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    """A name in both languages and the arguments of the call.

    Arrays are NumPy's in float64; an exercise in torch gets them as float32 tensors. Small cases come first in
    an exercise, since the first one that fails is shown to the learner.

    >>> import numpy as np
    >>> Case("two scores", "两个分数", (np.zeros(2),)).zh
    '两个分数'
    """

    en: str
    zh: str
    arguments: tuple[Any, ...]


def case(en: str, zh: str, *arguments: Any) -> Case:
    """A case, with its arguments one after another.

    >>> import numpy as np
    >>> case("two scores", "两个分数", np.zeros(2)).arguments
    (array([0., 0.]),)
    """
    return Case(en, zh, arguments)
