"""Compare settings of the network's search on held-out positions: `python bench/search_settings.py [middle]`.

Settings are chosen on these positions, never on the standard sets. They are held out from training (bench/held_out.py)
and have a move that keeps the value and another that does not:

- openings: all with 3 to 9 stones whose game lasts more than 28 further moves under perfect play.
- middle: with 12 to 24 stones, from random games.

The search plays only where the policy gives the moves that keep the value less than 0.8 (openings) or 0.75 (middle);
elsewhere it hardly errs. The network is the shipped one without its opening table. Each position is evaluated once for
all settings, so further settings take little time.
"""

import argparse
from itertools import product
from typing import Any

import numpy as np
import torch
from held_out import SHAPE, draw, from_random_games, held_out

from regard.connectx import Board, Labels, Puct, Solver, load_network
from regard.connectx.data.label_storage import FULL
from regard.connectx.game.board_batch import planes_of
from regard.connectx.players.network_player import SCORE_SHARPNESS, WITHOUT_TABLE
from regard.connectx.solver.build_book import positions_to_solve
from regard.models import Evaluator

LASTS = 28  # further moves of an opening's game
BATCH = 128  # positions that are searched together


def openings(solver: Solver) -> Labels:
    """Return the set of openings, solved by the book."""
    layers = [positions_to_solve(stones, *SHAPE[:3]) for stones in range(3, 10)]
    labels = held_out(*(np.concatenate(parts).view(np.int64) for parts in zip(*layers, strict=True)))
    for index, bits in enumerate(zip(labels.position.tolist(), labels.mask.tolist(), strict=True)):
        labels.scores[index] = [FULL if score is None else score for score in solver.move_scores(*bits)]
    best = labels.scores.max(1).astype(np.int64)
    mine, theirs = (43 - labels.stones) // 2, (42 - labels.stones) // 2  # stones that each side has left
    lasts = np.where(best > 0, 2 * (mine - best) + 1, np.where(best < 0, 2 * (theirs + best + 1), 42 - labels.stones))
    signs = np.where(labels.scores == FULL, np.sign(best)[:, None], np.sign(labels.scores))
    return labels[(lasts > LASTS) & (signs.min(1) != signs.max(1))]


class Evaluations:
    """Evaluations of an evaluator, each computed once."""

    def __init__(self) -> None:
        self.evaluator, self.known = Evaluator(load_network(WITHOUT_TABLE)), {}

    def __call__(self, planes: Any, legal: Any) -> tuple[Any, ...]:
        keys = [part.tobytes() for part in planes]
        new = [number for number, key in enumerate(keys) if key not in self.known]
        if new:
            result = self.evaluator(planes[new], legal[new])
            self.known.update({keys[number]: part for number, part in zip(new, zip(*result, strict=True), strict=True)})
        policy, value, score = (np.stack(parts) for parts in zip(*(self.known[key] for key in keys), strict=True))
        return policy, value, np.tanh(SCORE_SHARPNESS * score), np.ones(len(keys))


def hard(labels: Labels, evaluator: Evaluator, below: float) -> Labels:
    """Return the positions in which the policy gives the moves that keep the value less than `below`."""
    policy = evaluator(planes_of(labels.position, labels.mask, SHAPE), labels.scores != FULL).policy
    keeps = np.sign(labels.scores) == np.sign(labels.scores.max(1))[:, None]
    return labels[(policy * keeps).sum(1) < below]


def errors(labels: Labels, evaluate: Evaluations, **settings: Any) -> int:
    """Return in how many positions a search of 200 simulations loses value."""
    boards = [Board.from_bits(int(p), int(m)) for p, m in zip(labels.position, labels.mask, strict=True)]
    columns = []
    for start in range(0, len(boards), BATCH):
        search = Puct(boards[start : start + BATCH], evaluate, nodes=202, **settings)
        search.run(200)
        columns.append(search.best())
    played = labels.scores[np.arange(len(labels)), np.concatenate(columns)]
    return int((np.sign(played) < np.sign(labels.scores.max(1))).sum())


def main() -> None:
    """Print the errors of each combination of settings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", choices=["openings", "middle", []], default=[])
    parser.add_argument("--middle", type=int, default=3300, help="size of the middle set")
    parser.add_argument("--exploration", type=float, nargs="+", default=[1.5])
    parser.add_argument("--look-ahead", type=int, nargs="+", default=[0, 200, 1000, 5000])
    parser.add_argument("--width", type=int, nargs="+", default=[8])
    options = parser.parse_args()
    torch.set_num_threads(1)
    solver, evaluate = Solver(), Evaluations()
    for name in options.sets or ("openings", "middle"):
        if name == "openings":
            labels, below = openings(solver), 0.8
        else:
            random = from_random_games((12, 24), np.random.default_rng(11))
            labels, below = draw(options.middle, (12, 24), True, random, solver), 0.75
        part = hard(labels, evaluate.evaluator, below)
        print(f"{name}: {len(part)} of {len(labels)} positions are searched")
        for exploration, look_ahead, width in product(options.exploration, options.look_ahead, options.width):
            count = errors(part, evaluate, exploration=exploration, look_ahead=look_ahead, width=width)
            print(f"  exploration {exploration:g}, look ahead {look_ahead}, width {width}: {count} errors", flush=True)


if __name__ == "__main__":
    main()
