"""Endpoints of the course: checklist, progress in every part, the next exercise, the diagrams, and starting over."""

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from regard.lab.api.practice_cards import deck_counts
from regard.lab.server.learner_state import learner_file, load_progress, translations
from regard.lab.server.request_fields import FieldError, Fields, choice
from regard.lab.server.routes import get, post


def overview(_: Fields, file: Path) -> Any:
    """Return the data of the progress page, with the lists of exercises, cards, drills and diagrams for other pages."""
    from regard.learn import all_cards, checklist, exercises
    from regard.learn.cards.card import MISCONCEPTIONS

    progress = load_progress(file)
    following = progress.next_exercise()
    return {
        "file": str(file),
        "notice": progress.notice,
        "checklist": [asdict(item) | {"done": item.done} for item in checklist(progress)],
        "exercises": [_exercise(one, progress.exercises.get(one.name, {})) for one in exercises()],
        "next": following.name if following else None,
        "cards": _cards(progress.cards),
        "drills": _drills(progress.drills),
        "diagrams": _diagrams(progress.flow),
        "wrong": [
            {"number": n, "said": translations(text), "card": next(c.id for c in all_cards() if n in c.misconceptions)}
            for n, text in MISCONCEPTIONS.items()
        ],
    }


def _exercise(exercise: Any, entry: dict[str, Any]) -> dict[str, Any]:
    from regard.languages import LANGUAGES
    from regard.learn.mastery_checklist import CORE_EXERCISES

    return {
        "name": exercise.name,
        "title": {language: exercise.title(language) for language in LANGUAGES},
        "uses": exercise.uses,
        "core": exercise.name.lstrip("0123456789-") in CORE_EXERCISES,
        **{name: entry.get(name, default) for name, default in (("passed", None), ("attempts", 0), ("hints", 0))},
    }


def _cards(memory: dict[str, Any]) -> dict[str, Any]:
    from regard.learn import Deck, all_cards, topics

    deck, now = Deck(all_cards(), memory), datetime.now(UTC)
    due = deck.due(now)
    rows = []
    for topic in topics():
        counts = deck.mastery(topic.name)
        waiting = sum(card.topic == topic.name for card in due)
        row = {"name": topic.name, "title": translations(topic.title), "due": waiting}
        rows.append({**row, "cards": counts.cards, "seen": counts.reviewed, "at_ease": counts.mastered})
    return {**deck_counts(deck, now), "topics": rows}


def _drills(done: dict[str, Any]) -> dict[str, Any]:
    from regard.learn import DRILL_KINDS, drill
    from regard.learn.mastery_checklist import HAND_DRILL_LEVEL

    rows = []
    for kind, (level, _) in DRILL_KINDS.items():
        entries = [entry for name, entry in done.items() if name.partition(":")[0] == kind]
        title = translations(drill(level, 0, kind).title)
        passed = sum(bool(entry.get("passed")) for entry in entries)
        rows.append({"kind": kind, "level": level, "title": title, "done": len(entries), "passed": passed})
    return {"kinds": rows, "hand_level": HAND_DRILL_LEVEL}


def _diagrams(done: dict[str, Any]) -> list[dict[str, Any]]:
    from regard.learn import DIAGRAMS

    return [
        {
            "name": diagram.name,
            "title": translations(diagram.title),
            "done": bool(done.get(diagram.name, {}).get("done")),
            "pieces": [
                {"name": p.name, "label": translations(p.label), "takes": p.arrows} for p in diagram.pieces.values()
            ],
        }
        for diagram in DIAGRAMS.values()
    ]


def forget(fields: Fields, file: Path) -> Any:
    """Delete the progress in one part of the course, or in all of it."""
    from regard.learn.progress import COURSE_SECTIONS

    part = choice(fields, "part", "", (*COURSE_SECTIONS, "all"))
    progress = load_progress(file)
    progress.clear(*(() if part == "all" else (part,)))
    progress.save()
    return overview(fields, file)


def check_diagram(fields: Fields, file: Path) -> Any:
    """Return whether the learner's arrows compute attention, and the first error if not."""
    from regard.learn import DIAGRAMS, check_edges

    diagram = DIAGRAMS[choice(fields, "diagram", "self-attention", tuple(DIAGRAMS))]
    edges = fields.get("edges", [])
    if not isinstance(edges, list) or len(edges) > 100 or not all(_is_edge(edge, diagram.pieces) for edge in edges):
        message = f"edges must be at most 100 pairs of pieces of the diagram, got {str(edges)[:80]}"
        raise FieldError("edges", "edges", message)
    result = check_edges(diagram, [(start, end) for start, end in edges])
    load_progress(file).record_diagram(diagram.name, result.correct, datetime.now(UTC))
    return {"right": result.correct, "says": translations(result.message), "piece": result.piece}


def _is_edge(edge: Any, pieces: Any) -> bool:
    return isinstance(edge, list) and len(edge) == 2 and all(isinstance(end, str) and end in pieces for end in edge)


routes = [
    get("/api/practice", overview, learner_file),
    post("/api/practice/forget", forget, learner_file),
    post("/api/practice/diagram", check_diagram, learner_file),
]
