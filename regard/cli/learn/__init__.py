"""`regard learn`: exercises, graded where you write them; drills and cards are in files of their own."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.errors import report_user_errors
from regard.cli.learn.cards import cards, interview
from regard.cli.learn.drills import checklist, diagram, drill
from regard.cli.learn.prompts import Lang, load_state
from regard.files import write_atomic

if TYPE_CHECKING:
    from regard.languages import Language
    from regard.learn import Exercise, Progress

learn = typer.Typer(
    name="learn",
    help="Learn attention: write it, compute it by hand, be asked about it, in English or 中文.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="01-softmax, softmax or 1; the next one if none.")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="Your code; its name says which exercise it is.")]
Of = Annotated[str | None, typer.Option(metavar="NAME", help="The exercise, if the file's name does not say.")]


@learn.command()
def status(lang: Lang = None) -> None:
    """Show all exercises and how far you are."""
    with report_user_errors("learn status"):
        from rich.console import Console

        from regard.learn.terminal import print_status

        print_status(progress_of_user(), language(lang), Console())


@learn.command("next")
def next_exercise(
    name: Name = None,
    folder: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to write the starter.")] = Path(),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write it even over a file of that name.")] = False,
    lang: Lang = None,
) -> None:
    """Show the next exercise and write its starter into the current folder.

    Example: regard learn next, then regard learn watch 01-softmax.py
    """
    with report_user_errors("learn next"):
        from rich.console import Console

        from regard.learn.terminal import phrase, print_exercise

        chosen_language, console = language(lang), Console()
        exercise = chosen(name, progress_of_user())
        if exercise is None:
            console.print(phrase("finished", chosen_language))
            return
        if not folder.is_dir():
            raise ValueError(f"--folder must be a folder that exists, got {folder}")
        print_exercise(exercise, chosen_language, console)
        file = folder / f"{exercise.name}.py"
        console.print()
        if file.exists() and not overwrite:
            console.print(phrase("kept", chosen_language, file=file), highlight=False)
        else:
            write_atomic(file, exercise.starter)
        console.print(phrase("written", chosen_language, file=file), highlight=False, soft_wrap=True)


@learn.command()
def run(
    file: File,
    exercise: Of = None,
    seed: Annotated[int | None, typer.Option(metavar="N", min=0, help="Cases of this seed; new ones if none.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
    lang: Lang = None,
) -> None:
    """Grade your code and name its mistake; exit code 0 if it passes, 1 if not.

    The code runs in a process of its own, which may take 5 seconds and 1 GB and cannot touch your files.
    """
    with report_user_errors("learn run"):
        from rich.console import Console

        from regard.learn import grade
        from regard.learn.terminal import print_verdict

        asked = exercise_of(file, exercise)
        verdict = grade(asked, text_of(file), seed)
        progress_of_user().record_attempt(asked, verdict, file)
        if json:
            import json as json_format

            typer.echo(json_format.dumps(verdict.to_json(), ensure_ascii=False, indent=1))
        else:
            print_verdict(verdict, language(lang), Console())
        raise typer.Exit(0 if verdict.passed else 1)


@learn.command()
def watch(file: File, exercise: Of = None, lang: Lang = None) -> None:
    """Grade your code every time you save it, until it passes. Ctrl-C stops."""
    with report_user_errors("learn watch"):
        from rich.console import Console

        from regard.learn import grade
        from regard.learn.file_changes import watch_file
        from regard.learn.terminal import phrase, print_verdict

        chosen_language, console, progress = language(lang), Console(), progress_of_user()
        asked = exercise_of(file, exercise)
        text_of(file)
        console.print(phrase("watching", chosen_language, file=file), style="dim", highlight=False)
        try:
            for source in watch_file(file):
                verdict = grade(asked, source)
                progress.record_attempt(asked, verdict, file)
                console.rule(style="dim")
                print_verdict(verdict, chosen_language, console)
                if verdict.passed:
                    return
        except KeyboardInterrupt:
            console.print("\n" + phrase("stopped", chosen_language), style="dim")


@learn.command()
def hint(name: Name = None, lang: Lang = None) -> None:
    """Show one more hint; the last is nearly the solution."""
    with report_user_errors("learn hint"):
        from rich.console import Console

        from regard.learn.terminal import phrase, print_hint

        chosen_language, console, progress = language(lang), Console(), progress_of_user()
        exercise = chosen(name, progress)
        if exercise is None:
            console.print(phrase("finished", chosen_language))
            return
        which = min(progress.exercise_record(exercise).hints, len(exercise.hints(chosen_language)) - 1)
        print_hint(exercise, which, chosen_language, console)
        if which == progress.exercise_record(exercise).hints:
            progress.record_hint(exercise)


@learn.command()
def solution(
    name: Name = None,
    way: Annotated[str | None, typer.Option(metavar="NAME", help="Another right way, such as loops.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Show it before you have passed.")] = False,
    lang: Lang = None,
) -> None:
    """Show our solution, once you have passed."""
    with report_user_errors("learn solution"):
        from rich.console import Console

        from regard.learn.terminal import print_solution

        progress = progress_of_user()
        exercise = chosen(name, progress) or last_exercise()
        passed = progress.exercise_record(exercise).passed
        if not passed and not force:
            raise ValueError(
                f"{exercise.name} is not passed yet; try regard learn hint {exercise.name}, "
                "or ask with --force to see the solution all the same"
            )
        print_solution(exercise, language(lang), Console(), forced=not passed, way=way)


@learn.command()
def reset(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The one exercise to forget.")] = None,
    exercises: Annotated[bool, typer.Option("--exercises", help="Forget all exercises.")] = False,
    drills: Annotated[bool, typer.Option("--drills", help="Forget all drills.")] = False,
    cards: Annotated[bool, typer.Option("--cards", help="Forget all cards: each is new again.")] = False,
    diagrams: Annotated[bool, typer.Option("--diagrams", help="Forget the diagrams.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Forget all of these.")] = False,
    sure: Annotated[bool, typer.Option("--yes", help="Do not ask whether you are sure.")] = False,
    lang: Lang = None,
) -> None:
    """Forget what you have done: one exercise, or whole parts of the course; your own files stay.

    Example: regard learn reset --cards --drills
    """
    with report_user_errors("learn reset"):
        from regard.learn import find_exercise
        from regard.learn.terminal import phrase

        chosen_language = language(lang)
        asked = {"exercises": exercises, "drills": drills, "cards": cards, "flow": diagrams}
        parts = [part for part, wanted in asked.items() if wanted or everything]
        if (name is None) == (not parts):
            raise ValueError(
                "say what to forget: the NAME of an exercise, or --exercises, --drills, --cards, --diagrams or --all"
            )
        if name is not None:
            exercise = find_exercise(name)
            progress_of_user().clear_exercise(exercise)
            what = exercise.name
        else:
            what = ("、" if chosen_language == "zh" else ", ").join(phrase(part, chosen_language) for part in parts)
            if not sure and not typer.confirm(phrase("sure", chosen_language, what=what)):
                raise typer.Exit(1)
            state = load_state()
            state.clear(*parts)
            state.save()
        typer.echo(phrase("forgotten", chosen_language, what=what))


@learn.command()
def export(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="Where to; standard output if none.")] = None,
) -> None:
    """Write your progress as JSON, to keep it or take it to another machine."""
    with report_user_errors("learn export"):
        text = progress_of_user().to_json()
        if file is None:
            typer.echo(text, nl=False)
        else:
            write_atomic(file, text)
            typer.echo(f"wrote {file}", err=True)


for part in (cards, interview, drill, diagram, checklist):
    learn.command()(part)


def language(asked: str | None) -> "Language":
    """The language asked for, or else that of the locale."""
    from regard.languages import choose_language

    return choose_language(asked)


def progress_of_user() -> "Progress":
    """What was done; a file that cannot be read is kept aside first, and that is said."""
    from regard.learn import Progress

    load_state()
    return Progress.load()


def chosen(name: str | None, progress: "Progress") -> "Exercise | None":
    """The exercise of that name, or the next one; None when all are passed."""
    from regard.learn import find_exercise

    return progress.next_exercise() if name is None else find_exercise(name)


def last_exercise() -> "Exercise":
    """The last one: what is shown when all are passed."""
    from regard.learn import exercises

    return exercises()[-1]


def exercise_of(file: Path, name: str | None) -> "Exercise":
    """The exercise that a file is an answer to."""
    from regard.learn import find_exercise

    try:
        return find_exercise(name or file.stem)
    except ValueError as error:
        if name:
            raise
        raise ValueError(f"{file.name} is not named like an exercise; say which it is: --exercise softmax") from error


def text_of(file: Path) -> str:
    """The file's text."""
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} must be text in UTF-8: {error}") from error
