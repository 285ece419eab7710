"""Interventions bound to patterns of module paths, and the order in which they apply to a call."""

from dataclasses import dataclass
from typing import Any

from regard.watching.interventions.call_changes import CallChanges, apply_function
from regard.watching.interventions.kinds import INPUTS, Patch
from regard.watching.interventions.selection import Selector


@dataclass
class Bound:
    """An intervention, or a function, for the modules that match a pattern."""

    pattern: str
    intervention: Any
    selector: Selector
    calls: int = 0  # number of calls that were changed

    def apply(self, changes: CallChanges) -> None:
        self.calls += 1
        if hasattr(self.intervention, "apply"):
            self.intervention.apply(changes, self.selector)
        else:
            apply_function(changes, self.intervention, self.selector.label)

    @property
    def changes_inputs(self) -> bool:
        return isinstance(self.intervention, Patch) and self.intervention.what in INPUTS


def apply_all(changes: CallChanges, bound: list[Bound]) -> None:
    """Apply interventions: those of q, k and v first, the others in their order."""
    for one in sorted(bound, key=lambda one: not one.changes_inputs):
        one.apply(changes)
