"""Print exercises, hints, solutions and verdicts in the terminal; texts are in terminal.toml."""

import re
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.markdown import Markdown
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from regard.languages import Language, read_texts
from regard.learn.exercise import Exercise, exercises
from regard.learn.grader.verdict import Verdict
from regard.learn.progress import Progress

TEXTS = Path(__file__).with_suffix(".toml")


def phrase(key: str, language: Language, /, **values: Any) -> str:
    """Return a text of terminal.toml in one language, with its placeholders filled in.

    >>> phrase("hint", "en", which=1, all=3)
    'hint 1 of 3'
    """
    text: str = read_texts(TEXTS)[key][language]
    return text.format(**values)


def print_status(progress: Progress, language: Language, console: Console) -> None:
    """Print all exercises with the learner's runs, hints and results."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for key in ("exercise", "", "attempts", "hints", "last"):
        table.add_column(
            phrase(key, language) if key else "", justify="right" if key in ("attempts", "hints") else "left"
        )
    passed_count = 0
    for exercise in exercises():
        record = progress.exercise_record(exercise)
        passed_count += record.passed is not None
        table.add_row(
            Text(f"{'✓' if record.passed else '·'} {exercise.name}", style="green" if record.passed else ""),
            exercise.title(language),
            str(record.attempts or ""),
            str(record.hints or ""),
            phrase("passed", language) + f" {record.passed}" if record.passed else record.last or "",
        )
    console.print(table)
    then = phrase("then" if passed_count < len(exercises()) else "finished", language)
    console.print(
        "\n" + phrase("progress", language, done=passed_count, all=len(exercises()), then=then), highlight=False
    )


def print_exercise(exercise: Exercise, language: Language, console: Console) -> None:
    """Print the statement of an exercise."""
    console.print(Markdown(_prepare_markdown(exercise.statement(language)), code_theme="ansi_dark"))


def print_hint(exercise: Exercise, which: int, language: Language, console: Console) -> None:
    """Print one hint; `which` counts from 0."""
    hints = exercise.hints(language)
    console.print(f"{exercise.name} · {phrase('hint', language, which=which + 1, all=len(hints))}\n", style="dim")
    console.print(Markdown(hints[which], code_theme="ansi_dark"))


def print_solution(
    exercise: Exercise, language: Language, console: Console, forced: bool = False, way: str | None = None
) -> None:
    """Print the reference or another correct solution, and the names of the others."""
    if way is not None and way not in exercise.correct:
        raise ValueError(f"{exercise.name} has no solution {way!r}; there are {', '.join(exercise.correct)}")
    source = exercise.reference if way is None else exercise.correct[way]
    if forced:
        console.print(phrase("forced", language) + "\n", style="yellow", highlight=False)
    console.print(Syntax(source.rstrip(), "python", theme="ansi_dark", background_color="default", word_wrap=True))
    names = ", ".join(name for name in exercise.correct if name != way)
    console.print("\n" + phrase("other-ways", language, names=names), style="dim", highlight=False)


def print_verdict(verdict: Verdict, language: Language, console: Console) -> None:
    """Print the verdict on a run: the mistake, the first failing case, and the next command to use."""
    mark, style = ("✓", "bold green") if verdict.passed else ("✗", "bold red")
    console.print(Text(f"{mark} {verdict.exercise}  {verdict.title[language]}", style=style))
    if not verdict.passed:
        console.print(Padding(Markdown(verdict.message[language]), (0, 0, 0, 2)))
    if verdict.failing is not None:
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
        table.add_column(f"{phrase('case', language)}: {verdict.failing.name[language]}")
        console.print()
        sides = Table(box=None, pad_edge=False, padding=(0, 4, 0, 0), header_style="dim")
        which = verdict.failing.which
        part = "" if which is None else phrase("which", language, which=which[language].replace("`", ""))
        sides.add_column(phrase("expected", language) + part)
        sides.add_column(phrase("yours", language))
        sides.add_row(Text(verdict.failing.expected, style="green"), Text(verdict.failing.yours, style="red"))
        table.add_row(Group(Text(phrase("given", language), style="dim"), Text(verdict.failing.inputs)))
        table.add_row("")
        table.add_row(sides)
        console.print(Padding(table, (0, 0, 0, 2)))
    if verdict.printed.strip():
        console.print(Padding(Text(phrase("printed", language), style="dim"), (1, 0, 0, 2)))
        console.print(Padding(Text(verdict.printed.rstrip()[-2000:]), (0, 0, 0, 2)))
    values = {"seed": verdict.seed, "name": verdict.exercise, "cases": verdict.cases, "seconds": verdict.seconds}
    advice = phrase("well" if verdict.passed else "again", language, **values)
    console.print(Padding(Text(advice, style="dim"), (1, 0, 0, 2)))


def _prepare_markdown(text: str) -> str:
    """Remove doctest's <BLANKLINE>, and the line breaks inside Chinese text, which Markdown would show as spaces."""
    parts = re.split(r"(^```.*?^```$)", text.replace("<BLANKLINE>\n", "\n"), flags=re.DOTALL | re.MULTILINE)
    wide = "[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]"
    parts[::2] = [re.sub(f"(?<={wide})\n {{0,3}}(?={wide})", "", part) for part in parts[::2]]
    return "".join(parts)
