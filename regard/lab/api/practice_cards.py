"""Endpoints of the cards: the card that is due, grading, the command of a card, and the mock interview."""

import copy
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.lab.server.job_queue import Job
from regard.lab.server.learner_state import learner_file, load_progress, translations
from regard.lab.server.request_fields import FieldError, Fields, choice, integer, number, text
from regard.lab.server.routes import get, post, post_job

if TYPE_CHECKING:
    from regard.learn import Card, Deck

SECONDS, OUTPUT = 120, 64 << 10  # limits of a card's command: time, and characters of output


def due(fields: Fields, file: Path) -> Any:
    """Return the next card of a topic or of all topics; null when none is due and none is new."""
    deck = _deck(fields, file)
    now = datetime.now(UTC)
    card = deck.next(now)
    next_due = deck.next_due()
    return {
        "card": None if card is None else _card_json(card, deck, now),
        "counts": deck_counts(deck, now),
        "next_due": None if next_due is None else next_due.isoformat(),
    }


def card_by_id(fields: Fields, file: Path) -> Any:
    """Return the card with this id."""
    card, deck, now = _card(fields), _deck({}, file), datetime.now(UTC)
    return {"card": _card_json(card, deck, now), "counts": deck_counts(deck, now), "next_due": None}


def grade(fields: Fields, file: Path) -> Any:
    """Record the learner's grade and return in how many seconds the card is due again."""
    from regard.learn import Deck, all_cards
    from regard.learn.cards.spaced_repetition import GRADES

    card, progress, now = _card(fields), load_progress(file), datetime.now(UTC)
    chosen_grade = choice(fields, "grade", "", GRADES)
    due_again = Deck(all_cards(), progress.cards).grade(card.id, chosen_grade, now)  # type: ignore[arg-type]
    progress.save()
    return {"seconds": (due_again - now).total_seconds()}


def interview(fields: Fields, file: Path) -> Any:
    """Return ten questions across the topics; the same seed gives the same questions."""
    from regard.learn import all_cards
    from regard.learn.cards.interview import SECONDS_PER_QUESTION, draw_questions

    seed = fields.get("seed", "")
    if not str(seed).isdecimal() or len(str(seed)) > 9:
        message = f"seed must be a whole number, got {str(seed)[:40]!r}"
        raise FieldError("seed", "whole", message, least=0, most=999999999)
    deck, now = _deck({}, file), datetime.now(UTC)
    return {
        "seconds": SECONDS_PER_QUESTION,
        "cards": [_card_json(card, deck, now) for card in draw_questions(all_cards(), int(seed))],
    }


def summarize_interview(fields: Fields) -> Any:
    """Return the results of an interview by topic, the weakest first."""
    from regard.learn import find_topic
    from regard.learn.cards.interview import InterviewAnswer, results_by_topic
    from regard.learn.cards.spaced_repetition import GRADES

    answers = fields.get("answers", [])
    if not isinstance(answers, list) or not 1 <= len(answers) <= 100 or not all(isinstance(x, dict) for x in answers):
        raise FieldError("answers", "answers", "answers must be 1 to 100 objects with card, grade and seconds")
    results = [
        InterviewAnswer(_card(x), choice(x, "grade", "", GRADES), number(x, "seconds", 0.0, 0.0, 1e6))  # type: ignore[arg-type]
        for x in answers
    ]
    limit = float(integer(fields, "limit", 120, 1, 3600))
    return [
        {"topic": row.topic, "title": translations(find_topic(row.topic).title), "asked": row.questions,
         "good": row.good, "seconds": row.seconds, "late": row.late}
        for row in results_by_topic(results, limit)
    ]  # fmt: skip


def show(fields: Fields) -> Callable[[Job], Any]:
    """Return the job that runs the command of a card; its answer is the printed text."""
    card = _card(fields)
    if not card.shows.startswith("regard "):
        raise FieldError("card", "no-command", f"the card {card.id} refers to a view, not to a command")

    def work(_: Job) -> dict[str, Any]:
        command = [sys.executable, "-m", "regard", *shlex.split(card.shows)[1:]]
        env = {**os.environ, "NO_COLOR": "1", "COLUMNS": "96", "PYTHONIOENCODING": "utf-8"}
        process = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, env=env)
        printed = (process.stdout if process.returncode == 0 else process.stderr).decode(errors="replace")
        return {"command": card.shows, "printed": printed[:OUTPUT], "code": process.returncode}

    return work


def _card_json(card: "Card", deck: "Deck", now: datetime) -> dict[str, Any]:
    from regard.learn import Deck, find_topic
    from regard.learn.cards.card import MISCONCEPTIONS
    from regard.learn.cards.spaced_repetition import GRADES

    waits = []
    for grade in GRADES:
        trial = Deck([card], copy.deepcopy({k: v for k, v in deck.memory.items() if k == card.id}))
        waits.append((trial.grade(card.id, grade, now) - now).total_seconds())
    return {
        "id": card.id,
        "topic": translations(find_topic(card.topic).title),
        "question": translations(card.question),
        "answer": translations(card.answer),
        "detail": translations(card.detail),
        "shows": card.shows,
        "wrong": [translations(MISCONCEPTIONS[number]) for number in card.misconceptions],
        "seen": card.id in deck.memory,
        "waits": waits,
    }


def _deck(fields: Fields, file: Path) -> "Deck":
    from regard.learn import Deck, all_cards, find_topic, topics

    topic = choice(fields, "topic", "", ("", *(topic.name for topic in topics())))
    return Deck(find_topic(topic).cards if topic else all_cards(), load_progress(file).cards)


def deck_counts(deck: "Deck", now: datetime) -> dict[str, int]:
    """Return the numbers of due, new, mastered and all cards of a deck."""
    mastery = deck.mastery()
    return {"due": len(deck.due(now)), "new": len(deck.new()), "at_ease": mastery.mastered, "cards": mastery.cards}


def _card(fields: Fields) -> "Card":
    from regard.learn import find_card

    id = text(fields, "card", "", 80)
    try:
        return find_card(id)
    except ValueError:
        raise FieldError("card", "card", f"card must be the id of a card, got {id!r}") from None


routes = [
    get("/api/practice/cards", due, learner_file),
    get("/api/practice/cards/{card}", card_by_id, learner_file),
    post("/api/practice/grade", grade, learner_file),
    get("/api/practice/interview", interview, learner_file),
    post("/api/practice/summary", summarize_interview),
    post_job("/api/practice/show", show),
]
