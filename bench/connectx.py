"""Compare the board game with its peers: random play in batches, time budgets, and the exported solver on Kaggle.

    python bench/connectx.py [speed] [budget] [kaggle] [--moves N]

Without names it runs all three. It prints tables and writes bench/results/connectx.json; exit code 1 if a bound is
missed. Peers that are not installed are named in their rows (pgx, OpenSpiel and kaggle-environments come with
`pip install -c constraints.txt pgx 'regard[kaggle]'`). All run on one core.

- speed: moves per second of random play with 4,096 boards, where finished games restart. regard and the peer run in
  turns, and the best of several rounds counts. pgx runs many steps in one compiled loop; in the row without
  observations they are dropped inside the loop, so that it need not compute them.
- budget: the longest of N moves with a budget of 100 ms, from positions of random games; then again while another
  process keeps a core busy. If more processes run than there are cores, the wall time includes time of the others, so
  the processor time is shown as well.
- kaggle: the exported solver in kaggle-environments, 20 games as first player against negamax.
"""

import argparse
import json
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import numpy as np
from rich.console import Console
from rich.table import Table
from side_by_side import RESULTS, machine, one_thread

from regard.connectx import Board, Boards, export, player
from regard.connectx.kaggle import validation

BOARDS = 4096
BUDGET, LONGEST = 0.1, 0.13  # seconds: the budget, and the bound of the longest move


def moves_a_second(play: Callable[[], int], rounds: int) -> list[float]:
    """Return the moves per second of each round; `play` returns the number of moves it made."""
    figures = []
    for _ in range(rounds):
        start = time.process_time()
        moves = play()
        figures.append(moves / (time.process_time() - start))
    return figures


def ours(planes: bool) -> Callable[[], int]:
    boards = Boards(BOARDS, auto_reset=True, seed=0)
    out = np.empty((BOARDS, 2, 6, 7), np.float32)

    def play() -> int:
        for _ in range(200):
            boards.step(boards.random_columns())
            if planes:
                boards.planes(out)
        return 200 * BOARDS

    play()
    return play


def theirs_pgx(planes: bool) -> Callable[[], int]:
    """Run pgx in one scan with uniform random moves; finished games are replaced by new ones. The fastest way found."""
    import jax
    import jax.numpy as jnp
    import pgx

    env = pgx.make("connect_four")
    step = jax.vmap(env.step)
    first = jax.vmap(env.init)(jax.random.split(jax.random.key(0), BOARDS))
    length = 20

    def one(carry: Any, key: Any) -> Any:
        state, seen = carry
        draws = jax.random.uniform(key, (BOARDS, 7))
        state = step(state, jnp.argmax(jnp.where(state.legal_action_mask, draws, -1.0), axis=1))
        ended = state.terminated
        state = jax.tree.map(
            lambda old, new: jnp.where(ended.reshape((-1,) + (1,) * (old.ndim - 1)), new, old), state, first
        )
        if planes:
            seen = state.observation.astype(jnp.float32)
        return (state.replace(observation=first.observation), seen), None

    @jax.jit
    def many(carry: Any, key: Any) -> Any:
        return jax.lax.scan(one, carry, jax.random.split(key, length))[0]

    carry = (first, first.observation.astype(jnp.float32))
    keys = iter(jax.random.split(jax.random.key(1), 10_000))

    def play() -> int:
        nonlocal carry
        carry = jax.block_until_ready(many(carry, next(keys)))
        return length * BOARDS

    play()
    return play


def theirs_openspiel() -> Callable[[], int]:
    import pyspiel

    game = pyspiel.load_game("connect_four")
    generator = random.Random(0)

    def play() -> int:
        moves = 0
        while moves < 20_000:
            state = game.new_initial_state()
            while not state.is_terminal():
                state.apply_action(generator.choice(state.legal_actions()))
                moves += 1
        return moves

    return play


def theirs_pettingzoo() -> Callable[[], int]:
    import warnings

    warnings.simplefilter("ignore")
    from pettingzoo.classic.connect_four.connect_four import env as make

    env = make()
    generator = random.Random(0)

    def play() -> int:
        moves = 0
        while moves < 1000:
            env.reset()
            for _ in env.agent_iter():
                seen, _, ended, cut, _ = env.last()
                if ended or cut:
                    break
                env.step(generator.choice(np.flatnonzero(seen["action_mask"]).tolist()))
                moves += 1
        return moves

    return play


def theirs_kaggle() -> Callable[[], int]:
    import logging

    logging.disable(logging.CRITICAL)
    from kaggle_environments import make

    def play() -> int:
        env = make("connectx")
        env.run(["random", "random"])
        return len(env.steps) - 1

    play()
    return play


def speed(rows: list[dict[str, Any]]) -> bool:
    """Compare random play with each peer."""
    met = True
    mine = {planes: ours(planes) for planes in (False, True)}
    peers: list[tuple[str, bool, Callable[[], Callable[[], int]], float | None]] = [
        ("pgx, no observations", False, lambda: theirs_pgx(False), 40),
        ("pgx, float planes on both sides", True, lambda: theirs_pgx(True), 10),
        ("OpenSpiel, one by one", False, theirs_openspiel, None),
        ("PettingZoo connect_four, one by one, its observations", True, theirs_pettingzoo, None),
        ("kaggle-environments, its own agents", False, theirs_kaggle, None),
    ]
    table = Table(title=f"random play, {BOARDS} boards of ours: moves a second", title_justify="left")
    for name in ("against", "ours", "theirs", "ratio", "bound"):
        table.add_column(name, justify="left" if name == "against" else "right")
    for what, planes, start, bound in peers:
        try:
            other = start()
        except ImportError as error:
            table.add_row(what, "", f"not installed: {error.name}", "", "")
            rows.append({"what": what, "missing": error.name})
            continue
        figures: tuple[list[float], list[float]] = ([], [])
        for _ in range(5):  # in turns
            figures[0].extend(moves_a_second(mine[planes], 2))
            figures[1].extend(moves_a_second(other, 2))
        best, their_best = max(figures[0]), max(figures[1])
        reached = bound is None or best / their_best >= bound
        met &= reached
        verdict = "" if bound is None else f"≥ {bound:g}× {'met' if reached else 'missed'}"
        table.add_row(what, f"{best / 1e6:.1f} M", f"{their_best:,.0f}", f"{best / their_best:,.1f}×", verdict)
        rows.append({"what": what, "ours": best, "theirs": their_best, "ratio": best / their_best, "bound": bound})
    Console(width=120).print(table)
    return met


def _load(stop: Any) -> None:
    while not stop.is_set():
        sum(range(100_000))


def positions(count: int) -> list[Board]:
    """Return boards of unfinished random games."""
    generator, boards = random.Random(0), []
    while len(boards) < count:
        board = Board()
        for _ in range(generator.randrange(30)):
            if board.over:
                break
            board = board.play(generator.choice(board.legal))
        if not board.over:
            boards.append(board)
    return boards


def budget(rows: list[dict[str, Any]], count: int) -> bool:
    """Measure the longest move with 100 ms, alone and beside a busy process."""
    met = True
    table = Table(title=f"{1000 * BUDGET:.0f} ms a move, {count} moves each: milliseconds", title_justify="left")
    for name in ("player", "", "mean", "99.9 %", "longest", "bound", "longest, processor's time"):
        table.add_column(name, justify="left" if name in ("player", "") else "right")
    for loaded in (False, True):
        context = multiprocessing.get_context("spawn")
        stop = context.Event()
        other = context.Process(target=_load, args=(stop,), daemon=True)
        if loaded:
            other.start()
        for name in ("minimax:100ms", "mcts:100ms"):
            seated, taken, own = player(name, seed=0), [], 0.0
            for board in positions(count):
                start, own_start = time.perf_counter(), time.thread_time()
                seated.choose(board)
                taken.append(time.perf_counter() - start)
                own = max(own, time.thread_time() - own_start)
            longest = max(taken)
            met &= longest <= LONGEST
            beside = "beside a busy process" if loaded else "alone"
            verdict = f"≤ {1000 * LONGEST:.0f} {'met' if longest <= LONGEST else 'missed'}"
            shown = (float(np.mean(taken)), float(np.quantile(taken, 0.999)), longest)
            table.add_row(name, beside, *(f"{1000 * value:.1f}" for value in shown), verdict, f"{1000 * own:.1f}")
            rows.append({"what": f"{name}, {beside}", "moves": count, "longest": longest, "own": own, "bound": LONGEST})
        stop.set()
        if loaded:
            other.join()
    Console(width=120).print(table)
    return met


def kaggle(rows: list[dict[str, Any]]) -> bool:
    """Play the exported solver against negamax."""
    file = export("solver", RESULTS / "submission.py")
    size = file.stat().st_size
    matches = list(validation.validate(file, [("negamax", 1, (6, 7, 4))] * 20))
    won = sum(match.result == "won" for match in matches)
    first, later = max(match.first_move for match in matches), max(match.slowest_later for match in matches)
    met = won == 20 and later <= 1.0 and size <= 10_000_000
    table = Table(title="the exported solver in kaggle-environments, first against negamax", title_justify="left")
    for name in ("won", "first move", "slowest later", "size", "bound"):
        table.add_column(name, justify="right")
    bound = f"20 wins, ≤ 1.0 s, ≤ 10 MB {'met' if met else 'missed'}"
    table.add_row(f"{won} of {len(matches)}", f"{first:.2f} s", f"{later:.3f} s", f"{size / 1e6:.2f} MB", bound)
    Console(width=120).print(table)
    rows.append({"what": "kaggle", "won": won, "first_move": first, "slowest_later": later, "size": size})
    return met


def main() -> int:
    """Run the benchmarks; return 1 if a bound is missed."""
    parser = argparse.ArgumentParser(description="Compare the board game with its peers.")
    parser.add_argument("parts", nargs="*", choices=["speed", "budget", "kaggle", []], default=[])
    parser.add_argument("--moves", type=int, default=2000, help="moves for each row of budget")
    arguments = parser.parse_args()
    parts = arguments.parts or ["speed", "budget", "kaggle"]
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    one_thread()
    RESULTS.mkdir(exist_ok=True)
    rows: list[dict[str, Any]] = []
    met = True
    if "speed" in parts:
        met &= speed(rows)
    if "budget" in parts:
        if cores:
            os.sched_setaffinity(0, cores)  # the operating system may choose the core, as in real use
        met &= budget(rows, arguments.moves)
    if "kaggle" in parts:
        met &= kaggle(rows)
    content = {"machine": machine(), "command": "python bench/connectx.py " + " ".join(parts), "rows": rows}
    path: Path = RESULTS / "connectx.json"
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    temporary.replace(path)
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
