"""What counts as having mastered attention: four things, each of them done and not only read.

Drawn: the diagram of self-attention put together. Computed: drills of level 3 and above done by hand without a
mistake. Written: both core exercises passed. Said: the questions of an interview answered at ease.
"""

from dataclasses import dataclass

from regard.languages import Bilingual, bilingual
from regard.learn.cards.card import all_cards
from regard.learn.cards.spaced_repetition import Deck
from regard.learn.diagram import DIAGRAMS
from regard.learn.progress import Progress

CORE_EXERCISES = ("self-attention", "multi-head")  # folders of exercises, without their number
HAND_DRILL_LEVEL = 3
HAND_DRILLS = 3  # different kinds of that level or above, each passed without a mistake
MASTERED_SHARE = 0.8  # of all cards


@dataclass(frozen=True)
class ChecklistItem:
    """One line of the checklist: how far it is, and whether that is enough."""

    name: str
    title: Bilingual
    have: int
    need: int

    @property
    def done(self) -> bool:
        """Whether enough was done."""
        return self.have >= self.need


def checklist(state: Progress) -> list[ChecklistItem]:
    """How far the learner is with each of the four.

    >>> from pathlib import Path
    >>> [item.done for item in checklist(Progress(Path("nowhere.json")))]
    [False, False, False, False]
    """
    drawn = sum(bool(state.flow.get(name, {}).get("done")) for name in DIAGRAMS)
    kinds = {
        name.partition(":")[0]
        for name, entry in state.drills.items()
        if entry.get("passed") and entry.get("level", 0) >= HAND_DRILL_LEVEL
    }
    written = {name.lstrip("0123456789-") for name, entry in state.exercises.items() if _passed(entry)} & set(
        CORE_EXERCISES
    )
    deck = Deck(all_cards(), state.cards)
    enough = -(-len(deck.cards) * int(MASTERED_SHARE * 100) // 100)
    return [
        ChecklistItem(
            "flow", bilingual("Put the diagrams of attention together", "拼出注意力的计算流程图"), drawn, len(DIAGRAMS)
        ),
        ChecklistItem(
            "hand",
            bilingual(
                f"Compute by hand: pass {HAND_DRILLS} kinds of drills of level {HAND_DRILL_LEVEL} or above",
                f"手算：{HAND_DRILLS} 种 {HAND_DRILL_LEVEL} 级以上的练习全对",
            ),
            len(kinds),
            HAND_DRILLS,
        ),
        ChecklistItem(
            "exercises",
            bilingual(
                "Pass both core exercises: self-attention and multi-head", "通过两道核心编程题：自注意力与多头注意力"
            ),
            len(written),
            len(CORE_EXERCISES),
        ),
        ChecklistItem(
            "cards",
            bilingual(f"Be at ease with {MASTERED_SHARE:.0%} of the cards", f"{MASTERED_SHARE:.0%} 的面试题能从容作答"),
            deck.ease().at_ease,
            enough,
        ),
    ]


def _passed(entry: object) -> bool:
    return isinstance(entry, dict) and bool(entry.get("passed"))
