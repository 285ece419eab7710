"""A mock interview: ten questions across the topics, a timer on each, graded by the learner, summed up by topic."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from regard.learn.cards.card import Card
from regard.learn.cards.spaced_repetition import GRADES, Grade

QUESTION_COUNT = 10
SECONDS_PER_QUESTION = 120.0  # for one question

POINTS: dict[Grade, int] = {grade: points for points, grade in enumerate(GRADES)}  # again 0 … easy 3


@dataclass(frozen=True)
class InterviewAnswer:
    """One question of the interview: how it went by the learner's own judgement, and how long it took."""

    card: Card
    grade: Grade
    seconds: float


@dataclass(frozen=True)
class TopicResult:
    """The answers of one topic: how many, how many were good or easy, their mean seconds, how many took too long."""

    topic: str
    asked: int
    good: int
    seconds: float
    late: int


def draw_questions(cards: Sequence[Card], seed: int, questions: int = QUESTION_COUNT) -> list[Card]:
    """Questions across the topics, the same for the same seed; no topic twice before each had one.

    >>> from regard.learn.cards.card import all_cards
    >>> drawn = draw_questions(all_cards(), seed=1)
    >>> len(drawn), len({card.topic for card in drawn})
    (10, 10)
    """
    if not 1 <= questions <= len(cards):
        raise ValueError(f"an interview has 1 to {len(cards)} questions, got {questions}")
    random = Random(seed)
    topics = list(dict.fromkeys(card.topic for card in cards))
    stacks = {topic: [card for card in cards if card.topic == topic] for topic in topics}
    for stack in stacks.values():
        random.shuffle(stack)
    drawn: list[Card] = []
    while len(drawn) < questions:
        random.shuffle(topics)
        drawn += [stacks[topic].pop() for topic in topics if stacks[topic]]
    return drawn[:questions]


def results_by_topic(answers: Sequence[InterviewAnswer], limit: float = SECONDS_PER_QUESTION) -> list[TopicResult]:
    """The answers by topic, the weakest first."""
    by_topic: dict[str, list[InterviewAnswer]] = {}
    for answer in answers:
        by_topic.setdefault(answer.card.topic, []).append(answer)
    rows = [
        (
            sum(POINTS[answer.grade] for answer in group) / len(group),
            TopicResult(
                topic,
                asked=len(group),
                good=sum(POINTS[answer.grade] >= POINTS["good"] for answer in group),
                seconds=sum(answer.seconds for answer in group) / len(group),
                late=sum(answer.seconds > limit for answer in group),
            ),
        )
        for topic, group in by_topic.items()
    ]
    return [row for _, row in sorted(rows, key=lambda pair: pair[0])]
