"""`regard connectx train`: train a board network by distillation, PPO or AlphaZero."""

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import Address, EngineName, flag, option
from regard.cli.train import refuse_with_resume, without_none
from regard.durations import format_duration

if TYPE_CHECKING:
    from rich.console import Console


def train(
    method: Annotated[str | None, option("NAME", "Training method: distill, ppo or zero (AlphaZero).")] = None,
    labels: Annotated[
        str | None,
        option("FOLDER", "Labels made by `regard connectx label`: training data of distill, and evaluation data."),
    ] = None,
    without: Annotated[
        str | None, option("FOLDER", "Folder of the standard sets; exclude their positions from the labels.")
    ] = None,
    out: Annotated[str | None, option("RUN", "Folder of the new run.")] = None,
    resume: Annotated[str | None, option("RUN", "Continue this stopped run from its last checkpoint.")] = None,
    more: Annotated[bool, flag("--more", "With --resume: also use labels made since the run started.")] = False,
    start: Annotated[str | None, option("RUN", "Start from this network's weights, without its opening table.")] = None,
    preset: Annotated[
        str | None,
        option(
            "NAME", "Network preset: small, tiny, light, balanced or high; by default small for distill, else tiny."
        ),
    ] = None,
    channels: Annotated[int | None, option("N", "Channels of the network.")] = None,
    layers: Annotated[
        int | None, option("N", "Residual blocks; with --start, added blocks initially change nothing.")
    ] = None,
    heads: Annotated[str | None, option("N", "Attention heads; 4,0.5:8 means 4, then 8 from half-way on.")] = None,
    attn_every: Annotated[int | None, option("N", "Put an attention layer after every N residual blocks.")] = None,
    sees: Annotated[str | None, option("KINDS", "Squares visible to the heads, such as all,near3,row,lines.")] = None,
    lines: Annotated[bool, typer.Option(help="Give the network planes that mark complete and open lines.")] = True,
    set_: Annotated[
        list[str] | None, option("NAME=VALUE", "Option of ppo or zero, such as games=64; may be repeated.", "--set")
    ] = None,
    minutes: Annotated[float | None, option("N", "Stop after N minutes; the learning rate follows the clock.")] = None,
    steps: Annotated[int | None, option("N", "Stop after this many updates; with this, a seed repeats a run.")] = None,
    batch: Annotated[int | None, option("N", "Positions per update.")] = None,
    optimizer: Annotated[str | None, option("NAME", "Optimizer: adamw or muon (learns more per position).")] = None,
    learning_rate: Annotated[float | None, option("X", "Peak learning rate.")] = None,
    weight_decay: Annotated[float | None, option("X", "Weight decay, applied to matrices only.")] = None,
    evaluate_every: Annotated[int | None, option("N", "Updates between two evaluations.")] = None,
    checkpoint_every: Annotated[int | None, option("N", "Updates between two checkpoints.")] = None,
    seed: Annotated[int | None, option("N", "Seed of the initial weights and of the batches.", min=0)] = None,
    threads: Annotated[int | None, option("N", "Number of CPU threads.")] = None,
    device: Annotated[str | None, option("NAME", "Device: cpu or cuda; by default cuda if there is one.")] = None,
    processes: Annotated[
        int, option("N", "Processes that play the games of zero; 0 uses one per core, 1 plays in this process.", min=0)
    ] = 0,
    engine: EngineName = "processes",
    address: Address = None,
    tensorboard: Annotated[bool, flag("--tensorboard", "Write the metrics for TensorBoard, too.")] = False,
) -> None:
    """Train a board network.

    distill learns from positions that the solver has scored; ppo and zero learn from games against themselves. Networks
    are evaluated on solved positions that they have not learnt from, and the best one is kept. Ctrl-C saves a
    checkpoint; `--resume RUN` continues from it. To train with several processes: torchrun --nproc-per-node 2 -m --
    regard connectx train …

    Example: regard connectx train --method distill --labels labels --minutes 60 --out runs/mine
    """
    from rich.console import Console

    from regard.connectx.training import run as board_run
    from regard.cpu_count import available_cores
    from regard.parallel import make_engine
    from regard.training.interrupts import Interrupted
    from regard.training.progress import show_progress

    console = Console(stderr=True, quiet=os.environ.get("RANK", "0") != "0")
    changes: dict[str, Any] = {
        "minutes": minutes, "steps": steps, "batch": batch, "optimizer": optimizer,
        "learning_rate": learning_rate, "weight_decay": weight_decay, "evaluate_every": evaluate_every,
        "checkpoint_every": checkpoint_every, "seed": seed, "threads": threads,
    }  # fmt: skip
    sizes: dict[str, Any] = {
        "channels": channels, "layers": layers, "attn_every": attn_every, "heads": heads, "sees": sees
    }  # fmt: skip
    if resume is not None:
        others = {"method": method, "labels": labels, "without": without, "out": out, "start": start}
        refuse_with_resume(changes | sizes | others)
        folder = Path(resume)
        config, network, settings = board_run.read_board_configs(folder)
    else:
        if method is None or out is None:
            raise ValueError("give a method (--method distill, ppo or zero) and the folder of the new run (--out RUN)")
        folder = Path(out)
        schedule = parse_heads(heads) if heads else ()
        sizes |= {"heads": schedule[0][1] if schedule else None, "sees": tuple(sees.split(",")) if sees else None}
        sizes = without_none(sizes) | ({} if start is not None else {"lines": 4 if lines else None})
        network = board_run.network_config(method, preset, start, **sizes)
        settings = board_run.default_settings(method, **without_none(changes))
        config = board_run.BoardRunConfig(
            method, labels=labels, excluded_sets=without, start=start,
            head_schedule=schedule if len(schedule) > 1 else (),
            options=board_run.parse_options(method, set_ or []),
        )  # fmt: skip
    try:
        with ExitStack() as stack, show_progress(settings, console, unit="positions", describe=describe_row) as report:
            options: dict[str, Any] = {"device": device, "tensorboard": tensorboard, "report": report}
            if config.method == "zero":
                ranks = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
                each = processes or max(1, available_cores() // ranks) if engine == "processes" else processes
                options["engine"] = stack.enter_context(make_engine(engine, address, each))
            if resume is not None:
                result = board_run.resume_run(folder, new_labels=more, **options)
            else:
                result = board_run.start_run(config, network, settings, folder, **options)
    except Interrupted:
        again = f"regard connectx train --resume {folder}"
        console.print(f"stopped; a checkpoint is saved. Continue with: {again}", highlight=False, soft_wrap=True)
        raise typer.Exit(130) from None
    if result.first:
        _print_result(result.folder, result.results, console)


def parse_heads(text: str) -> tuple[tuple[float, int], ...]:
    """Return a schedule of the number of heads from text: pairs of progress and number.

    >>> parse_heads("8"), parse_heads("4,0.5:8")
    (((0.0, 8),), ((0.0, 4), (0.5, 8)))
    """
    schedule = []
    for part in text.split(","):
        progress, _, count = part.rpartition(":")
        try:
            schedule.append((float(progress or 0), int(count)))
        except ValueError:
            raise ValueError(f"--heads takes a number, or a schedule such as 4,0.5:8; got {text!r}") from None
    return tuple(schedule)


def describe_row(row: dict[str, Any]) -> str | None:
    """Return the line to print for a row of metrics: an evaluation, an update of self-play; None to print nothing."""
    if row["split"] == "preparation":
        return f"playing games: {row['buffer']:,} of {row['fewest']:,} positions before learning begins"
    if row["split"] != "train":
        return describe_evaluation(row)
    if "entropy" not in row and "mini_batches" not in row:
        return None
    hidden = ("step", "split", "seconds", "learning_rate", "positions_per_second")
    numbers = "  ".join(f"{name} {value:.4g}" for name, value in row.items() if name not in hidden)
    return f"step {row['step']:>5}  {numbers}"


def describe_evaluation(row: dict[str, Any]) -> str:
    """Return the metrics of an evaluation as one line of text."""
    won = "".join(
        f"   won against {name.removeprefix('won_against_').replace('_', ':')} {100 * value:.0f} %"
        for name, value in row.items() if name.startswith("won_against_")
    )  # fmt: skip
    return f"step {row['step']:>7,}   {format_duration(row['seconds']):>8}   {_errors(row)}{won}"


def _errors(metrics: dict[str, Any]) -> str:
    thirds = ", ".join(
        f"{third} {100 * metrics[f'error_{third}']:.2f}" for third in ("begin", "middle", "end")
        if f"error_{third}" in metrics
    )  # fmt: skip
    return f"error {100 * metrics['error']:.2f} % ({thirds}), perfect {100 * metrics['perfect']:.1f} %"


def _print_result(folder: Path, results: dict[str, Any], console: "Console") -> None:
    """Print the results and save the curves."""
    from regard import pictures, training

    typer.echo(f"{folder}: {results['parameters']:,} parameters, {results['positions']:,} positions in training")
    cpu = format_duration(results["processor_seconds"])
    duration = f"{format_duration(results['seconds'])} ({cpu} of CPU time)"
    typer.echo(f"{results['steps']:,} updates in {duration}; the best network is from update {results['best_step']:,}")
    typer.echo(f"network alone: {_errors(results['alone'])}")
    typer.echo(f"averaged with its mirror image: {_errors(results['mirrored'])}")
    rows = training.read_metrics(folder / "metrics.jsonl")
    path = pictures.board_training_curves(rows, title=folder.name).save(folder / "curves.png")
    typer.echo(f"wrote {path}")
    console.print(f"use it: regard connectx play network:{folder}", highlight=False, markup=False, soft_wrap=True)
