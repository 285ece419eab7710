"""How far the learner is: the checklist, every part of the course, what to do next, and starting anew."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from regard.lab.server.learner_state import both, get, load_progress, post
from regard.lab.server.request_fields import Asked, one_of


def overview(_: Asked, file: Path) -> Any:
    """Everything that the progress page shows, and the lists that the other pages begin with."""
    from regard.learn import all_cards, checklist, exercises
    from regard.learn.cards.card import MISCONCEPTIONS

    state = load_progress(file)
    coming = state.next_exercise()
    return {
        "file": str(file),
        "notice": state.notice,
        "checklist": [
            {"name": item.name, "title": both(item.title), "have": item.have, "need": item.need, "done": item.done}
            for item in checklist(state)
        ],
        "exercises": [_exercise(one, state.exercises.get(one.name, {})) for one in exercises()],
        "next": coming.name if coming else None,
        "cards": _cards(state.cards),
        "drills": _drills(state.drills),
        "diagrams": _diagrams(state.flow),
        "wrong": [
            {"number": n, "said": both(said), "card": next(card.id for card in all_cards() if n in card.misconceptions)}
            for n, said in MISCONCEPTIONS.items()
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
        "passed": entry.get("passed"),
        "attempts": entry.get("attempts", 0),
        "hints": entry.get("hints", 0),
    }


def _cards(memory: dict[str, Any]) -> dict[str, Any]:
    from regard.learn import Deck, all_cards, topics

    deck, now = Deck(all_cards(), memory), datetime.now(UTC)
    due, ease = deck.due(now), deck.ease()
    rows = []
    for topic in topics():
        known = deck.ease(topic.name)
        waiting = sum(card.topic == topic.name for card in due)
        row = {"name": topic.name, "title": both(topic.title), "due": waiting}
        rows.append({**row, "cards": known.cards, "seen": known.seen, "at_ease": known.at_ease})
    return {"due": len(due), "new": len(deck.new()), "cards": ease.cards, "at_ease": ease.at_ease, "topics": rows}


def _drills(done: dict[str, Any]) -> dict[str, Any]:
    from regard.learn import DRILL_KINDS, drill
    from regard.learn.mastery_checklist import HAND_DRILL_LEVEL

    rows = []
    for kind, (level, _) in DRILL_KINDS.items():
        mine = [entry for name, entry in done.items() if name.partition(":")[0] == kind]
        title = both(drill(level, 0, kind).title)
        passed = sum(bool(entry.get("passed")) for entry in mine)
        rows.append({"kind": kind, "level": level, "title": title, "done": len(mine), "passed": passed})
    return {"kinds": rows, "hand_level": HAND_DRILL_LEVEL}


def _diagrams(done: dict[str, Any]) -> list[dict[str, Any]]:
    from regard.learn import DIAGRAMS

    return [
        {
            "name": diagram.name,
            "title": both(diagram.title),
            "done": bool(done.get(diagram.name, {}).get("done")),
            "pieces": [{"name": p.name, "label": both(p.label), "takes": p.arrows} for p in diagram.pieces.values()],
        }
        for diagram in DIAGRAMS.values()
    ]


def forget(given: Asked, file: Path) -> Any:
    """Begin a part of the course anew, or all of it."""
    from regard.learn.progress import COURSE_SECTIONS

    part = one_of(given, "part", "", (*COURSE_SECTIONS, "all"))
    state = load_progress(file)
    state.clear(*(() if part == "all" else (part,)))
    state.save()
    return overview(given, file)


def arranged(given: Asked, file: Path) -> Any:
    """Whether the learner's arrows compute attention; the first thing that does not is named."""
    from regard.lab.server.request_fields import Mistake
    from regard.learn import DIAGRAMS, check_edges

    diagram = DIAGRAMS[one_of(given, "diagram", "self-attention", tuple(DIAGRAMS))]
    edges = given.get("edges", [])
    match edges:
        case list() if len(edges) <= 100 and all(_is_edge(edge, diagram.pieces) for edge in edges):
            pass
        case _:
            raise Mistake("edges", "edges", f"edges must be pairs of pieces of the diagram, got {str(edges)[:80]}")
    result = check_edges(diagram, [(start, end) for start, end in edges])
    load_progress(file).record_diagram(diagram.name, result.correct, datetime.now(UTC))
    return {"right": result.correct, "says": both(result.message), "piece": result.piece}


def _is_edge(edge: Any, pieces: Any) -> bool:
    return isinstance(edge, list) and len(edge) == 2 and all(isinstance(end, str) and end in pieces for end in edge)


routes = [
    get("/api/practice", overview),
    post("/api/practice/forget", forget),
    post("/api/practice/diagram", arranged),
]
