"""The checklist of mastery: four tasks that the learner must have completed.

Assemble the diagrams, calculate drills of level 3 or above by hand without a mistake, pass the core exercises, and
master most interview cards.
"""

import math
from dataclasses import dataclass

from regard.languages import Bilingual, bilingual
from regard.learn.cards.card import all_cards
from regard.learn.cards.spaced_repetition import Deck
from regard.learn.diagram import DIAGRAMS
from regard.learn.progress import Progress

CORE_EXERCISES = ("self-attention", "multi-head", "layer-class")  # names of exercises, without their number
HAND_DRILL_LEVEL = 3
HAND_DRILLS = 3  # number of kinds of drills, of HAND_DRILL_LEVEL or above, that must be passed
MASTERED_PERCENT = 80  # percentage of all cards that must be mastered
TITLES = {
    "flow": bilingual("Assemble the diagrams of attention", "拼出注意力的计算流程图"),
    "hand": bilingual(
        f"Calculate by hand: pass {HAND_DRILLS} kinds of drills of level {HAND_DRILL_LEVEL} or above",
        f"手算：{HAND_DRILLS} 种 {HAND_DRILL_LEVEL} 级以上的题目全对",
    ),
    "exercises": bilingual(
        "Pass the core exercises: self-attention, multi-head, and the layer as a class",
        "通过三道核心编程题：自注意力、多头注意力、写成一个类",
    ),
    "cards": bilingual(f"Master {MASTERED_PERCENT} % of the cards", f"掌握 {MASTERED_PERCENT}% 的面试卡片"),
}


@dataclass(frozen=True)
class ChecklistItem:
    """One line of the checklist: how many parts of the task are done, and how many are needed."""

    name: str
    title: Bilingual
    have: int
    need: int

    @property
    def done(self) -> bool:
        """Return whether as many parts are done as are needed."""
        return self.have >= self.need


def checklist(progress: Progress) -> list[ChecklistItem]:
    """Return the four items of the checklist with the learner's progress.

    >>> from pathlib import Path
    >>> [item.done for item in checklist(Progress(Path("nowhere.json")))]
    [False, False, False, False]
    """
    diagrams = sum(bool(progress.flow.get(name, {}).get("done")) for name in DIAGRAMS)
    drill_kinds = {
        name.partition(":")[0]
        for name, entry in progress.drills.items()
        if entry.get("passed") and entry.get("level", 0) >= HAND_DRILL_LEVEL
    }
    passed_exercises = {name.lstrip("0123456789-") for name, e in progress.exercises.items() if e.get("passed")}
    deck = Deck(all_cards(), progress.cards)
    mastery = deck.mastery()
    counts = {  # numbers of parts that are done and that are needed
        "flow": (diagrams, len(DIAGRAMS)),
        "hand": (len(drill_kinds), HAND_DRILLS),
        "exercises": (len(passed_exercises & set(CORE_EXERCISES)), len(CORE_EXERCISES)),
        "cards": (mastery.mastered, math.ceil(mastery.cards * MASTERED_PERCENT / 100)),
    }
    return [ChecklistItem(name, TITLES[name], *count) for name, count in counts.items()]
