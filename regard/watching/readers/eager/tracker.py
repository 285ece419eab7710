"""The tensors that the reader of eager attention follows, and the softmaxes that it has met."""

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from regard.watching.readers.eager.trails import WRONG_AXIS, Softmax, Trail


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
    composed: set[Any] = field(default_factory=set)  # modules that multiply the results of several softmaxes
    suspects: dict[Any, str] = field(default_factory=dict)  # attention modules and what they did instead of a softmax
    trails: dict[int, tuple[Any, Trail]] = field(default_factory=dict)  # by id of the tensor, with a weak reference

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
                reasons[softmax.module] = (
                    "it multiplies the results of several softmaxes, an approximation of attention"
                )
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
        return reasons | {name: text for name, text in self.suspects.items() if name not in recorded | reasons.keys()}

    def withdrawn(self) -> set[Any]:
        """Return the modules whose calls are parts of something else and must not be shown."""
        return self.composed | {softmax.module for softmax in self.softmaxes if softmax.partial_products > 1}
