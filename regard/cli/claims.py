"""`regard claims`: list, run, show and report the claims."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.errors import report_user_errors

if TYPE_CHECKING:
    from regard.claims import Claim, Size
    from regard.languages import Language

app = typer.Typer(
    name="claims",
    help="Claims about attention, each as an experiment with a verdict.",
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Folder = Annotated[
    str | None, typer.Option(metavar="DIR", help="Results of this folder; ./claims, then the shipped, if none.")
]
Lang = Annotated[str | None, typer.Option(metavar="CODE", help="en or zh; the locale's unless given.")]


@app.callback(invoke_without_command=True)
def listed(context: typer.Context, out: Folder = None, lang: Lang = None) -> None:
    """List the claims with their verdicts.

    Example: regard claims run scale mask, then regard claims show mask
    """
    if context.invoked_subcommand is not None:
        return
    with report_user_errors("claims"):
        from rich.console import Console

        from regard.claims import claims, claims_table

        Console().print(claims_table(claims(), out, _language(lang)))


@app.command()
def run(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="Which; regard claims lists them.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    full: Annotated[bool, typer.Option("--full", help="The long version.")] = False,
    tiny: Annotated[bool, typer.Option("--tiny", help="A few seconds, to see that it works; proves nothing.")] = False,
    seeds: Annotated[int | None, typer.Option(metavar="N", min=1, help="Repeat everything so often.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Begin anew, whatever is stored.")] = False,
    out: Annotated[str, typer.Option(metavar="DIR", help="Where NAME.json is written.")] = "claims",
) -> None:
    """Run claims and judge them. Ctrl-C keeps every part that is done; the same command goes on.

    Example: regard claims run scale positions
    """
    with report_user_errors("claims run"):
        if every == bool(names):
            raise ValueError("say which claims to run, or --all; regard claims lists them")
        if full and tiny:
            raise ValueError("--full and --tiny exclude each other")
        from regard.claims import NAMES, claim_named

        chosen = [claim_named(name) for name in (NAMES if every else dict.fromkeys(names or ()))]
        _run(chosen, "full" if full else "tiny" if tiny else "default", seeds, again, out)


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Which; regard claims lists them.")],
    picture: Annotated[str | None, typer.Option(metavar="FILE", help="Draw it as .png, .svg, .pdf or .html.")] = None,
    out: Folder = None,
    lang: Lang = None,
) -> None:
    """Show a claim: what it says, what is done, the rule, the figures and the verdict.

    Example: regard claims show quadratic --picture quadratic.png
    """
    with report_user_errors("claims show"):
        from rich.console import Console

        from regard.claims import claim_named, claim_text, find

        one = claim_named(name)
        Console(highlight=False, markup=False).print(claim_text(one, out, _language(lang)))
        if picture is not None:
            result = find(name, out)
            if result is None or not result.complete:
                raise ValueError(f"there is no whole result of {name} to draw; run it with: regard claims run {name}")
            typer.echo(f"wrote {one.draw(result.rows).save(picture)}", err=True)


@app.command()
def report(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The page; plots go in a folder beside it.")
    ] = "docs/claims.md",
    out: Annotated[str | None, typer.Option(metavar="DIR", help="Results of this folder; the shipped if none.")] = None,
) -> None:
    """Write a page of all claims with figures, plots and verdicts, from the stored results.

    Example: regard claims report claims.md --out claims
    """
    with report_user_errors("claims report"):
        from regard.claims import SHIPPED, write_report

        for path in write_report(file, SHIPPED if out is None else out):
            typer.echo(f"wrote {path}")


def _run(chosen: "list[Claim]", size: "Size", seeds: int | None, again: bool, out: str) -> None:
    from rich.console import Console
    from rich.markup import escape

    from regard.claims import count, run, verdict_text
    from regard.cli.progress_bar import count_bar

    console, done = Console(stderr=True, highlight=False, soft_wrap=True), 0
    total = sum(count(one, size, seeds) for one in chosen)
    at = ""
    try:
        for one in chosen:
            at = one.name
            with count_bar(one.name, count(one, size, seeds)) as advance:

                def on_part(_: object, advance: Callable[..., None] = advance) -> None:
                    nonlocal done
                    done += 1
                    advance()

                result = run(one, size, seeds=seeds, folder=out, again=again, on_part=on_part)
            said = verdict_text(one.judge(result.rows))
            typer.echo(f"{one.name}: {said}")
            console.print(escape(f"  {result.seconds:,.0f} s; {os.path.join(out, one.name)}.json"), style="dim")
    except KeyboardInterrupt:
        console.print(f"stopped in {at} after {done} of {total} parts; they are kept, the same command goes on")
        raise typer.Exit(130) from None


def _language(asked: str | None) -> "Language":
    from regard.languages import choose_language

    return choose_language(asked)
