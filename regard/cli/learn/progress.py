"""`regard learn checklist`, `reset` and `export`: the learner's progress."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.learn.prompts import Lang, Terminal, load_progress
from regard.cli.options import argument, flag, write_text


def checklist(lang: Lang = None) -> None:
    """Show the checklist of mastery and how much of it you have done."""
    from regard.learn import checklist as items

    terminal = Terminal(lang)
    terminal.say("mastery")
    for item in items(load_progress()):
        mark = "[x]" if item.done else "[ ]"
        terminal.print(f" {mark} {item.title[terminal.language]} ({min(item.have, item.need)}/{item.need})")


def reset(
    name: Annotated[str | None, argument("NAME", "Exercise whose progress is deleted, e.g. softmax.")] = None,
    exercises: Annotated[bool, flag("--exercises", "Delete the progress of all exercises.")] = False,
    drills: Annotated[bool, flag("--drills", "Delete the progress of all drills.")] = False,
    cards: Annotated[bool, flag("--cards", "Delete the review history of all cards.")] = False,
    diagrams: Annotated[bool, flag("--diagrams", "Delete the progress of the diagrams.")] = False,
    everything: Annotated[bool, flag("--all", "Delete all progress.")] = False,
    sure: Annotated[bool, flag("--yes", "Do not ask for confirmation.")] = False,
    lang: Lang = None,
) -> None:
    """Delete your progress in one exercise or in whole parts of the course; your own files are not changed.

    Example: regard learn reset --cards --drills
    """
    from regard.learn import find_exercise

    terminal = Terminal(lang)
    options = {"exercises": exercises, "drills": drills, "cards": cards, "flow": diagrams, "path": False}
    sections = [section for section, selected in options.items() if selected or everything]
    if (name is None) == (not sections):
        raise ValueError("name what to delete: one exercise, or --exercises, --drills, --cards, --diagrams or --all")
    if name is not None:
        exercise = find_exercise(name)
        load_progress().clear_exercise(exercise)
        what = exercise.name
    else:
        what = ("、" if terminal.language == "zh" else ", ").join(terminal.text(section) for section in sections)
        if not sure and not typer.confirm(terminal.text("sure", what=what)):
            raise typer.Exit(1)
        progress = load_progress()
        progress.clear(*sections)
        progress.save()
    typer.echo(terminal.text("forgotten", what=what))


def export(
    file: Annotated[Path | None, argument("FILE", "File to write; default and -: standard output.")] = None,
) -> None:
    """Write your progress as JSON, as a backup or to move it to another machine."""
    write_text(load_progress().to_json(), "-" if file is None or str(file) == "-" else file, end="")
