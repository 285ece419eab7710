"""Spaced repetition of cards with FSRS, a scheduler that models the learner's memory.

Each card has a difficulty and a stability S, the number of days after which it is recalled with probability 0.9. A
grade changes both, and the card is due again when its recall probability falls to 0.9. The package `fsrs` computes
this; this module holds the deck, the order of the cards, and the rule when a card counts as mastered. The caller passes
the time, and intervals have no random part: the same grades at the same times give the same deck.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from regard.learn.cards.card import Card

if TYPE_CHECKING:
    import fsrs

Grade = Literal["again", "hard", "good", "easy"]
GRADES: tuple[Grade, ...] = ("again", "hard", "good", "easy")

MASTERED_DAYS = 7.0  # smallest stability of a mastered card, in days


@dataclass(frozen=True)
class MasteryCount:
    """Numbers of cards: all, reviewed at least once, and mastered."""

    cards: int
    reviewed: int
    mastered: int

    @property
    def share(self) -> float:
        """Return the fraction of mastered cards."""
        return self.mastered / self.cards if self.cards else 0.0


class Deck:
    """Cards and their review history.

    cards       the cards to learn
    memory      review history: maps a card's id to JSON values; changed in place

    >>> from regard.learn.cards.card import all_cards
    >>> noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    >>> deck = Deck(all_cards(), {})
    >>> card = deck.next(noon)
    >>> deck.grade(card.id, "easy", noon) - noon
    datetime.timedelta(days=8)
    >>> deck.next(noon) == card, deck.mastery().mastered
    (False, 1)
    """

    def __init__(self, cards: Sequence[Card], memory: dict[str, Any]) -> None:
        self.cards = {card.id: card for card in cards}
        self.memory = memory

    def due(self, now: datetime) -> list[Card]:
        """Return the reviewed cards that are due, the one with the lowest recall probability first."""
        reviewed = [(self._state(id), card) for id, card in self.cards.items() if id in self.memory]
        due = [(state, card) for state, card in reviewed if state.due <= _utc(now)]
        recall = _scheduler().get_card_retrievability
        return [card for _, card in sorted(due, key=lambda pair: (recall(pair[0], _utc(now)), pair[0].due))]

    def new(self) -> list[Card]:
        """Return the cards never reviewed: the first card of each topic, then the second of each, and so on."""
        places: dict[str, int] = {}
        order: list[tuple[int, Card]] = []
        for card in self.cards.values():
            places[card.topic] = places.get(card.topic, -1) + 1
            if card.id not in self.memory:
                order.append((places[card.topic], card))
        return [card for _, card in sorted(order, key=lambda pair: pair[0])]

    def next(self, now: datetime) -> Card | None:
        """Return the card to ask now: a due card, else a new one, else None."""
        return next(iter([*self.due(now), *self.new()]), None)

    def grade(self, id: str, grade: Grade, now: datetime) -> datetime:
        """Store a grade and return when the card is due again."""
        import fsrs

        if id not in self.cards:
            raise ValueError(f"there is no card {id!r} in this deck of {len(self.cards)}")
        if grade not in GRADES:
            raise ValueError(f"a grade is one of {', '.join(GRADES)}, got {grade!r}")
        moment = _utc(now)
        before = self._state(id) if id in self.memory else fsrs.Card(card_id=0, due=moment)
        after, _ = _scheduler().review_card(before, fsrs.Rating(GRADES.index(grade) + 1), moment)
        entry = dict(after.to_dict())
        del entry["card_id"]
        reviews = self.memory.get(id, {}).get("reviews", 0) + 1
        self.memory[id] = {**entry, "state": after.state.name.lower(), "grade": grade, "reviews": reviews}
        return after.due

    def is_mastered(self, id: str) -> bool:
        """Return whether the last answer was right and the stability is large enough for a mastered card."""
        entry = self.memory.get(id)
        return entry is not None and entry["grade"] != "again" and (self._state(id).stability or 0) >= MASTERED_DAYS

    def mastery(self, topic: str | None = None) -> MasteryCount:
        """Return how many cards of a topic, or of all topics, are mastered."""
        ids = [id for id, card in self.cards.items() if topic in (None, card.topic)]
        return MasteryCount(len(ids), sum(id in self.memory for id in ids), sum(map(self.is_mastered, ids)))

    def mastery_by_topic(self) -> dict[str, MasteryCount]:
        """Return, for every topic, how many of its cards are mastered."""
        return {topic: self.mastery(topic) for topic in dict.fromkeys(card.topic for card in self.cards.values())}

    def due_at(self, id: str) -> datetime:
        """Return when a reviewed card is due."""
        return self._state(id).due

    def next_due(self) -> datetime | None:
        """Return when the first of the reviewed cards is due; None if no card was reviewed."""
        return min((self._state(id).due for id in self.cards if id in self.memory), default=None)

    def _state(self, id: str) -> "fsrs.Card":
        return _read_entry(id, self.memory[id])


def _read_entry(id: str, entry: Mapping[str, Any]) -> "fsrs.Card":
    import fsrs

    try:
        state = fsrs.State[str(entry["state"]).capitalize()]
        stability, difficulty = float(entry["stability"]), float(entry["difficulty"])
        due, last = (datetime.fromisoformat(entry[name]).astimezone(UTC) for name in ("due", "last_review"))
        step = None if entry["step"] is None else int(entry["step"])
        if not (0 < stability < math.inf and 0 < difficulty < math.inf):
            raise ValueError(f"stability {stability}, difficulty {difficulty}")
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ValueError(f"the entry of the card {id!r} cannot be read ({error!r}); delete it in learn.json") from None
    return fsrs.Card(0, state, step, stability, difficulty, due, last)


@lru_cache(maxsize=1)
def _scheduler() -> "fsrs.Scheduler":
    import fsrs

    return fsrs.Scheduler(enable_fuzzing=False, learning_steps=[timedelta(minutes=10)])


def _utc(now: datetime) -> datetime:
    if now.tzinfo is None:
        raise ValueError(f"the time must have a time zone, got {now.isoformat()}; use datetime.now(UTC)")
    return now.astimezone(UTC)
