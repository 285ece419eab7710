"""Errors of the shipped network on fresh positions, alone and with a search: `python bench/held_out.py [any] [middle]`.

The positions are drawn anew from the seed and graded by the solver. Nine of ten come from games of random and careful
moves, the others from games of the network, which plays a third of its moves at random, against the solver: positions
of these games and those one move away. Only positions are used that training holds out (one in 64, by a hash of the
stones), so none of them was ever a label or in the opening table.

- any: 1,000 positions with 1 to 40 stones.
- middle: 5,400 positions with more than 10 stones whose moves differ in value; those from random games are equally many
  in each group of numbers of stones. The searches play on the first 500.

An error is a move that turns a win into a draw or loss, or a draw into a loss. The interval is Wilson's, 95 %.
"""

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from side_by_side import RESULTS

from regard.connectx import Board, Labels, Solver, load_network, player
from regard.connectx.data.label_storage import FULL, bits_from_keys, canonical_keys
from regard.connectx.data.random_positions import random_positions
from regard.connectx.game.bitboard import has_line
from regard.connectx.game.board_batch import planes_of
from regard.models import Evaluator
from regard.numba_functions import uncompiled

SIZES = {"any": 1000, "middle": 5400}
PLAYERS = ("network", "network:200", "network:without-table:200")
TABLE_STONES = 10  # the opening table has no effect on a search from a position with more stones
GROUPS = ((11, 13), (14, 16), (17, 19), (20, 22), (23, 25), (26, 40))  # numbers of stones in the middle set
RANDOM_SHARE = 0.3  # of the network's moves in games against the solver
GAMES = 16  # played at the same time
BATCH = 32  # positions of one search
SHAPE = Board().shape
FIELDS = ("position", "mask", "scores", "source")
console = Console(width=120)


def held_out(position: Any, mask: Any) -> Labels:
    """Return the positions that training holds out, each once and without its mirror image; scores are not known."""
    keys = np.unique(canonical_keys(np.asarray(position, np.int64), np.asarray(mask, np.int64), SHAPE))
    position, mask = bits_from_keys(keys, SHAPE)
    labels = Labels(SHAPE, position, mask, np.zeros((len(mask), 7), np.int8), np.zeros(len(mask), np.uint8))
    return labels[labels.held_out()]


def from_random_games(stones: tuple[int, int], random: np.random.Generator) -> Iterator[Labels]:
    """Yield held-out positions with these numbers of stones from games of random and careful moves."""
    while True:
        counts = random.integers(stones[0], stones[1] + 1, 20_000)
        yield held_out(*random_positions(counts, SHAPE, int(random.integers(2**62))))


def from_network_games(solver: Solver, random: np.random.Generator) -> Iterator[Labels]:
    """Yield held-out positions from games of the network against the solver, and from one move away."""
    evaluator, line = Evaluator(load_network()), uncompiled(has_line)
    while True:
        openings = random.integers(0, 9, GAMES)
        boards = [
            Board.from_bits(int(p), int(m))
            for p, m in zip(*random_positions(openings, SHAPE, int(random.integers(2**62))), strict=True)
        ]
        network_side = random.integers(0, 2, GAMES)
        found: set[tuple[int, int]] = set()
        while boards:
            for board in boards:
                found.update((after.position, after.mask) for after in map(board.play, board.legal) if not after.over)
            position, mask = np.array([(board.position, board.mask) for board in boards], np.int64).T.copy()
            legal = np.array([[column in board.legal for column in range(7)] for board in boards])
            policy = evaluator(planes_of(position, mask, SHAPE), legal).policy
            after = []
            for number, board in enumerate(boards):
                if board.stones % 2 != network_side[number]:
                    column = solver.best(board)
                elif random.random() < RANDOM_SHARE:
                    column = int(random.choice(board.legal))
                else:
                    column = int(policy[number].argmax())
                after.append(board.play(column))
            running = [number for number, board in enumerate(after) if not board.over]
            boards, network_side = [after[number] for number in running], network_side[running]
        bits = [(p, m) for p, m in found if not line(p, SHAPE) and not line(p ^ m, SHAPE)]
        yield held_out(*zip(*bits, strict=True))


def draw(count: int, stones: tuple[int, int], differ: bool, source: Iterator[Labels], solver: Solver) -> Labels:
    """Return `count` solved positions of the source with these numbers of stones, each once.

    differ      only positions in which a move keeps the value and another does not
    """
    parts: list[Labels] = []
    known: set[tuple[int, int]] = set()
    while count:
        labels = next(source)
        labels = labels[(labels.stones >= stones[0]) & (labels.stones <= stones[1])]
        kept: list[int] = []
        for index, bits in enumerate(zip(labels.position.tolist(), labels.mask.tolist(), strict=True)):
            if bits in known or len(kept) == count:
                continue
            known.add(bits)
            scores = [FULL if score is None else score for score in solver.move_scores(*bits)]
            if not differ or len({np.sign(score) for score in scores if score != FULL}) > 1:
                labels.scores[index] = scores
                kept.append(index)
        parts.append(labels[np.array(kept, np.int64)])
        count -= len(kept)
    return join(parts)


def join(parts: list[Labels]) -> Labels:
    """Return all positions of these labels."""
    return Labels(SHAPE, *(np.concatenate([getattr(part, name) for part in parts]) for name in FIELDS))


def draw_set(name: str, count: int, seed: int) -> Labels:
    """Draw and solve a set; it is kept in bench/results, since drawing takes minutes."""
    file = RESULTS / f"held_out_{name}_{count}_{seed}.npz"
    if not file.exists():
        random, solver = np.random.default_rng(seed), Solver()
        groups, differ = (((1, 40),), False) if name == "any" else (GROUPS, True)
        each = (count - count // 10) // len(groups)
        parts = [
            draw(each, stones, differ, from_random_games(stones, random), solver)
            for stones in track(groups, "drawing positions", console=console)
        ]
        stones = (groups[0][0], groups[-1][1])
        parts.append(draw(count - each * len(groups), stones, differ, from_network_games(solver, random), solver))
        labels = join(parts)[random.permutation(count)]
        file.parent.mkdir(exist_ok=True)
        np.savez(file, **{field: getattr(labels, field) for field in FIELDS})
    with np.load(file) as saved:
        return Labels(SHAPE, *(saved[field] for field in FIELDS))


def errors(name: str, labels: Labels, with_table: Any = None) -> Any:
    """Return for each position whether the player's move loses value, (N,).

    with_table      the result of the same player with the opening table; it is the same for positions with more stones
    """
    if with_table is not None:
        result, few = with_table.copy(), labels.stones <= TABLE_STONES
        result[few] = errors(name, labels[few])
        return result
    chosen: list[int] = []
    boards = [Board.from_bits(int(p), int(m)) for p, m in zip(labels.position, labels.mask, strict=True)]
    one: Any = player(name)
    for start in track(range(0, len(boards), BATCH), name, console=console):
        chosen += one.choose_all(boards[start : start + BATCH])
    played = labels.scores[np.arange(len(labels)), chosen]
    return np.sign(played) < np.sign(labels.scores.max(1))


def text(wrong: Any) -> str:
    """Return errors in %, their number, and Wilson's interval of 95 %."""
    count, share, z = len(wrong), wrong.mean(), 1.96
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * np.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    low, high = 100 * max(0.0, middle - half), 100 * (middle + half)
    return f"{100 * share:5.2f} % ({wrong.sum()} of {count}; {low:.2f} to {high:.2f})"


def main() -> None:
    """Draw the positions, let the players choose, and print the errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", choices=[*SIZES, []], default=[])
    parser.add_argument("--count", type=int, help="size of a set")
    parser.add_argument("--searched", type=int, default=500, help="positions of middle on which the searches play")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--players", nargs="+", default=PLAYERS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for kind in options.sets or SIZES:
        labels, known = draw_set(kind, options.count or SIZES[kind], options.seed), None
        for name in options.players:
            if kind == "middle" and "without-table" in name:
                continue  # the table has no effect
            part = labels[: options.searched] if kind == "middle" and name != "network" else labels
            wrong = known = errors(name, part, known if "without-table" in name else None)
            console.print(f"{kind:6} {name:26} {text(wrong)}", highlight=False)
            for low, high in GROUPS:
                group = wrong[(part.stones >= low) & (part.stones <= high)]
                if len(group):
                    console.print(f"{'':20} {low}-{high} stones {text(group)}", highlight=False)


if __name__ == "__main__":
    main()
