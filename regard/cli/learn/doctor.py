"""`regard learn doctor`: how this machine is protected from the code of an exercise."""

from typing import Annotated

import typer

from regard.cli.learn.prompts import Lang, Terminal
from regard.cli.options import flag


def doctor(
    json: Annotated[bool, flag("--json", "Print the report as JSON.")] = False,
    lang: Lang = None,
) -> None:
    """Report how this machine is protected from the code that the exercises run, layer by layer.

    A trial program, run with the audit hook off, tries to leave the sandbox. The exit code is 1 if it can.
    """
    from rich.table import Table

    from regard.learn.sandbox.layers import check_protection

    terminal = Terminal(lang)
    report, language = check_protection(), terminal.language
    contained = report.isolated and not any(possible for _, possible in report.trials)
    if json:
        import json as json_format
        from dataclasses import asdict

        typer.echo(json_format.dumps(asdict(report), ensure_ascii=False, indent=1))
        raise typer.Exit(0 if contained else 1)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in terminal.text("doctor-columns").split("|"):
        table.add_column(heading)
    for layer in report.layers:
        detail = layer.detail[language]
        if layer.active:
            state = terminal.text("layer-active") + (f" ({detail})" if detail else "")
        else:
            state = terminal.text("layer-missing", reason=detail)
        table.add_row(layer.title[language], state, layer.purpose[language])
    terminal.console.print(table, markup=False)
    terminal.print("\n" + terminal.text("doctor-trials"))
    for name, possible in report.trials:
        terminal.print(
            f"  {'✗' if possible else '✓'} {name[language]}: {terminal.text('possible' if possible else 'refused')}"
        )
    terminal.print("\n" + terminal.text("doctor-remains"))
    for text in report.remains:
        terminal.print(f"  · {text[language]}")
    terminal.print("\n" + terminal.text("isolated" if contained else "not-isolated"))
    raise typer.Exit(0 if contained else 1)
