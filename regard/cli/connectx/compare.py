"""`regard connectx compare`: train two network configurations under equal conditions and compare them."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import argument, option


def compare(
    a: Annotated[str, argument("CONFIG_A", "First network: a preset with changes, small,heads=4,sees=all+lines.")],
    b: Annotated[
        str, argument("CONFIG_B", "Second network; changes to the training follow a slash: small/learning_rate=1e-3.")
    ],
    budget: Annotated[str, option("N", "Training of each network: a time, 90s, 20m, 1h, or positions, 500k.")],
    labels: Annotated[str | None, option("FOLDER", "Labels made by `regard connectx label`.")] = None,
    method: Annotated[str, option("NAME", "Training method: distill, ppo or zero (AlphaZero).")] = "distill",
    seeds: Annotated[int, option("N", "Train this many networks of each configuration.")] = 3,
    games: Annotated[int, option("N", "Games between the two networks of each seed.")] = 40,
    out: Annotated[str, option("FOLDER", "Folder for the runs and the results.")] = "runs/comparison",
    picture: Annotated[str | None, option("FILE", "Picture file; comparison.png in the folder by default.")] = None,
) -> None:
    """Train two configurations for equal time or equal positions, with several seeds, and measure which is stronger.

    The networks are evaluated on solved positions and play each other. Ctrl-C stops the command; the same command
    continues it.

    Example: regard connectx compare small small,attn_every=none --budget 20m --labels labels
    """
    from rich.console import Console

    from regard import pictures
    from regard.cli.connectx.train import describe_evaluation
    from regard.connectx.training import compare as comparing
    from regard.training.interrupts import Interrupted
    from regard.training.metrics import Metrics

    console = Console(stderr=True)
    folder = Path(out)
    limit = comparing.Budget.parse(budget)
    folder.mkdir(parents=True, exist_ok=True)

    def report(row: Metrics) -> None:
        if row["split"] != "train":
            console.print("  " + describe_evaluation(row), highlight=False, soft_wrap=True)

    try:
        comparison = comparing.compare(
            a, b, limit, folder, method=method, labels=labels, seeds=seeds, games=games,
            announce=lambda text: console.print(text, highlight=False), report=report,
        )  # fmt: skip
    except Interrupted:
        console.print("stopped; a checkpoint is saved. The same command continues", highlight=False)
        raise typer.Exit(130) from None
    Console().print(comparison.table())
    typer.echo(comparison.verdict)
    path = pictures.comparison(comparison.results).save(picture or folder / "comparison.png")
    typer.echo(f"wrote {path} and {folder / 'comparison.json'}", err=True)
