"""`regard connectx compare`: two configurations of the network under equal conditions."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.errors import report_user_errors


def compare(
    a: Annotated[str, typer.Argument(metavar="CONFIG_A", help="A preset with changes: small,heads=4,sees=all+lines.")],
    b: Annotated[str, typer.Argument(metavar="CONFIG_B", help="Another; small/learning_rate=1e-3 changes training.")],
    budget: Annotated[str, typer.Option(metavar="N", help="For each network: 20m, 90s, 1h; or positions, 500k.")],
    labels: Annotated[str | None, typer.Option(metavar="FOLDER", help="Of `regard connectx label`.")] = None,
    method: Annotated[str, typer.Option(metavar="NAME", help="distill, ppo or zero.")] = "distill",
    seeds: Annotated[int, typer.Option(metavar="N", help="Networks of each configuration.")] = 3,
    games: Annotated[int, typer.Option(metavar="N", help="Between the two networks of a seed.")] = 40,
    out: Annotated[str, typer.Option(metavar="FOLDER", help="Where runs and report go.")] = "runs/comparison",
    picture: Annotated[
        str | None, typer.Option(metavar="FILE", help="comparison.png in the folder if not given.")
    ] = None,
) -> None:
    """Train two configurations under equal time or equal positions, with several seeds, and measure which is stronger.

    Networks are graded by the solver and play each other. Ctrl-C stops it; the same command goes on.

    Example: regard connectx compare small small,attn_every=none --budget 20m --labels labels
    """
    with report_user_errors("connectx compare"):
        from rich.console import Console

        from regard import pictures, training
        from regard.connectx.training import compare as comparing

        console = Console(stderr=True)
        folder = Path(out)
        limit = comparing.Budget.read(budget)
        folder.mkdir(parents=True, exist_ok=True)

        def shown(row: training.Metrics) -> None:
            if row["split"] == "grade":
                from regard.cli.connectx.train import graded

                console.print("  " + graded(row), highlight=False, soft_wrap=True)

        try:
            done = comparing.compare(
                a, b, limit, folder, method=method, labels=labels, seeds=seeds, games=games,
                said=lambda text: console.print(text, highlight=False), shown=shown,
            )  # fmt: skip
        except training.Interrupted:
            console.print("stopped; nothing is lost. The same command goes on", highlight=False)
            raise typer.Exit(130) from None
        Console().print(comparing.table(done))
        typer.echo(done.verdict)
        path = pictures.comparison(done.found).save(picture or folder / "comparison.png")
        typer.echo(f"wrote {path} and {folder / 'comparison.json'}", err=True)
