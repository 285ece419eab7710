"""`regard claims`: list, run, show and report the textbook claims."""

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.errors import report_user_errors
from regard.cli.options import Address, EngineName, add_command, argument, flag, group, option
from regard.languages import choose_language

if TYPE_CHECKING:
    from regard.claims import Size

app = group("claims", "Textbook claims about attention, tested by experiments with a verdict.")

Folder = Annotated[str | None, option("DIR", "Folder with result files. Default: ./claims, then the shipped results.")]
Lang = Annotated[str | None, option("CODE", "Language: en or zh. Default: that of the locale.")]


@app.callback(invoke_without_command=True)
@report_user_errors("claims")
def list_claims(context: typer.Context, out: Folder = None, lang: Lang = None) -> None:
    """List the claims with their verdicts.

    Example: regard claims run scale mask, then regard claims show mask
    """
    if context.invoked_subcommand is not None:  # options before the command are the defaults of the command's options
        options = {name: value for name, value in (("out", out), ("lang", lang)) if value is not None}
        context.default_map = dict.fromkeys(("run", "show", "report"), options)
        return
    from rich.console import Console

    from regard.claims import claims, claims_table

    Console().print(claims_table(claims(), out, choose_language(lang)))


def run(
    names: Annotated[list[str] | None, argument("NAME...", "Claims to run; `regard claims` lists their names.")] = None,
    every: Annotated[bool, flag("--all", "Run all claims.")] = False,
    full: Annotated[bool, flag("--full", "Run the full size, which takes hours.")] = False,
    tiny: Annotated[bool, flag("--tiny", "Run a tiny size that takes seconds; its verdict means nothing.")] = False,
    seeds: Annotated[int | None, option("N", "Number of seeds of each experiment.", min=1)] = None,
    again: Annotated[bool, flag("--again", "Discard stored results and start anew.")] = False,
    out: Annotated[str, option("DIR", "Folder for the result files NAME.json.")] = "claims",
    processes: Annotated[
        int | None, option("N", "Number of processes; 0 uses one per core. Default: 1, with ray all cores.", min=0)
    ] = None,
    engine: EngineName = "processes",
    address: Address = None,
) -> None:
    """Run claims and print their verdicts. After Ctrl-C the same command resumes: finished parts are stored.

    With several processes, or --engine ray, several parts are measured at the same time, except those of claims about
    times; the rows are the same. Every part computes with torch's number of threads: set OMP_NUM_THREADS=1 to use one.

    Example: regard claims run scale positions
    """
    if every == bool(names):
        raise ValueError("name the claims to run, or give --all; regard claims lists them")
    if full and tiny:
        raise ValueError("give either --full or --tiny, got both")
    from rich.console import Console
    from rich.markup import escape

    from regard import claims
    from regard.cli.progress_bar import count_bar
    from regard.parallel import make_engine

    size: Size = "full" if full else "tiny" if tiny else "default"
    selection = [claims.claim_named(name) for name in (claims.NAMES if every else dict.fromkeys(names or ()))]
    console, done, name = Console(stderr=True, highlight=False, soft_wrap=True), 0, ""
    total = sum(claims.count(claim, size, seeds) for claim in selection)
    workers = make_engine(engine, address, (1 if engine == "processes" else 0) if processes is None else processes)
    try:
        for claim in selection:
            name = claim.name
            with count_bar(name, claims.count(claim, size, seeds)) as advance:

                def on_part(_: object, advance: Callable[..., None] = advance) -> None:
                    nonlocal done
                    done += 1
                    advance()

                result = claims.run(claim, size, seeds=seeds, folder=out, again=again, engine=workers, on_part=on_part)
            typer.echo(f"{name}: {claims.verdict_text(claim.judge(result.rows))}")
            console.print(escape(f"  {result.seconds:,.0f} s; {os.path.join(out, name)}.json"), style="dim")
    except KeyboardInterrupt:
        console.print(f"stopped in {name} after {done} of {total} parts; the same command resumes the run")
        raise typer.Exit(130) from None
    finally:
        workers.close()


def show(
    name: Annotated[str, argument("NAME", "Claim to show; `regard claims` lists the names.")],
    picture: Annotated[str | None, option("FILE", "Write the chart to a .png, .svg, .pdf or .html file.")] = None,
    rows: Annotated[bool, flag("--rows", "Print the measured rows instead, as one JSON object a line.")] = False,
    out: Folder = None,
    lang: Lang = None,
) -> None:
    """Show one claim: the statement, the experiment, the rule, the verdict, the statements and the figures.

    Example: regard claims show quadratic --picture quadratic.png
    """
    from rich.console import Console

    from regard.claims import claim_named, claim_text, find

    claim = claim_named(name)
    if rows:
        stored = find(name, out)
        if stored is None:
            raise ValueError(f"there is no result of {name}; run: regard claims run {name}")
        for row in stored.rows:
            typer.echo(json.dumps(row, ensure_ascii=False))
        return
    Console(highlight=False, markup=False).print(claim_text(claim, out, choose_language(lang)))
    if picture is not None:
        result = find(name, out)
        if result is None or not result.complete:
            raise ValueError(f"there is no complete result of {name} to draw; run: regard claims run {name}")
        typer.echo(f"wrote {claim.draw(result.rows).save(picture)}", err=True)


def report(
    file: Annotated[
        str | None, argument("FILE", "Markdown file; plots go to a folder of the same name. Default: docs/claims.md.")
    ] = None,
    pdf: Annotated[bool, flag("--pdf", "Write a summary of one page instead; FILE is claims.pdf by default.")] = False,
    out: Annotated[str | None, option("DIR", "Folder with result files. Default: the shipped results.")] = None,
) -> None:
    """Write a page of all claims with statements, figures, plots and verdicts, from the stored results.

    Example: regard claims report claims.md --out claims
    """
    from regard.claims import SHIPPED, save_summary, write_report

    folder = SHIPPED if out is None else out
    if pdf:
        typer.echo(f"wrote {save_summary(file or 'claims.pdf', folder)}")
        return
    for path in write_report(file or "docs/claims.md", folder):
        typer.echo(f"wrote {path}")


for command in (run, show, report):
    add_command(app, command, f"claims {command.__name__}")
