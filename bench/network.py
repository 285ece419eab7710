"""The network as a player: how long a move takes, and games against Kaggle's own negamax.

    python bench/network.py [move] [negamax] [--player network:200] [--games 200] [--processes 1]

Without names, both. Exit code 1 when a bound is missed.

- move: positions of random games with 0 to 30 stones, one pinned core, one thread: the median and the longest move.
- negamax: games from the empty board, every other one begun by the network; negamax (kaggle-environments, depth 4)
  draws lots among equal moves, so games differ. They are kept in bench/results/negamax.jsonl as they end, by player;
  the same command goes on from there, and `--afresh` plays all of them again.

Bounds: a move with 200 simulations in 0.5 s; 99 % of 200 games won, none lost that the network began.
"""

import argparse
import json
import multiprocessing
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from side_by_side import RESULTS, one_thread

from regard.connectx import Board, Player, player
from regard.connectx.arena.match import play_game

LONGEST, WON = 0.5, 0.99
POSITIONS = 100
KEPT = RESULTS / "negamax.jsonl"
console = Console(width=120)


class Negamax:
    """Kaggle's agent as a player."""

    name = "negamax"

    def choose(self, board: Board) -> int:
        from types import SimpleNamespace

        from kaggle_environments.envs.connectx.connectx import negamax_agent

        size = SimpleNamespace(rows=board.rows, columns=board.columns, inarow=board.inarow)
        return int(negamax_agent(SimpleNamespace(board=board.kaggle(), mark=board.turn), size))


@cache
def seated(name: str) -> Player:
    """The player, loaded and compiled."""
    torch.set_num_threads(1)
    one = player(name)
    one.choose(Board())
    return one


def move(name: str) -> bool:
    """How long a move takes."""
    one_thread()
    dice = random.Random(2026)
    seat, times = seated(name), []
    for number in track(range(POSITIONS), "moves", console=console):
        board = Board()
        while board.stones < number % 31:
            after = board.play(dice.choice(board.legal))
            board = Board() if after.over else after
        start = time.perf_counter()
        seat.choose(board)
        times.append(time.perf_counter() - start)
    met = max(times) <= LONGEST
    console.print(
        f"{name}: a move takes {np.median(times):.3f} s, the longest of {len(times)} {max(times):.3f} s "
        f"(bound {LONGEST} s, {'met' if met else 'missed'}), one core"
    )
    return met


def one_game(name: str, number: int) -> dict[str, Any]:
    """A game against negamax; the network begins if the number is even."""
    random.seed(number)  # negamax's lots
    mine, theirs = seated(name), Negamax()
    game = play_game(mine, theirs) if number % 2 == 0 else play_game(theirs, mine)
    return {"player": name, "number": number, "points": game.points(mine.name), **game.as_dict()}


def negamax(name: str, games: int, processes: int, afresh: bool) -> bool:
    """The games that are not kept yet, and what all of them came to."""
    KEPT.parent.mkdir(exist_ok=True)
    kept = [json.loads(line) for line in KEPT.read_text().splitlines()] if KEPT.exists() and not afresh else []
    mine = {one["number"]: one for one in kept if one["player"] == name and one["number"] < games}
    todo = [number for number in range(games) if number not in mine]
    with (
        ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool,
        KEPT.open("w" if afresh else "a") as file,
    ):
        found = pool.map(one_game, [name] * len(todo), todo)
        for one in track(found, f"{name} against negamax", len(todo), console=console):
            mine[one["number"]] = one
            file.write(json.dumps(one) + "\n")
            file.flush()
    table = Table("", "games", "won", "drawn", "lost", "longest move")
    counts = {}
    for side, first in (("first", True), ("second", False)):
        here = [one for one in mine.values() if (one["number"] % 2 == 0) == first]
        won, drawn = (sum(one["points"] == points for one in here) for points in (1.0, 0.5))
        longest = max((one["slowest"][not first] for one in here), default=0.0)
        counts[side] = (len(here), won, drawn, len(here) - won - drawn)
        table.add_row(f"{name} {side}", *map(str, counts[side]), f"{longest:.2f} s")
    console.print(table)
    share = sum(won for _, won, _, _ in counts.values()) / max(1, len(mine))
    met = share >= WON and counts["first"][3] == 0
    console.print(f"won {100 * share:.1f} % (bound 99 %, and none lost as first: {'met' if met else 'missed'})")
    return met


def main() -> int:
    """What was asked for; 1 when a bound is missed."""
    parser = argparse.ArgumentParser(description="The network as a player.")
    parser.add_argument("parts", nargs="*", choices=["move", "negamax", []], default=[])
    parser.add_argument("--player", default="network:200")
    parser.add_argument("--games", type=int, default=200)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--afresh", action="store_true", help="play all games again")
    given = parser.parse_args()
    parts = given.parts or ["negamax", "move"]  # the move pins the process to a core
    met = True
    if "negamax" in parts:
        met &= negamax(given.player, given.games, given.processes, given.afresh)
    if "move" in parts:
        met &= move(given.player)
    return int(not met)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print(f"\nstopped; games that ended are in {KEPT}, and the same command goes on from there", file=sys.stderr)
        sys.exit(130)
