"""A mock interview: questions across the topics, timed, graded by the learner, summarized by topic."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean

from regard.learn.cards.card import Card
from regard.learn.cards.spaced_repetition import GRADES, Grade

QUESTION_COUNT = 10
OPENING_CARDS = 4  # cards at the beginning of the first topic that can open an interview
SECONDS_PER_QUESTION = 120.0  # seconds for one question

POINTS: dict[Grade, int] = {grade: points for points, grade in enumerate(GRADES)}  # again 0 … easy 3


@dataclass(frozen=True)
class InterviewAnswer:
    """One answered question: the card, the grade that the learner chose, and the seconds that the answer took."""

    card: Card
    grade: Grade
    seconds: float


@dataclass(frozen=True)
class TopicResult:
    """Result of one topic: number of questions, of good or easy answers, mean seconds, answers over the time limit."""

    topic: str
    questions: int
    good: int
    seconds: float
    late: int


def draw_questions(cards: Sequence[Card], seed: int, questions: int = QUESTION_COUNT) -> list[Card]:
    """Return questions across the topics, determined by the seed; every topic comes once before any comes twice.

    The first question is one of the first cards of the first topic: what the mechanism is.

    >>> from regard.learn.cards.card import all_cards
    >>> cards = draw_questions(all_cards(), seed=1)
    >>> len(cards), len({card.topic for card in cards})
    (10, 10)
    """
    if not 1 <= questions <= len(cards):
        raise ValueError(f"an interview has 1 to {len(cards)} questions, got {questions}")
    random = Random(seed)
    topics = list(dict.fromkeys(card.topic for card in cards))
    opening = random.choice([card for card in cards if card.topic == topics[0]][:OPENING_CARDS])
    stacks = {topic: [card for card in cards if card.topic == topic] for topic in topics}
    for stack in stacks.values():
        random.shuffle(stack)
    stacks[opening.topic].remove(opening)
    drawn_cards = [opening]
    asked = {opening.topic}  # topics of the current round
    while len(drawn_cards) < questions:
        random.shuffle(topics)
        drawn_cards += [stacks[topic].pop() for topic in topics if stacks[topic] and topic not in asked]
        asked = set()
    return drawn_cards[:questions]


def results_by_topic(answers: Sequence[InterviewAnswer], limit: float = SECONDS_PER_QUESTION) -> list[TopicResult]:
    """Return the result of each topic, the weakest first."""
    by_topic: dict[str, list[InterviewAnswer]] = {}
    for answer in answers:
        by_topic.setdefault(answer.card.topic, []).append(answer)
    weakest_first = sorted(by_topic.items(), key=lambda pair: fmean(POINTS[answer.grade] for answer in pair[1]))
    return [
        TopicResult(
            topic,
            questions=len(group),
            good=sum(POINTS[answer.grade] >= POINTS["good"] for answer in group),
            seconds=fmean(answer.seconds for answer in group),
            late=sum(answer.seconds > limit for answer in group),
        )
        for topic, group in weakest_first
    ]
