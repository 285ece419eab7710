"""Cards on the page: the one that is due, grades, the command that shows it, and the mock interview."""

import copy
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from regard.lab.server.learner_state import both, get, load_progress, post
from regard.lab.server.request_fields import Asked, Mistake, asked, one_of, real, whole, words

if TYPE_CHECKING:
    from regard.learn import Card, Deck

SECONDS, OUTPUT = 120, 64 << 10  # of a command


def due(given: Asked, file: Path) -> Any:
    """The card to ask now, of a topic or of all; null when none is due and none is new."""
    deck = _deck(given, file)
    now = datetime.now(UTC)
    card = deck.next(now)
    coming = deck.next_due()
    return {
        "card": None if card is None else _shown(card, deck, now),
        "counts": _counts(deck, now),
        "next_due": None if coming is None else coming.isoformat(),
    }


def one(given: Asked, file: Path) -> Any:
    """A card by its name."""
    card, deck, now = _found(given), _deck({}, file), datetime.now(UTC)
    return {"card": _shown(card, deck, now), "counts": _counts(deck, now), "next_due": None}


def graded(given: Asked, file: Path) -> Any:
    """Keep how it went, and say when the card comes again."""
    from regard.learn import Deck, all_cards
    from regard.learn.cards.spaced_repetition import GRADES

    card, state, now = _found(given), load_progress(file), datetime.now(UTC)
    grade = one_of(given, "grade", "", GRADES)
    coming = Deck(all_cards(), state.cards).grade(card.id, grade, now)  # type: ignore[arg-type]
    state.save()
    return {"seconds": (coming - now).total_seconds()}


def interview(given: Asked, file: Path) -> Any:
    """Ten questions across the topics; those of a seed are always the same."""
    from regard.learn import all_cards
    from regard.learn.cards.interview import SECONDS_PER_QUESTION as LIMIT
    from regard.learn.cards.interview import draw_questions

    seed = given.get("seed", "")
    if not str(seed).isdecimal() or len(str(seed)) > 9:
        raise Mistake("seed", "whole", f"seed must be a whole number, got {str(seed)[:40]!r}", least=0, most=999999999)
    deck, now = _deck({}, file), datetime.now(UTC)
    return {"seconds": LIMIT, "cards": [_shown(card, deck, now) for card in draw_questions(all_cards(), int(seed))]}


def summed_up(given: Asked, _: Path) -> Any:
    """The interview by topic, the weakest first."""
    from regard.learn import find_topic
    from regard.learn.cards.interview import InterviewAnswer as Given
    from regard.learn.cards.interview import results_by_topic
    from regard.learn.cards.spaced_repetition import GRADES

    answers = given.get("answers", [])
    if not isinstance(answers, list) or not 1 <= len(answers) <= 100 or not all(isinstance(x, dict) for x in answers):
        raise Mistake("answers", "answers", "answers must be a list of cards with grades and seconds")
    found = [
        Given(_found(x), one_of(x, "grade", "", GRADES), real(x, "seconds", 0.0, 0.0, 1e6))  # type: ignore[arg-type]
        for x in answers
    ]
    limit = float(whole(given, "limit", 120, 1, 3600))
    return [
        {"topic": row.topic, "title": both(find_topic(row.topic).title), "asked": row.asked, "good": row.good,
         "seconds": row.seconds, "late": row.late}
        for row in results_by_topic(found, limit)
    ]  # fmt: skip


async def show(request: Request) -> Response:
    """Run the command of a card, and no other, in the queue; a job, whose answer is what it printed."""
    card = _found(await asked(request))
    if not card.shows.startswith("regard "):
        raise Mistake("card", "no-command", f"the card {card.id} is shown by a view, not by a command")
    job = request.app.state.work.start(lambda job: _ran(card.shows))
    return JSONResponse({"job": job.said()})


def _ran(command: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "regard", *shlex.split(command)[1:]],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False, env=_environment(),
    )  # fmt: skip
    said = (done.stdout if done.returncode == 0 else done.stderr).decode(errors="replace")
    return {"command": command, "printed": said[:OUTPUT], "code": done.returncode}


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "NO_COLOR": "1", "COLUMNS": "96", "PYTHONIOENCODING": "utf-8"}


def _shown(card: "Card", deck: "Deck", now: datetime) -> dict[str, Any]:
    from regard.learn import Deck as Copy
    from regard.learn import find_topic
    from regard.learn.cards.card import MISCONCEPTIONS
    from regard.learn.cards.spaced_repetition import GRADES

    waits = []
    for grade in GRADES:
        again = Copy([card], copy.deepcopy({k: v for k, v in deck.memory.items() if k == card.id}))
        waits.append((again.grade(card.id, grade, now) - now).total_seconds())
    return {
        "id": card.id,
        "topic": both(find_topic(card.topic).title),
        "question": both(card.question),
        "answer": both(card.answer),
        "detail": both(card.detail),
        "shows": card.shows,
        "wrong": [both(MISCONCEPTIONS[number]) for number in card.misconceptions],
        "seen": card.id in deck.memory,
        "waits": waits,
    }


def _deck(given: Asked, file: Path) -> "Deck":
    from regard.learn import Deck, all_cards, find_topic, topics

    topic = one_of(given, "topic", "", ("", *(topic.name for topic in topics())))
    return Deck(find_topic(topic).cards if topic else all_cards(), load_progress(file).cards)


def _counts(deck: "Deck", now: datetime) -> dict[str, int]:
    ease = deck.ease()
    return {"due": len(deck.due(now)), "new": len(deck.new()), "at_ease": ease.at_ease, "cards": ease.cards}


def _found(given: Asked) -> "Card":
    from regard.learn import find_card

    id = words(given, "card", "", 80)
    try:
        return find_card(id)
    except ValueError:
        raise Mistake("card", "card", f"there is no card {id!r}") from None


routes = [
    get("/api/practice/cards", due),
    get("/api/practice/cards/{card}", one),
    post("/api/practice/grade", graded),
    get("/api/practice/interview", interview),
    post("/api/practice/summary", summed_up),
    Route("/api/practice/show", show, methods=["POST"]),
]
