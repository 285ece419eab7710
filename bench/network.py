"""Measure the network as a player: time per move, and games against Kaggle's negamax.

    python bench/network.py [onnx] [move] [negamax] [solver] [--player network:200] [--games N] [--processes 1]

Without names it measures all. Exit code 1 if a bound is missed.

- move: positions of random games with 0 to 30 stones, on one core with one thread: median and maximum CPU time.
- onnx: one, eight, 64 and 256 positions, `regard.models.Evaluator` against onnxruntime with the network exported by
  `torch.onnx.export` (without its opening table, which ONNX cannot express), CPU time on one core with one thread. It
  needs the packages onnx, onnxruntime and onnxscript.
- negamax: games from the empty board; the network begins every other one. negamax (kaggle-environments, depth 4)
  chooses at random between equal moves, so games differ. They are written to bench/results/negamax.jsonl as they end,
  by player; the same command continues from there, and `--afresh` plays all games again.
- solver: 40 games against the solver from drawn openings of 8 moves, each from both sides, and the number of stones
  at each of the network's moves that lose value. A player without such moves would draw all games. The games are
  written to bench/results/solver.jsonl as they end, and the same command continues from there.

Bounds: one and eight positions as fast as onnxruntime; a move with 200 simulations within 0.2 s (median) and 0.5 s
(maximum); 99 % of 200 games against negamax won, and no loss with the first move; at most 10 % of 40 games against the
solver lost.
"""

import argparse
import json
import multiprocessing
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress, track
from rich.table import Table
from side_by_side import RESULTS, one_thread, race

from regard.connectx import ArenaPlan, ArenaResults, Board, Player, Solver, player, run_arena
from regard.connectx.arena.match import play_game
from regard.connectx.arena.move_quality import grade_games
from regard.connectx.players.network_player import WITHOUT_TABLE, load_network
from regard.models import Evaluator
from regard.parallel import LocalEngine

MAX_SECONDS, MEDIAN_SECONDS, WON_SHARE, LOST_SHARE = 0.5, 0.2, 0.99, 0.1
POSITIONS = 100
GAMES_FILE = RESULTS / "negamax.jsonl"
console = Console(width=120)


class Negamax:
    """Kaggle's negamax agent as a player."""

    name = "negamax"

    def choose(self, board: Board) -> int:
        from types import SimpleNamespace

        from kaggle_environments.envs.connectx.connectx import negamax_agent

        size = SimpleNamespace(rows=board.rows, columns=board.columns, inarow=board.inarow)
        return int(negamax_agent(SimpleNamespace(board=board.kaggle(), mark=board.turn), size))


@cache
def ready_player(name: str) -> Player:
    """Return the player after its first move, which loads and compiles it."""
    torch.set_num_threads(1)
    result = player(name)
    result.choose(Board())
    return result


def move(name: str) -> bool:
    """Measure the time per move."""
    one_thread()
    generator = random.Random(2026)
    measured, times = ready_player(name), []
    for number in track(range(POSITIONS), "moves", console=console):
        board = Board()
        while board.stones < number % 31:
            after = board.play(generator.choice(board.legal))
            board = Board() if after.over else after
        start = time.process_time()  # one thread, so it is the time on an idle machine
        measured.choose(board)
        times.append(time.process_time() - start)
    met = max(times) <= MAX_SECONDS and np.median(times) <= MEDIAN_SECONDS
    console.print(
        f"{name}: a move takes {np.median(times):.3f} s, the longest of {len(times)} {max(times):.3f} s "
        f"(bounds {MEDIAN_SECONDS} and {MAX_SECONDS} s, {'met' if met else 'missed'}), one core"
    )
    return met


class Outputs(torch.nn.Module):
    """A network whose outputs are a tuple, as the exporter wants them."""

    def __init__(self, net: torch.nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, planes: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(part for part in self.net(planes) if part is not None)


def onnx() -> bool:
    """Compare the time for small batches with onnxruntime; return whether it is at most as long for 1 and 8."""
    import onnxruntime

    one_thread()
    net, evaluator = load_network(WITHOUT_TABLE), Evaluator(load_network())
    with tempfile.TemporaryDirectory() as folder:
        path, sizes = f"{folder}/four.onnx", ({0: torch.export.Dim("b")},)
        torch.onnx.export(
            Outputs(net).eval(), (torch.zeros(2, 2, 6, 7),), path, dynamo=True, dynamic_shapes=sizes,
            external_data=False, verbose=False,
        )  # fmt: skip
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    name, met = session.get_inputs()[0].name, True
    stones = np.random.default_rng(2026).integers(0, 3, (256, 6, 7))
    planes = np.stack([stones == 1, stones == 2], 1).astype(np.float32)
    np.testing.assert_allclose(session.run(None, {name: planes})[1][:, 0], evaluator(planes).value, atol=1e-4)
    table = Table("positions", "Evaluator", "onnxruntime", "ratio")
    for count in (1, 8, 64, 256):
        part = planes[:count]
        ms = race(
            {"ours": lambda part=part: evaluator(part), "theirs": lambda part=part: session.run(None, {name: part})},
            rounds=25,
        )
        table.add_row(str(count), f"{ms['ours']:.2f} ms", f"{ms['theirs']:.2f} ms", f"{ms['ours'] / ms['theirs']:.2f}")
        met &= count > 8 or ms["ours"] <= ms["theirs"]
    console.print(table)
    return met


def one_game(name: str, number: int) -> dict[str, Any]:
    """Play a game against negamax; the network begins if the number is even."""
    random.seed(number)  # of negamax
    mine, theirs = ready_player(name), Negamax()
    game = play_game(mine, theirs) if number % 2 == 0 else play_game(theirs, mine)
    return {"player": name, "number": number, "points": game.points(mine.name), **game.as_dict()}


def negamax(name: str, games: int, processes: int, afresh: bool) -> bool:
    """Play the games that are not in the file yet, and print the results of all."""
    GAMES_FILE.parent.mkdir(exist_ok=True)
    games_so_far = (
        [json.loads(line) for line in GAMES_FILE.read_text().splitlines()] if GAMES_FILE.exists() and not afresh else []
    )
    mine = {one["number"]: one for one in games_so_far if one["player"] == name and one["number"] < games}
    todo = [number for number in range(games) if number not in mine]
    with (
        ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool,
        GAMES_FILE.open("w" if afresh else "a") as file,
    ):
        results = pool.map(one_game, [name] * len(todo), todo)
        for one in track(results, f"{name} against negamax", len(todo), console=console):
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
    met = share >= WON_SHARE and counts["first"][3] == 0
    console.print(f"won {100 * share:.1f} % (bound 99 %, and none lost as first: {'met' if met else 'missed'})")
    return met


def solver(name: str, games: int, processes: int) -> bool:
    """Play against the solver from drawn openings and print the results and the errors."""
    plan = ArenaPlan((name, "solver"), games=games, opening="balanced", plies=8, seed=2026)
    GAMES_FILE.parent.mkdir(exist_ok=True)
    with track_games(games) as advance, LocalEngine(processes) as engine:
        results = run_arena(plan, file=GAMES_FILE.with_name("solver.jsonl"), engine=engine, on_games=advance)
    exact, lost, stones = Solver(), 0, []
    for game in results.games:
        grades = grade_games([game], exact.scores)[name]
        errors = [ply for ply, grade in sorted(grades.items()) if grade.error]
        lost += game.points(name) == 0
        stones += errors
        if errors:
            side = "first" if game.first == name else "second"
            console.print(f"{name} as {side}, opening {game.opening}: error with {errors} stones, {game.moves}")
    met = lost <= LOST_SHARE * games
    console.print(
        f"lost {lost} of {games} games against the solver (bound {100 * LOST_SHARE:.0f} %, "
        f"{'met' if met else 'missed'}); numbers of stones at the errors: {sorted(stones)}"
    )
    return met


@contextmanager
def track_games(count: int) -> Iterator[Callable[[ArenaResults], None]]:
    """Show a progress bar; yield a function that takes the results so far."""
    with Progress(console=console) as bar:
        task = bar.add_task("games", total=count)
        yield lambda results: bar.update(task, completed=len(results.games))


def main() -> int:
    """Run the benchmarks; return 1 if a bound is missed."""
    parser = argparse.ArgumentParser(description="Measure the network as a player.")
    parser.add_argument("parts", nargs="*", choices=["onnx", "move", "negamax", "solver", []], default=[])
    parser.add_argument("--player", default="network:200")
    parser.add_argument("--games", type=int, help="default: 200 against negamax, 40 against the solver")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--afresh", action="store_true", help="play all games again")
    arguments = parser.parse_args()
    parts = arguments.parts or ["negamax", "solver", "onnx", "move"]
    met = True
    if "negamax" in parts:
        met &= negamax(arguments.player, arguments.games or 200, arguments.processes, arguments.afresh)
    if "solver" in parts:
        met &= solver(arguments.player, arguments.games or 40, arguments.processes)
    # Measuring time pins the process to a core, so it comes last.
    if "onnx" in parts:
        met &= onnx()
    if "move" in parts:
        met &= move(arguments.player)
    return int(not met)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print(f"\nstopped; the finished games are in {GAMES_FILE}, and the same command continues", file=sys.stderr)
        sys.exit(130)
