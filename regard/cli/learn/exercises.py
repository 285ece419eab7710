"""`regard learn status`, `next`, `run`, `watch`, `hint` and `solution`: programming exercises."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.learn.prompts import Lang, Terminal, load_progress
from regard.cli.options import argument, flag, option
from regard.files import write_atomic

if TYPE_CHECKING:
    from regard.learn import Exercise, Progress

Name = Annotated[str | None, argument("NAME", "Exercise, as 01-softmax, softmax or 1; default: the first not passed.")]
File = Annotated[Path, argument("FILE", "File with your code, named after its exercise.")]
ExerciseName = Annotated[str | None, option("NAME", "Exercise, if the file is not named after it.", "--exercise")]


def status(lang: Lang = None) -> None:
    """List all exercises with your runs, hints and results."""
    from regard.learn.terminal import print_status

    terminal = Terminal(lang)
    print_status(load_progress(), terminal.language, terminal.console)


def next_exercise(
    name: Name = None,
    folder: Annotated[Path, option("FOLDER", "Folder for the file with the starter code.")] = Path(),
    overwrite: Annotated[bool, flag("--overwrite", "Replace an existing file by the starter code.")] = False,
    lang: Lang = None,
) -> None:
    """Show the next exercise and write its starter code into the current folder.

    Example: regard learn next, then regard learn watch 01-softmax.py
    """
    from regard.learn.terminal import print_exercise

    terminal = Terminal(lang)
    exercise = _choose_exercise(name, load_progress())
    if exercise is None:
        terminal.console.print(terminal.text("finished"))
        return
    if not folder.is_dir():
        raise ValueError(f"--folder must be a folder that exists, got {folder}")
    print_exercise(exercise, terminal.language, terminal.console)
    file = folder / f"{exercise.name}.py"
    terminal.console.print()
    if file.exists() and not overwrite:
        terminal.console.print(terminal.text("kept", file=file), highlight=False)
    else:
        write_atomic(file, exercise.starter)
    terminal.console.print(terminal.text("written", file=file), highlight=False, soft_wrap=True)


def run(
    file: File,
    exercise_name: ExerciseName = None,
    seed: Annotated[int | None, option("N", "Seed of the test cases; default: new cases every time.", min=0)] = None,
    json: Annotated[bool, flag("--json", "Print the verdict as JSON.")] = False,
    lang: Lang = None,
) -> None:
    """Grade your code and name its mistake. The exit code is 0 if it passes and 1 if not.

    The code runs in a separate process, limited to 5 seconds and 1 GB; `regard learn doctor` shows how it is isolated.
    """
    from regard.learn import grade
    from regard.learn.terminal import print_verdict

    terminal = Terminal(lang)
    exercise = _exercise_of_file(file, exercise_name)
    verdict = grade(exercise, _read(file), seed)
    load_progress().record_attempt(exercise, verdict, file)
    if json:
        import json as json_format

        typer.echo(json_format.dumps(verdict.to_json(), ensure_ascii=False, indent=1))
    else:
        print_verdict(verdict, terminal.language, terminal.console)
        if not verdict.isolated:
            terminal.say("not-isolated")
    raise typer.Exit(0 if verdict.passed else 1)


def watch(file: File, exercise_name: ExerciseName = None, lang: Lang = None) -> None:
    """Grade your code every time you save it, until it passes. Press Ctrl-C to stop."""
    from regard.learn import grade
    from regard.learn.file_changes import watch_file
    from regard.learn.terminal import print_verdict

    terminal, progress = Terminal(lang), load_progress()
    exercise = _exercise_of_file(file, exercise_name)
    _read(file)
    terminal.console.print(terminal.text("watching", file=file), style="dim", highlight=False)
    warned = False
    try:
        for source in watch_file(file):
            verdict = grade(exercise, source)
            progress.record_attempt(exercise, verdict, file)
            terminal.console.rule(style="dim")
            print_verdict(verdict, terminal.language, terminal.console)
            if not verdict.isolated and not warned:
                terminal.say("not-isolated")
                warned = True
            if verdict.passed:
                return
    except KeyboardInterrupt:
        terminal.console.print("\n" + terminal.text("stopped"), style="dim")


def hint(name: Name = None, lang: Lang = None) -> None:
    """Show the next hint of an exercise; the last one is nearly the solution."""
    from regard.learn.terminal import print_hint

    terminal, progress = Terminal(lang), load_progress()
    exercise = _choose_exercise(name, progress)
    if exercise is None:
        terminal.console.print(terminal.text("finished"))
        return
    shown_hints = progress.exercise_record(exercise).hints
    which = min(shown_hints, len(exercise.hints(terminal.language)) - 1)
    print_hint(exercise, which, terminal.language, terminal.console)
    if which == shown_hints:
        progress.record_hint(exercise)


def solution(
    name: Name = None,
    way: Annotated[str | None, option("NAME", "Show another correct solution, e.g. loops.")] = None,
    force: Annotated[bool, flag("--force", "Show the solution even if you have not passed.")] = False,
    lang: Lang = None,
) -> None:
    """Show the reference solution of an exercise that you have passed."""
    from regard.learn import exercises
    from regard.learn.terminal import print_solution

    terminal, progress = Terminal(lang), load_progress()
    exercise = _choose_exercise(name, progress) or exercises()[-1]
    passed = progress.exercise_record(exercise).passed is not None
    if not passed and not force:
        raise ValueError(
            f"{exercise.name} is not passed yet; run regard learn hint {exercise.name} for a hint, "
            "or add --force to see the solution now"
        )
    print_solution(exercise, terminal.language, terminal.console, forced=not passed, way=way)


def _choose_exercise(name: str | None, progress: "Progress") -> "Exercise | None":
    """Return the exercise of this name, or the first not passed; None if all are passed."""
    from regard.learn import find_exercise

    return progress.next_exercise() if name is None else find_exercise(name)


def _exercise_of_file(file: Path, name: str | None) -> "Exercise":
    from regard.learn import find_exercise

    try:
        return find_exercise(name or file.stem)
    except ValueError as error:
        if name:
            raise
        raise ValueError(f"{file.name} is not named after an exercise; add --exercise NAME, e.g. softmax") from error


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} must be text in UTF-8: {error}") from error
