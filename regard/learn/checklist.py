"""What counts as having mastered attention: four things, each of them done and not only read.

Drawn: the diagram of self-attention put together. Computed: drills of level 3 and above done by hand without a
mistake. Written: both core exercises passed. Said: the questions of an interview answered at ease.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from regard.languages import Bilingual, bilingual
from regard.learn.cards.card import all_cards
from regard.learn.cards.spaced_repetition import Deck
from regard.learn.diagram import DIAGRAMS
from regard.learn.drills.drill import Drill, StepResult, passed
from regard.learn.state import State

CORE_EXERCISES = ("self-attention", "multi-head")  # folders of exercises, without their number
HAND_LEVEL = 3
HAND_DRILLS = 3  # different kinds of that level or above, each passed without a mistake
EASE = 0.8  # of all cards


@dataclass(frozen=True)
class Item:
    """One line of the checklist: how far it is, and whether that is enough."""

    name: str
    title: Bilingual
    have: int
    need: int

    @property
    def done(self) -> bool:
        """Whether enough was done."""
        return self.have >= self.need


def checklist(state: State) -> list[Item]:
    """How far the learner is with each of the four.

    >>> from pathlib import Path
    >>> [item.done for item in checklist(State(Path("nowhere.json")))]
    [False, False, False, False]
    """
    drawn = sum(bool(state.flow.get(name, {}).get("done")) for name in DIAGRAMS)
    kinds = {
        name.partition(":")[0]
        for name, entry in state.drills.items()
        if entry.get("passed") and entry.get("level", 0) >= HAND_LEVEL
    }
    written = {name.lstrip("0123456789-") for name, entry in state.exercises.items() if _passed(entry)} & set(
        CORE_EXERCISES
    )
    deck = Deck(all_cards(), state.cards)
    enough = -(-len(deck.cards) * int(EASE * 100) // 100)
    return [
        Item(
            "flow", bilingual("Put the diagrams of attention together", "拼出注意力的计算流程图"), drawn, len(DIAGRAMS)
        ),
        Item(
            "hand",
            bilingual(
                f"Compute by hand: {HAND_DRILLS} kinds of drills of level {HAND_LEVEL} or above without a mistake",
                f"手算：{HAND_DRILLS} 种 {HAND_LEVEL} 级以上的练习全对",
            ),
            len(kinds),
            HAND_DRILLS,
        ),
        Item(
            "exercises",
            bilingual(
                "Pass both core exercises: self-attention and multi-head", "通过两道核心编程题：自注意力与多头注意力"
            ),
            len(written),
            len(CORE_EXERCISES),
        ),
        Item(
            "cards",
            bilingual(f"Be at ease with {EASE:.0%} of the cards", f"{EASE:.0%} 的面试题能从容作答"),
            deck.ease().at_ease,
            enough,
        ),
    ]


def record_drill(state: State, drill: Drill, results: Sequence[StepResult], now: datetime) -> None:
    """Keep how a drill went; one that was passed stays passed."""
    before = state.drills.get(drill.name, {})
    state.drills[drill.name] = {
        "level": drill.level,
        "passed": passed(results) or bool(before.get("passed")),
        "wrong": [result.step for result in results if not result.passed],
        "last": now.isoformat(timespec="seconds"),
    }


def record_flow(state: State, diagram: str, right: bool, now: datetime) -> None:
    """Keep that a diagram was tried, and whether it was ever right."""
    if diagram not in DIAGRAMS:
        raise ValueError(f"the diagrams are {', '.join(DIAGRAMS)}, got {diagram!r}")
    before = state.flow.get(diagram, {})
    state.flow[diagram] = {
        "done": right or bool(before.get("done")),
        "tries": before.get("tries", 0) + 1,
        "last": now.isoformat(timespec="seconds"),
    }


def _passed(entry: object) -> bool:
    return isinstance(entry, dict) and bool(entry.get("passed"))
