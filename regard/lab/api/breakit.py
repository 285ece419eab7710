"""Endpoints of the view Break it: the shipped translator with one mistake in its attention, and a guessing game."""

import random
from typing import Any

from regard.lab.models.damaged_model import DAMAGES, translate
from regard.lab.models.watched_models import LONGEST, check_text, load_model, watch_lock
from regard.lab.server.array_encoding import encode_array
from regard.lab.server.request_fields import Fields, choice, integer, text
from regard.lab.server.routes import post

NONE = "none"
EXAMPLE = "The cat sat on the mat"


def run(fields: Fields) -> dict[str, Any]:
    """Return what the translator writes as it was trained, and with a mistake.

    text        the sentence to translate
    damage      one of `DAMAGES`, or "none"

    >>> answer = run({"text": "The cat sat on the mat", "damage": "positions"})
    >>> answer["trained"]["written"], answer["damaged"]["written"]
    ('猫坐在垫子上', '垫子上')
    """
    return _both(fields, choice(fields, "damage", NONE, (NONE, *DAMAGES)))


def play(fields: Fields) -> dict[str, Any]:
    """Return the same as `run` for the mistake of a round of the game, which is not named.

    seed, round     determine the mistake
    """
    return _both(fields, _damage_of(fields))


def guess(fields: Fields) -> dict[str, Any]:
    """Return the mistake of a round, and whether the guess is right.

    >>> guess({"seed": 1, "round": 0, "guess": "scale"})["right"] in (True, False)
    True
    """
    damage = _damage_of(fields)
    return {"damage": damage, "right": choice(fields, "guess", DAMAGES[0], DAMAGES) == damage}


def _damage_of(fields: Fields) -> str:
    """Return the mistake of a round: within eight rounds, each mistake occurs once."""
    seed, number = integer(fields, "seed", 0, 0, 2**32 - 1), integer(fields, "round", 0, 0, 10_000)
    order = list(DAMAGES)
    random.Random(f"{seed} {number // len(order)}").shuffle(order)
    return order[number % len(order)]


def _both(fields: Fields, damage: str) -> dict[str, Any]:
    sentence = text(fields, "text", EXAMPLE, LONGEST)
    with watch_lock:
        check_text(load_model("phrases"), sentence)
        results = {
            "trained": translate(sentence, None),
            "damaged": translate(sentence, None if damage == NONE else damage),
        }
    return {name: _encoded(result) for name, result in results.items()}


def _encoded(result: dict[str, Any]) -> dict[str, Any]:
    sums = result["cross"].sum(-1)
    return {
        **{name: value for name, value in result.items() if name not in ("cross", "own")},
        **{name: encode_array(result[name]) for name in ("cross", "own")},
        "sums": [float(sums.min()), float(sums.max())],
    }


routes = [
    post("/api/breakit", run, queued=True),
    post("/api/breakit/round", play, queued=True),
    post("/api/breakit/guess", guess),
]
