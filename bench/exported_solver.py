"""Errors of an exported solver on a busy core: `taskset -c 1 python bench/exported_solver.py --busy 3 --games 6`.

Busy loops compete with the submission for its core. It plays against the solver, with both sides in turn, and every
move is graded. Each game has a new process, as on Kaggle, and the opponent's first move is random. Moves over 2 s use
the extra time of the game, 60 s. "Errors" are moves that lose value.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from regard.connectx import AgentFile, Board, Solver, export
from regard.connectx.kaggle.validation import count_errors

OPENING_MOVES = 2


def main() -> None:
    """Play the games and print one line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=int, default=6)
    parser.add_argument("--busy", type=int, default=3, help="number of busy loops on the same core")
    parser.add_argument("--seed", type=int, default=0, help="seed of the opponent's first moves")
    options = parser.parse_args()
    solver = Solver()
    solver.get_ready()
    generator = random.Random(options.seed)
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(options.busy)]
    total = 0
    try:
        with tempfile.TemporaryDirectory() as folder:
            file = export("solver", Path(folder) / "submission.py")
            for game in range(options.games):
                errors, slowest, left, columns = play(AgentFile(file), solver, game % 2, generator)
                total += errors
                side = ("first", "second")[game % 2]
                text = "".join(str(column + 1) for column in columns)
                print(
                    f"game {game + 1}, {side}: {errors} errors, slowest move {slowest:.1f} s, {left:.1f} s left, {text}"
                )
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    print(f"{total} errors in {options.games} games")


def play(agent: AgentFile, solver: Solver, side: int, generator: random.Random) -> tuple[int, float, float, list[int]]:
    """Play one game; return the agent's errors, its slowest move, the rest of its extra time, and all columns."""
    board, columns, slowest = Board(), [], 0.0
    while not board.over:
        if board.stones < OPENING_MOVES and board.stones % 2 != side:
            column = generator.choice(board.legal)
        elif board.stones % 2 == side:
            start = time.perf_counter()
            column = agent.choose(board)
            slowest = max(slowest, time.perf_counter() - start)
        else:
            column = solver.best(board)
        columns.append(column)
        board = board.play(column)
    left = agent._left
    agent.close()
    return count_errors(columns, (side,), solver), slowest, left, columns


if __name__ == "__main__":
    main()
