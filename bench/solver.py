"""Compare the solver with bitbully on the standard position sets; and checks that take too long for the tests.

    python bench/solver.py                   # times on the six sets against bitbully, at most 70 s for each
    python bench/solver.py --only L1_R3 --seconds 480     # one set, every position or as many as the time allows
    python bench/solver.py check             # all 6,000 positions, all moves, against the published scores; resumable
    python bench/solver.py random            # 1,000 random positions of 0-20 stones, all moves, with the shipped book
    python bench/solver.py layer             # 500 positions with 10 stones, the hardest ones with that book; no bound

Both solvers solve the same positions in the same run on one core, in turns and in a fixed random order, without a book.
Their tables are cleared before each set. The sets are read from ../shared/data/connect4, or from the folder that --sets
names. Results are written to bench/results/solver*.json; a set measured alone replaces its row there.
Bounds: at most 1.0 times bitbully's time on five of six sets and 1.3 on each; 7 million nodes per second; with the book
a median of 20 ms and a maximum of 1 s; no wrong score.
"""

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from regard.connectx import Board, Solver
from regard.connectx.solver.build_book import positions_to_solve

RESULTS = Path(__file__).parent / "results"
SETS = ("L3_R1", "L2_R1", "L2_R2", "L1_R1", "L1_R2", "L1_R3")
AT_ONCE = {"L3_R1": 1000, "L2_R1": 1000, "L2_R2": 50, "L1_R1": 50, "L1_R2": 5, "L1_R3": 1}  # positions in a turn
ROUNDS = {"L3_R1": 7, "L2_R1": 5}
RATIO, RATIO_OF_FIVE, NODES = 1.3, 1.0, 7e6
MEDIAN, MAXIMUM = 0.02, 1.0  # seconds
console = Console(width=130)  # a table of ten columns, also when written to a file


def read(folder: Path, name: str) -> list[tuple[str, int, list[int | None]]]:
    """Return moves, score and the score of every column of all positions of a set."""
    positions = []
    for line in (folder / f"{name}.txt").read_text().splitlines():
        moves, score, *scores = line.split()
        positions.append((moves, int(score), [None if s == "x" else int(s) for s in scores]))
    return positions


def compare(folder: Path, names: Sequence[str], seconds: float) -> bool:
    """Compare the mean time per position with bitbully's."""
    from bitbully import bitbully_core as bitbully

    ours, theirs = Solver(book=None), bitbully.BitBullyCore()
    ours.get_ready()
    rows = []
    for name in names:
        sample = read(folder, name)
        random.Random(2026).shuffle(sample)
        best = [float("inf")] * 2
        began = time.monotonic()
        for turn in range(ROUNDS.get(name, 1)):
            ours.forget()
            theirs.resetTranspositionTable()
            theirs.resetNodeCounter()
            taken, wrong = [0.0, 0.0], [0, 0]
            n = 0
            while n < len(sample) and (turn or time.monotonic() < began + seconds):
                some = sample[n : n + AT_ONCE[name]]
                boards, cores = [Board.from_moves(moves) for moves, _, _ in some], []
                for moves, _, _ in some:
                    cores.append(bitbully.BoardCore())
                    for move in moves:
                        cores[-1].play(int(move) - 1)
                start = time.process_time()
                scores = [ours.score(board.position, board.mask) for board in boards]
                middle = time.process_time()
                other = [theirs.mtdf(core, 0) for core in cores]
                end = time.process_time()
                taken = [taken[0] + middle - start, taken[1] + end - middle]
                for i, found in enumerate((scores, other)):
                    wrong[i] += sum(score != true for score, (_, true, _) in zip(found, some, strict=True))
                n += len(some)
            best = [min(best[0], taken[0]), min(best[1], taken[1])]
        row = {
            "set": name, "positions": n, "ms": 1e3 * best[0] / n, "bitbully_ms": 1e3 * best[1] / n,
            "ratio": best[0] / best[1], "nodes": ours.nodes / n, "bitbully_nodes": theirs.getNodeCounter() / n,
            "nodes_per_second": ours.nodes / best[0], "bitbully_nodes_per_second": theirs.getNodeCounter() / best[1],
            "wrong": wrong[0], "bitbully_wrong": wrong[1],
        }  # fmt: skip
        rows.append(row)
        console.print(f"[dim]{name}: {n} positions, {row['ms']:.4f} ms, bitbully {row['bitbully_ms']:.4f} ms[/]")
    file = RESULTS / "solver.json"
    before = json.loads(file.read_text()) if file.exists() else []
    rows += [row for row in before if row["set"] not in names]
    rows.sort(key=lambda row: SETS.index(row["set"]))
    write("solver", rows)
    table = Table(
        "set", "positions", "ms", "bitbully", "ratio", "≤ 1.3", "nodes", "bitbully", "M nodes/s", "bitbully", "wrong"
    )
    for row in rows:
        table.add_row(
            row["set"], str(row["positions"]), f"{row['ms']:.4f}", f"{row['bitbully_ms']:.4f}", f"{row['ratio']:.2f}",
            verdict(row["ratio"] <= RATIO), f"{row['nodes']:,.0f}", f"{row['bitbully_nodes']:,.0f}",
            f"{row['nodes_per_second'] / 1e6:.1f}",
            f"{row['bitbully_nodes_per_second'] / 1e6:.1f}", str(row["wrong"]),
        )  # fmt: skip
    console.print(table)
    quick = sum(row["ratio"] <= RATIO_OF_FIVE for row in rows)
    console.print(f"at most 1.0 times bitbully's time on {quick} of {len(rows)} sets (bound: five of six)")
    # Over all sets together: in the easy ones the time is that of a call from Python.
    speed = sum(row["nodes"] * row["positions"] for row in rows) / sum(
        row["ms"] * row["positions"] / 1e3 for row in rows
    )
    console.print(
        f"{speed / 1e6:.1f} million nodes a second over all (bound: {NODES / 1e6:.0f}, {verdict(speed >= NODES)})"
    )
    return quick >= len(rows) - 1 and all(row["ratio"] <= RATIO for row in rows) and speed >= NODES


def verdict(met: bool) -> str:
    return "met" if met else "missed"


def check(folder: Path) -> bool:
    """Compare the scores of all moves of all positions with the published ones; continues after an interruption."""
    file = RESULTS / "solver_check.json"
    done = json.loads(file.read_text()) if file.exists() else {}
    solver = Solver(table_bits=25)
    for name in SETS:
        state = done.setdefault(name, {"checked": 0, "wrong": []})
        rest = read(folder, name)[state["checked"] :]
        saved = time.monotonic()
        try:
            for moves, score, scores in track(rest, f"{name}, {state['checked']} checked before", console=console):
                board = Board.from_moves(moves)
                if solver.score(board) != score or solver.scores(board) != scores:
                    state["wrong"].append(moves)
                state["checked"] += 1
                if time.monotonic() - saved > 20:
                    write("solver_check", done)
                    saved = time.monotonic()
        finally:
            write("solver_check", done)
    for name, state in done.items():
        console.print(f"{name}: {state['checked']} checked, {len(state['wrong'])} wrong {state['wrong'][:5]}")
    return not any(state["wrong"] for state in done.values())


def random_position(stones: int, generator: random.Random) -> Board:
    """Return a position of an unfinished game after random moves."""
    while True:
        try:
            board = Board.from_moves([generator.randint(0, 6) for _ in range(stones)])
        except ValueError:  # a full column, or a game that is over
            continue
        if not board.over:
            return board


def layer_positions(stones: int, count: int) -> list[Board]:
    """Return positions with this many stones that need a search, drawn uniformly from all of them."""
    positions, masks = positions_to_solve(stones, 6, 7, 4)
    chosen = np.random.default_rng(7).permutation(positions.size)[:count]
    return [Board.from_bits(int(positions[i]), int(masks[i]), check=False) for i in chosen]


def time_positions(boards: Sequence[Board], seconds: float | None, *, bound: bool = True) -> bool:
    """Measure the time for all moves of these positions with the shipped book."""
    solver = Solver()
    solver.get_ready()
    times: list[list[float]] = [[] for _ in range(43)]
    began = time.monotonic()
    for board in track(boards, "all moves of positions", console=console):
        solver.forget()
        start = time.process_time()
        solver.scores(board)
        times[board.mask.bit_count()].append(time.process_time() - start)
        if seconds and time.monotonic() - began > seconds:
            console.print("stopped early")
            break
    table = Table("stones", "positions", "median ms", "maximum ms", "over 1 s")
    rows = []
    measured = {str(stones): np.array(some) for stones, some in enumerate(times) if some}
    for name, some in {**measured, "all": np.concatenate(list(measured.values()))}.items():
        rows.append({"stones": name, "positions": some.size, "median": np.median(some), "maximum": some.max()})
        over = int((some > MAXIMUM).sum())
        table.add_row(name, str(some.size), f"{1e3 * np.median(some):.2f}", f"{1e3 * some.max():.1f}", str(over))
    if not bound:
        console.print(table)
        return True
    met = rows[-1]["median"] <= MEDIAN, rows[-1]["maximum"] <= MAXIMUM
    table.add_row("bound", "", f"≤ {1e3 * MEDIAN:.0f} {verdict(met[0])}", f"≤ {1e3 * MAXIMUM:.0f} {verdict(met[1])}")
    console.print(table)
    write("solver_random", rows)
    return all(met)


def write(name: str, found: object) -> None:
    """Write a result to bench/results."""
    RESULTS.mkdir(exist_ok=True)
    part = RESULTS / f"{name}.json.part"
    part.write_text(json.dumps(found, indent=2, default=float) + "\n", encoding="utf-8")
    part.replace(RESULTS / f"{name}.json")


def main() -> int:
    """Run one benchmark; return 1 if a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", default="compare", choices=["compare", "check", "random", "layer"])
    parser.add_argument("--only", nargs="+", choices=SETS, default=SETS, metavar="SET", help="compare only these sets")
    parser.add_argument("--sets", type=Path, default=Path(__file__).parents[2] / "shared" / "data" / "connect4")
    parser.add_argument("--count", type=int, help="number of positions; default 1,000 random ones, 500 of a layer")
    parser.add_argument(
        "--stones", type=int, help="most stones of a random position (default 20), or stones of the layer (default 10)"
    )
    parser.add_argument("--seconds", type=float, help="stop each set, or the random positions, after this many seconds")
    arguments = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    if arguments.what in ("compare", "check") and not arguments.sets.exists():
        console.print(f"skipped: the position sets are not in {arguments.sets} (see --sets)")
        return 0
    if arguments.what == "compare":
        return int(not compare(arguments.sets, arguments.only, arguments.seconds or 70))
    if arguments.what == "check":
        return int(not check(arguments.sets))
    if arguments.what == "layer":
        some = layer_positions(arguments.stones or 10, arguments.count or 500)
        return int(not time_positions(some, arguments.seconds, bound=False))
    generator = random.Random(2026)
    most = 20 if arguments.stones is None else arguments.stones
    some = [random_position(generator.randint(0, most), generator) for _ in range(arguments.count or 1000)]
    return int(not time_positions(some, arguments.seconds))


if __name__ == "__main__":
    sys.exit(main())
