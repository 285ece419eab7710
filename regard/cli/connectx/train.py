"""`regard connectx train`: a network, by distillation, PPO or AlphaZero."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.errors import report_user_errors
from regard.durations import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from regard.training import Settings


def train(
    method: Annotated[str | None, typer.Option(metavar="NAME", help="distill, ppo or zero.")] = None,
    labels: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Of `regard connectx label`: to learn from, or be graded by.")
    ] = None,
    without: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Of the standard sets: their positions are not learnt from.")
    ] = None,
    out: Annotated[str | None, typer.Option(metavar="RUN", help="Folder of the run.")] = None,
    resume: Annotated[str | None, typer.Option(metavar="RUN", help="Go on with a run that was stopped.")] = None,
    more: Annotated[bool, typer.Option("--more", help="With --resume: take the labels made since, too.")] = False,
    start: Annotated[
        str | None, typer.Option(metavar="RUN", help="Begin with this network's weights; its memory stays.")
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="small, tiny, light, balanced or high; small to distill, tiny to play."),
    ] = None,
    channels: Annotated[int | None, typer.Option(metavar="N", help="Of the network.")] = None,
    layers: Annotated[
        int | None, typer.Option(metavar="N", help="Residual blocks; with --start, new ones that do nothing at first.")
    ] = None,
    heads: Annotated[
        str | None, typer.Option(metavar="N", help="Of attention; 4,0.5:8 for 4, and 8 from half of the training on.")
    ] = None,
    attn_every: Annotated[int | None, typer.Option(metavar="N", help="Attention after so many blocks.")] = None,
    sees: Annotated[str | None, typer.Option(metavar="KINDS", help="What heads see: all,near3,row,lines …")] = None,
    lines: Annotated[bool, typer.Option(help="Show the network which lines are complete or open.")] = True,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="An option of ppo or zero, such as games=64; repeated."),
    ] = None,
    minutes: Annotated[float | None, typer.Option(metavar="N", help="Train for so long.")] = None,
    steps: Annotated[int | None, typer.Option(metavar="N", help="Updates of the weights instead.")] = None,
    batch: Annotated[int | None, typer.Option(metavar="N", help="Positions of one update.")] = None,
    optimizer: Annotated[
        str | None, typer.Option(metavar="NAME", help="adamw, or muon, which learns more from each position.")
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(metavar="X", help="The highest.")] = None,
    weight_decay: Annotated[float | None, typer.Option(metavar="X", help="Of matrices.")] = None,
    evaluate_every: Annotated[int | None, typer.Option(metavar="N", help="Updates between two gradings.")] = None,
    checkpoint_every: Annotated[int | None, typer.Option(metavar="N", help="Updates between checkpoints.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", min=0, help="Of weights and batches.")] = None,
    threads: Annotated[int | None, typer.Option(metavar="N", help="Of the processor.")] = None,
    device: Annotated[str | None, typer.Option(metavar="NAME", help="cpu or cuda; cuda where there is one.")] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write metrics for TensorBoard, too.")] = False,
) -> None:
    """Train a network that plays.

    distill learns from positions that the solver has scored, ppo and zero from games against itself. Networks are
    graded by the solver, on positions they have not learnt from, and the best is kept. Ctrl-C saves a checkpoint, and
    --resume RUN goes on as if nothing had happened. Several processes: torchrun --nproc-per-node 2 -m -- regard …

    Example: regard connectx train --method distill --labels labels --minutes 60 --out runs/mine
    """
    with report_user_errors("connectx train"):
        from rich.console import Console

        from regard import models, training
        from regard.connectx.training import run as starting

        console = Console(stderr=True, quiet=os.environ.get("RANK", "0") != "0")
        asked: dict[str, Any] = {
            "minutes": minutes, "steps": steps, "batch": batch, "optimizer": optimizer,
            "learning_rate": learning_rate, "weight_decay": weight_decay, "evaluate_every": evaluate_every,
            "checkpoint_every": checkpoint_every, "seed": seed, "threads": threads,
        }  # fmt: skip
        sizes: dict[str, Any] = {"channels": channels, "layers": layers, "attn_every": attn_every}
        named: dict[str, Any] = {
            "method": method,
            "labels": labels,
            "without": without,
            "out": out,
            "start": start,
            "heads": heads,
            "sees": sees,
        }
        asked, sizes, named = ({k: v for k, v in d.items() if v is not None} for d in (asked, sizes, named))
        if resume is not None:
            if given := [*asked, *sizes, *named]:
                options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
                raise ValueError(f"a resumed run keeps what it began with: leave out {options}, or start a new run")
            folder = Path(resume)
            _, _, settings = starting.training_plan(folder)
        else:
            if method is None or out is None:
                raise ValueError("say how to train, --method distill, ppo or zero, and where to, --out RUN")
            folder = Path(out)
            points = read_heads(heads) if heads else ()
            changes: dict[str, Any] = {**sizes, "score": "columns", "lines": 4 if lines else None}
            changes |= {"heads": points[0][1]} if points else {}
            changes |= {"sees": tuple(sees.split(","))} if sees else {}
            if method == "ppo":
                changes["norm"] = "group"  # batch norms differ between play and training
            if start is None:
                preset = preset or ("small" if method == "distill" else "tiny")
                config = models.BoardConfig.preset(preset, **changes)
            else:
                own = {"preset": preset, "channels": channels, "attn_every": attn_every, "heads": heads, "sees": sees}
                if brought := [name for name, value in own.items() if value is not None]:
                    options = ", ".join(f"--{name.replace('_', '-')}" for name in brought)
                    raise ValueError(
                        f"the network of --start brings its own: leave out {options}; only --layers may grow"
                    )
                config = starting.grown(start, layers)
            settings = starting.default_settings(method, **asked)
            plan = starting.Plan(
                method, labels=labels, without=without, start=start, heads=points if len(points) > 1 else (),
                options=starting.read_options(method, set_ or []),
            )  # fmt: skip
        try:
            with shown_progress(settings, console) as shown:
                how: dict[str, Any] = {"device": device, "tensorboard": tensorboard, "shown": shown}
                if resume is not None:
                    finished = starting.resume(folder, more=more, **how)
                else:
                    finished = starting.start(plan, config, settings, folder, **how)
        except training.Interrupted:
            again = f"regard connectx train --resume {folder}"
            console.print(f"stopped; nothing is lost. Go on with: {again}", highlight=False, soft_wrap=True)
            raise typer.Exit(130) from None
        if finished.first:
            _report(finished.folder, finished.results, console)


def read_heads(text: str) -> tuple[tuple[float, int], ...]:
    """The number of heads, or a schedule of it.

    >>> read_heads("8"), read_heads("4,0.5:8")
    (((0.0, 8),), ((0.0, 4), (0.5, 8)))
    """
    points = []
    for part in text.split(","):
        share, _, count = part.rpartition(":")
        try:
            points.append((float(share or 0), int(count)))
        except ValueError:
            raise ValueError(f"--heads takes a number, or a schedule such as 4,0.5:8, got {text!r}") from None
    return tuple(points)


def shown_progress(settings: "Settings", console: "Console") -> Any:
    """The latest numbers with the time left on one line, and a line for every grading."""
    from contextlib import contextmanager

    from rich.progress import BarColumn, Progress, TextColumn

    from regard import training

    @contextmanager
    def showing() -> "Iterator[Any]":
        columns = (TextColumn("step {task.fields[step]:,}"), BarColumn(bar_width=20), TextColumn("{task.fields[said]}"))
        past: list[tuple[float, float]] = []
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
            task = bar.add_task("", total=1.0, step=0, said="")

            def shown(row: dict[str, Any]) -> None:
                share = settings.share(row["step"], row["seconds"])
                if row["split"] == "train":
                    past.append((share, row["seconds"]))
                    left = format_duration(training.time_left(past, row["seconds"]))
                    said = f"loss {row['loss']:.4f} · {row['positions_per_second']:,.0f} positions/s · {left} left"
                    bar.update(task, completed=share, step=row["step"], said=said)
                    if "entropy" in row:
                        console.print(numbers(row), highlight=False, soft_wrap=True)
                else:
                    console.print(graded(row), highlight=False, soft_wrap=True)

            yield shown

    return showing()


def graded(row: dict[str, Any]) -> str:
    """A grading in words."""

    thirds = ", ".join(
        f"{name} {100 * row[f'error_{name}']:.2f}" for name in ("begin", "middle", "end") if f"error_{name}" in row
    )
    won = "".join(
        f"   won against {name.removeprefix('won_against_').replace('_', ':')} {100 * value:.0f} %"
        for name, value in row.items() if name.startswith("won_against_")
    )  # fmt: skip
    return (
        f"step {row['step']:>7,}   {format_duration(row['seconds']):>8}   error {100 * row['error']:.2f} % ({thirds})"
        f"   perfect {100 * row['perfect']:.1f} %{won}"
    )


def numbers(row: dict[str, Any]) -> str:
    """The numbers of an update."""
    left_out = ("step", "split", "seconds", "learning_rate", "positions_per_second")
    said = "  ".join(f"{name} {value:.4g}" for name, value in row.items() if name not in left_out)
    return f"step {row['step']:>5}  {said}"


def _report(folder: Path, results: dict[str, Any], console: "Console") -> None:
    """What the run reached, and its curves."""
    from regard import pictures, training

    alone, both = results["alone"], results["mirrored"]
    typer.echo(f"{folder}: {results['parameters']:,} parameters, {results['positions']:,} positions learnt from")
    spent = f"{format_duration(results['seconds'])} ({format_duration(results['processor_seconds'])} of processor time)"
    typer.echo(f"{results['steps']:,} updates in {spent}; the best network is that of {results['best_step']:,}")
    for name, found in (("alone", alone), ("mirror-averaged", both)):
        errors = ", ".join(
            f"{third} {100 * found[f'error_{third}']:.2f}" for third in ("begin", "middle", "end")
            if f"error_{third}" in found
        )  # fmt: skip
        typer.echo(f"{name}: error {100 * found['error']:.2f} % ({errors}), perfect {100 * found['perfect']:.1f} %")
    rows = training.read_metrics(folder / "metrics.jsonl")
    path = pictures.board_training_curves(rows, title=folder.name).save(folder / "curves.png")
    typer.echo(f"wrote {path}")
    console.print(f"use it: regard connectx play network:{folder}", highlight=False, markup=False, soft_wrap=True)
