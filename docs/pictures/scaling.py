"""Error against positions and against parameters: what more training, and what a larger network, would give.

    python docs/pictures/scaling.py --labels labels --runs runs/scaling [--without SETS] [--only 64x5] [--draw-only]

Trains networks of several sizes on several numbers of positions, each run whole (its learning rate falls to nothing at
its own end), with the options of the shipped network; grades all on the same held-out positions; writes scaling.json
and scaling.svg beside this file, and says what power of each the error goes with. A run that was stopped is gone on
with, one that is done is not made again: with --only, which draws nothing, several cores can train networks of one size
each, and then one draws.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from matplotlib.ticker import LogLocator, NullFormatter
from rich.console import Console

from regard import models
from regard.connectx.training import run as board_run
from regard.files import write_atomic
from regard.pictures.axes import simplify_frame
from regard.pictures.colours import theme_named
from regard.pictures.picture import Picture, drawing, new_figure
from regard.training.metrics import Metrics

HERE = Path(__file__).parent
SIZES = ((16, 3), (32, 4), (64, 5))  # channels, blocks
POSITIONS = (60_000, 120_000, 240_000, 480_000)
BATCH = 256
SHIPPED = (9_900_000, 1_273_411)  # positions, and parameters but for the memory
console = Console()


def trained(channels: int, layers: int, positions: int, given: argparse.Namespace) -> dict[str, float]:
    """What a run of this size came to; made, gone on with, or read."""
    folder = Path(given.runs) / f"{_named(channels, layers)}-{positions}"

    def report(row: Metrics) -> None:
        if row["split"] == "train":
            done = f"{row['step'] * BATCH:,} of {positions:,} positions, {row['positions_per_second']:.0f}/s"
            console.print(f"{folder.name}: {done}, loss {row['loss']:.3f}", end="\r", highlight=False)

    if not (folder / "run.json").exists():
        plan = board_run.BoardRunConfig("distill", labels=given.labels, excluded_sets=given.without)
        config = models.BoardConfig.preset(
            "small", channels=channels, layers=layers, attn_every=min(3, layers - 1), heads=4,
            score="columns", lines=4,
        )  # fmt: skip
        steps = positions // BATCH
        settings = board_run.default_settings(
            "distill", steps=steps, batch=BATCH, optimizer="muon", learning_rate=3e-3, warmup=min(200, steps // 5),
            evaluate_every=steps, threads=1,
        )  # fmt: skip
        board_run.start_run(plan, config, settings, folder, report=report)
    elif not board_run.read_board_run(folder).get("results"):
        board_run.resume_run(folder, report=report)
    results = board_run.read_board_run(folder)["results"]
    alone = results["alone"]
    found = {name: alone[name] for name in ("error", "error_begin", "error_middle", "error_end") if name in alone}
    console.print(f"{folder.name}: error {100 * found['error']:.2f} %", " " * 60, highlight=False)
    return {
        "channels": channels, "layers": layers, "parameters": results["parameters"], "positions": positions,
        "seconds": results["seconds"], **found,
    }  # fmt: skip


def picture(rows: list[dict[str, float]], theme: str = "light") -> Picture:
    """Error by positions, a line for each size; by parameters, a line for each number of positions."""
    title = "Moves that lose, on positions not learnt from"
    colours = theme_named(theme)
    with drawing(theme):
        figure = new_figure(9.2, 4.2)
        figure.suptitle(title, fontweight="bold", fontsize=12)
        sides = figure.subplots(1, 2, sharey=True)
        ways = (("positions", "parameters", "positions drawn"), ("parameters", "positions", "parameters"))
        for axes, (across, by, words) in zip(sides, ways, strict=True):
            kinds = sorted({row[by] for row in rows})
            for number, kind in enumerate(kinds):
                here = sorted((row for row in rows if row[by] == kind), key=lambda row: row[across])
                x, y = [row[across] for row in here], [100 * row["error"] for row in here]
                strength = 0.35 + 0.65 * (number + 1) / len(kinds)
                axes.plot(x, y, color=colours.accent, alpha=strength, linewidth=1.5, marker="o", markersize=4)
                axes.annotate(
                    _short(kind), (x[-1], y[-1]), xytext=(6, 0), textcoords="offset points", va="center", fontsize=8,
                    color=colours.faint,
                )  # fmt: skip
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0, 7.0)))
            axes.xaxis.set_major_formatter(lambda value, _: _short(value))
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_minor_formatter(NullFormatter())
            axes.margins(x=0.16, y=0.08)
            axes.set_xlabel(f"{words} (a line for each number of {by})")
            simplify_frame(axes, theme)
        sides[0].set_ylabel("error, mean of the board's thirds (%)")
    return Picture(figure, title, theme)


def law(rows: list[dict[str, float]], name: str) -> str:
    """The powers of positions and parameters that fit the error best, and what they foretell of the shipped network.

    The runs on the fewest positions are left out: most of what they have is the beginning.
    """
    used = [row for row in rows if row["positions"] > min(POSITIONS)]
    given = np.array([[1.0, np.log(row["positions"]), np.log(row["parameters"])] for row in used])
    fit, *_ = np.linalg.lstsq(given, np.log([row[name] for row in used]), rcond=None)
    foretold = 100 * np.exp(fit @ [1.0, *np.log(SHIPPED)])
    return f"{name}: positions^{fit[1]:.2f} · parameters^{fit[2]:.2f}; of the shipped network {foretold:.1f} %"


def _named(channels: int, layers: int) -> str:
    return f"{channels}x{layers}"


def _short(value: float) -> str:
    return f"{value / 1e6:.3g} M" if value >= 1e6 else f"{value / 1e3:.3g} k" if value >= 1e3 else f"{value:g}"


def main() -> int:
    """Train what is missing, then draw."""
    parser = argparse.ArgumentParser(description="Error against positions and parameters.")
    parser.add_argument("--labels", help="folder of labels")
    parser.add_argument("--without", help="folder of the standard sets, whose positions are left out")
    parser.add_argument("--runs", default="runs/scaling", help="folder of the runs")
    parser.add_argument("--only", choices=[_named(*size) for size in SIZES], help="train networks of one size")
    parser.add_argument("--draw-only", action="store_true", help="draw scaling.json as it is")
    given = parser.parse_args()
    kept = HERE / "scaling.json"
    if not given.draw_only:
        if given.labels is None:
            parser.error("say what to learn from: --labels FOLDER")
        sizes = [size for size in SIZES if given.only in (None, _named(*size))]
        found = [trained(*size, positions, given) for size in sizes for positions in POSITIONS]
        if given.only is not None:
            return 0
        write_atomic(kept, json.dumps(found, indent=1) + "\n")
    if not kept.exists():
        parser.error(f"there is no {kept} to draw yet: leave out --draw-only")
    rows = json.loads(kept.read_text(encoding="utf-8"))
    for name in ("error", "error_begin", "error_middle", "error_end"):
        print(law(rows, name))
    print(picture(rows).save(HERE / "scaling.svg"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
