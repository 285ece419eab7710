"""The tensors that the reader of eager attention follows, and the softmaxes that it has met."""

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.watching.readers.eager.trails import WRONG_AXIS, Softmax, Trail
from regard.watching.readers.wrapped_tensors import unwrap

NO_SOFTMAX = "it multiplies values with weights that sum to 1, but that no softmax computed"
SUM_TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-5}  # 1e-2 for types of half precision


@dataclass
class Tracker:
    """Knows the trail of each tensor that is followed, and asks the recorder about the model.

    is_constant     whether a tensor shares the memory of a parameter or buffer
    is_buffer       whether it shares that of a buffer
    module          returns what identifies the module that runs now
    heads           returns the number of heads that a module states, or None
    lengths         returns the first two sizes of the input of the module that runs now
    attends         whether a module is an attention layer by the name of its class
    """

    is_constant: Callable[[Tensor], bool]
    is_buffer: Callable[[Tensor], bool]
    module: Callable[[], Any]
    heads: Callable[[Any], int | None] = lambda module: None
    lengths: Callable[[], tuple[int, ...]] = lambda: ()
    attends: Callable[[Any], bool] = lambda module: False
    softmaxes: list[Softmax] = field(default_factory=list)
    composed: dict[Any, str] = field(default_factory=dict)  # modules whose calls are parts of something else, and why
    suspects: dict[Any, str] = field(default_factory=dict)  # attention modules and what they did instead of a softmax
    trails: dict[int, tuple[Any, Trail]] = field(default_factory=dict)  # by id of the tensor, with a weak reference
    multiplied: tuple[Any, ...] | None = None  # references to the last elementwise product and its factors
    # Modules that multiply values with numbers that passed no softmax, and whether these sum to 1.
    possible_weights: list[tuple[Any, Tensor]] = field(default_factory=list)

    def trail(self, x: Any) -> Trail | None:
        """Return the trail of a tensor; None if it is not followed."""
        entry = self.trails.get(id(x))
        return entry[1] if entry is not None and entry[0]() is x else None

    def trail_of_argument(self, args: tuple[Any, ...], i: int) -> Trail | None:
        return self.trail(args[i]) if len(args) > i and isinstance(args[i], Tensor) else None

    def follow(self, x: Any, trail: Trail) -> None:
        """Follow a tensor from now on, if it holds floating-point numbers."""
        if isinstance(x, Tensor) and x.dtype.is_floating_point:
            key, trails = id(x), self.trails
            trails[key] = weakref.ref(x, lambda _: trails.pop(key, None)), trail

    def is_fixed(self, x: Any) -> bool:
        """Whether a tensor is a parameter or buffer, or was computed from parameters only."""
        if not isinstance(x, Tensor):
            return False
        trail = self.trail(x)
        return trail.stage == "constant" if trail is not None else self.is_constant(x)

    def start_weights(self, weights: Any, axis: int | None, trail: Trail) -> None:
        """Begin to follow the result of a softmax."""
        if isinstance(weights, Tensor) and not trail.scores.over_parameter:
            size = weights.shape[-1 if axis is None else axis]
            softmax = Softmax(self.module(), tuple(weights.shape), size, trail.scores, trail.scale)
            self.softmaxes.append(softmax)
            self.follow(weights, Trail("weights", axis, None, softmax, trail.scores))

    def note_possible_weights(self, x: Tensor, axis: int) -> None:
        """Note that values are multiplied with scores that no softmax normalized; reported if they sum to 1."""
        self.possible_weights.append((self.module(), _sum_to_one(x, axis)))

    def is_normalized(self, x: Tensor, axis: int) -> bool:
        """Whether numbers are not negative and sum to 1 over an axis, except where all are 0."""
        return x.shape[axis] > 1 and x.device.type != "meta" and bool(_sum_to_one(x, axis))

    def lose(self, x: Tensor, trail: Trail, where: str) -> None:
        """Report a softmax written by hand that cannot be followed."""
        self.softmaxes.append(Softmax(self.module(), tuple(x.shape), scores=trail.scores, lost_in=where))

    def suspect(self, what: str) -> None:
        """Note what an attention module did that is not followed; reported if it makes no call."""
        module = self.module()
        if module is not None and self.attends(module):
            self.suspects[module] = what

    def unseen(self, recorded: set[Any]) -> dict[Any, str]:
        """Return the modules that attend but whose weights were not recorded, with the reason."""
        reasons: dict[Any, str] = {}
        for softmax in self.softmaxes:
            if softmax.module is None or softmax.merged or not softmax.is_attention:
                continue
            if softmax.module in self.composed:
                reasons[softmax.module] = self.composed[softmax.module]
            elif softmax.partial_products > 1:
                reasons[softmax.module] = "it attends in pieces (block-sparse), so that keys have no positions"
            elif softmax.own_keys:
                reasons.setdefault(softmax.module, "each query has keys of its own, so that keys have no positions")
            elif softmax.products == 0 and softmax.wrong_axis:
                reasons[softmax.module] = WRONG_AXIS
            elif softmax.products == 0:
                after = f"; its result was lost in {softmax.lost_in}" if softmax.lost_in else ""
                reason = f"a softmax of {softmax.shape} was not multiplied with values{after}"
                reasons.setdefault(softmax.module, reason)
        no_softmax = {name: NO_SOFTMAX for name, one in self.possible_weights if name is not None and one}
        others = (no_softmax | self.suspects).items()
        return reasons | {name: text for name, text in others if name not in recorded | reasons.keys()}

    def withdrawn(self) -> set[Any]:
        """Return the modules whose calls are parts of something else and must not be shown."""
        return self.composed.keys() | {softmax.module for softmax in self.softmaxes if softmax.partial_products > 1}


def _sum_to_one(x: Tensor, axis: int) -> Tensor:
    """Return whether numbers are not negative and sum to 1 over an axis, except where all are 0, as a tensor."""
    with torch._C.DisableTorchFunction():  # recorders around this one must not follow these sums
        x = unwrap(x.detach())
        sums = x.sum(axis, dtype=torch.promote_types(x.dtype, torch.float32))
        ones = (sums - 1).abs() <= SUM_TOLERANCE.get(x.dtype, 1e-2)
        return (ones | (sums == 0)).all() & ones.any() & (x >= 0).all()
