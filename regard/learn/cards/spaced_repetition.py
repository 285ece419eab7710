"""When to ask a card again: FSRS, the scheduler that models what a learner still remembers.

Each card has a stability S, the days after which it is recalled with probability 0.9, and a difficulty; a grade
changes both, and the card is due again when its recall falls to 0.9. `fsrs` does the arithmetic; here are the deck,
the order in which cards come, and what counts as being at ease with one. The time is always given, never asked of
the machine, and the intervals have no random part: the same grades at the same times give the same deck.
"""

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

AT_EASE_DAYS = 7.0  # a card that will still be known in a week is known in the interview


@dataclass(frozen=True)
class MasteryCount:
    """How a learner stands with some cards: all, seen at least once, and at ease with."""

    cards: int
    seen: int
    at_ease: int

    @property
    def share(self) -> float:
        """Of the cards, those at ease with."""
        return self.at_ease / self.cards if self.cards else 0.0


class Deck:
    """Cards and what is remembered of each: `memory` maps a card's id to plain values, and is changed in place.

    >>> from regard.learn.cards.card import all_cards
    >>> noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    >>> deck = Deck(all_cards(), {})
    >>> card = deck.next(noon)
    >>> deck.grade(card.id, "easy", noon) - noon
    datetime.timedelta(days=8)
    >>> deck.next(noon) == card, deck.ease().at_ease
    (False, 1)
    """

    def __init__(self, cards: Sequence[Card], memory: dict[str, Any]) -> None:
        self.cards = {card.id: card for card in cards}
        self.memory = memory

    def due(self, now: datetime) -> list[Card]:
        """Cards seen before whose time has come, the longest overdue for its stability first."""
        known = [(self._remembered(id), card) for id, card in self.cards.items() if id in self.memory]
        waiting = [(r, card) for r, card in known if r.due <= _utc(now)]
        recall = _scheduler().get_card_retrievability
        return [card for r, card in sorted(waiting, key=lambda pair: (recall(pair[0], _utc(now)), pair[0].due))]

    def new(self) -> list[Card]:
        """Cards never seen, a topic after the other: the first of each, then the second of each, ..."""
        places: dict[str, int] = {}
        order: list[tuple[int, Card]] = []
        for card in self.cards.values():
            places[card.topic] = places.get(card.topic, -1) + 1
            if card.id not in self.memory:
                order.append((places[card.topic], card))
        return [card for _, card in sorted(order, key=lambda pair: pair[0])]

    def next(self, now: datetime) -> Card | None:
        """The card to ask now: one that is due, else a new one, else none."""
        return next(iter([*self.due(now), *self.new()]), None)

    def grade(self, id: str, grade: Grade, now: datetime) -> datetime:
        """Remember how it went, and say when the card is due again."""
        import fsrs

        if id not in self.cards:
            raise ValueError(f"there is no card {id!r} in this deck of {len(self.cards)}")
        if grade not in GRADES:
            raise ValueError(f"a grade is one of {', '.join(GRADES)}, got {grade!r}")
        moment = _utc(now)
        before = self._remembered(id) if id in self.memory else fsrs.Card(card_id=0, due=moment)
        after, _ = _scheduler().review_card(before, fsrs.Rating(GRADES.index(grade) + 1), moment)
        kept = dict(after.to_dict())
        del kept["card_id"]
        reviews = self.memory.get(id, {}).get("reviews", 0) + 1
        self.memory[id] = {**kept, "state": after.state.name.lower(), "grade": grade, "reviews": reviews}
        return after.due

    def at_ease(self, id: str) -> bool:
        """Whether the last answer was right and should still be in a week."""
        entry = self.memory.get(id)
        return entry is not None and entry["grade"] != "again" and (self._remembered(id).stability or 0) >= AT_EASE_DAYS

    def ease(self, topic: str | None = None) -> MasteryCount:
        """How the learner stands with a topic, or with all cards."""
        ids = [id for id, card in self.cards.items() if topic in (None, card.topic)]
        return MasteryCount(len(ids), sum(id in self.memory for id in ids), sum(map(self.at_ease, ids)))

    def summary_by_topic(self) -> dict[str, MasteryCount]:
        """The same, for every topic."""
        return {topic: self.ease(topic) for topic in dict.fromkeys(card.topic for card in self.cards.values())}

    def due_at(self, id: str) -> datetime:
        """When a card that was seen comes again."""
        return self._remembered(id).due

    def next_due(self) -> datetime | None:
        """When the first of the cards seen comes again."""
        return min((self._remembered(id).due for id in self.cards if id in self.memory), default=None)

    def _remembered(self, id: str) -> "fsrs.Card":
        return _from_plain(id, self.memory[id])


def _from_plain(id: str, entry: Mapping[str, Any]) -> "fsrs.Card":
    import fsrs

    try:
        state = fsrs.State[str(entry["state"]).capitalize()]
        stability, difficulty = float(entry["stability"]), float(entry["difficulty"])
        due, last = (datetime.fromisoformat(entry[name]).astimezone(UTC) for name in ("due", "last_review"))
        step = None if entry["step"] is None else int(entry["step"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(
            f"what is kept of the card {id!r} cannot be read ({error!r}); remove that entry from the file"
        ) from None
    return fsrs.Card(0, state, step, stability, difficulty, due, last)


@lru_cache(maxsize=1)
def _scheduler() -> "fsrs.Scheduler":
    import fsrs

    return fsrs.Scheduler(enable_fuzzing=False, learning_steps=[timedelta(minutes=10)])


def _utc(now: datetime) -> datetime:
    if now.tzinfo is None:
        raise ValueError(f"the time must say its zone, got {now.isoformat()} without; use datetime.now(UTC)")
    return now.astimezone(UTC)
