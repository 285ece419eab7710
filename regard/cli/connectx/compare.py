"""`regard connectx compare`: train two network configurations under equal conditions and compare them."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Address, EngineName, argument, option


def compare(
    a: Annotated[str, argument("CONFIG_A", "First network: a preset with changes, small,heads=4,sees=all+lines.")],
    b: Annotated[
        str, argument("CONFIG_B", "Second network; changes to the training follow a slash: small/learning_rate=1e-3.")
    ],
    budget: Annotated[str, option("N", "Training of each network: CPU time, 90s, 20m, 1h, or positions, 500k.")],
    labels: Annotated[str | None, option("FOLDER", "Labels made by `regard connectx label`.")] = None,
    method: Annotated[str, option("NAME", "Training method: distill, ppo or zero (AlphaZero).")] = "distill",
    seeds: Annotated[int, option("N", "Train this many networks of each configuration.")] = 3,
    games: Annotated[int, option("N", "Games between the two networks of each seed.")] = 40,
    out: Annotated[str, option("FOLDER", "Folder for the runs and the results.")] = "runs/comparison",
    processes: Annotated[
        int | None, option("N", "Train N networks at the same time; 0: one per core. Default: 1, with ray all.", min=0)
    ] = None,
    engine: EngineName = "processes",
    address: Address = None,
    picture: Annotated[str | None, option("FILE", "Picture file; comparison.png in the folder by default.")] = None,
) -> None:
    """Train two configurations for equal CPU time or equal positions, with several seeds, and compare their strength.

    The networks are evaluated on solved positions and play each other. Ctrl-C stops the command; the same command
    continues it.

    Example: regard connectx compare small small,attn_every=none --budget 20m --labels labels
    """
    from rich.console import Console

    from regard import pictures
    from regard.cli.connectx.train import describe_row
    from regard.connectx.training import compare as comparing
    from regard.parallel import make_engine
    from regard.training.interrupts import Interrupted
    from regard.training.metrics import Metrics

    console = Console(stderr=True)
    folder = Path(out)
    limit = comparing.Budget.parse(budget)

    def report(row: Metrics) -> None:
        if row["split"] != "train":
            console.print(f"  {describe_row(row)}", highlight=False, soft_wrap=True)

    count = (1 if engine == "processes" else 0) if processes is None else processes
    try:
        with make_engine(engine, address, count) as workers:
            comparison = comparing.compare(
                a, b, limit, folder, method=method, labels=labels, seeds=seeds, games=games, engine=workers,
                announce=lambda text: console.print(text, highlight=False), report=report,
            )  # fmt: skip
    except (Interrupted, KeyboardInterrupt):
        console.print("stopped; a checkpoint is saved. The same command continues", highlight=False)
        raise typer.Exit(130) from None
    Console().print(comparison.table())
    typer.echo(comparison.verdict)
    path = pictures.comparison(comparison.results).save(picture or folder / "comparison.png")
    typer.echo(f"wrote {path} and {folder / 'comparison.json'}", err=True)
