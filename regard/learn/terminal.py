"""The course in the terminal: what there is to do, the task, the verdict."""

import re
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.markdown import Markdown
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from regard.languages import Language
from regard.learn.exercise import Exercise, exercises
from regard.learn.grader.verdict import Verdict
from regard.learn.progress import Progress


def phrase(key: str, language: Language, **values: Any) -> str:
    """A phrase of terminal.toml.

    >>> phrase("hint", "en", which=1, all=3)
    'hint 1 of 3'
    """
    return _words()[key][language].format(**values)


def print_status(progress: Progress, language: Language, console: Console) -> None:
    """All exercises, and how far one is."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for key in ("exercise", "", "attempts", "hints", "last"):
        table.add_column(
            phrase(key, language) if key else "", justify="right" if key in ("attempts", "hints") else "left"
        )
    done = 0
    for exercise in exercises():
        record = progress.exercise_record(exercise)
        done += record.passed is not None
        table.add_row(
            Text(f"{'✓' if record.passed else '·'} {exercise.name}", style="green" if record.passed else ""),
            exercise.title(language),
            str(record.attempts or ""),
            str(record.hints or ""),
            phrase("passed", language) + f" {record.passed}" if record.passed else record.last or "",
        )
    console.print(table)
    then = phrase("then" if done < len(exercises()) else "finished", language)
    console.print("\n" + phrase("progress", language, done=done, all=len(exercises()), then=then), highlight=False)


def print_exercise(exercise: Exercise, language: Language, console: Console) -> None:
    """The statement."""
    console.print(Markdown(_for_reading(exercise.statement(language)), code_theme="ansi_dark"))


def print_hint(exercise: Exercise, which: int, language: Language, console: Console) -> None:
    """One hint, from 0."""
    hints = exercise.hints(language)
    console.print(f"{exercise.name} · {phrase('hint', language, which=which + 1, all=len(hints))}\n", style="dim")
    console.print(Markdown(hints[which], code_theme="ansi_dark"))


def print_solution(
    exercise: Exercise, language: Language, console: Console, forced: bool = False, way: str | None = None
) -> None:
    """The reference or another right way, and the names of the others."""
    if way is not None and way not in exercise.correct:
        raise ValueError(f"no way of {exercise.name} is called {way!r}; there are {', '.join(exercise.correct)}")
    source = exercise.reference if way is None else exercise.correct[way]
    if forced:
        console.print(phrase("forced", language) + "\n", style="yellow", highlight=False)
    console.print(Syntax(source.rstrip(), "python", theme="ansi_dark", background_color="default", word_wrap=True))
    names = ", ".join(name for name in exercise.correct if name != way)
    console.print("\n" + phrase("other-ways", language, names=names), style="dim", highlight=False)


def print_verdict(verdict: Verdict, language: Language, console: Console) -> None:
    """What is wrong, the first case that shows it, and where to go from here."""
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
        part = "" if which is None else phrase("which", language, which=which)
        sides.add_column(phrase("expected", language) + part)
        sides.add_column(phrase("yours", language))
        sides.add_row(Text(verdict.failing.expected, style="green"), Text(verdict.failing.yours, style="red"))
        given = Group(Text(phrase("given", language), style="dim"), Text(verdict.failing.inputs))
        table.add_row(given)
        table.add_row("")
        table.add_row(sides)
        console.print(Padding(table, (0, 0, 0, 2)))
    if verdict.printed.strip():
        console.print(Padding(Text(phrase("printed", language), style="dim"), (1, 0, 0, 2)))
        console.print(Padding(Text(verdict.printed.rstrip()[-2000:]), (0, 0, 0, 2)))
    key = "well" if verdict.passed else "again"
    said = phrase(key, language, seed=verdict.seed, name=verdict.exercise, cases=verdict.cases, seconds=verdict.seconds)
    console.print(Padding(Text(said, style="dim"), (1, 0, 0, 2)))


def _for_reading(text: str) -> str:
    """Without doctest's <BLANKLINE>, and without the space that Markdown puts where a line of Chinese was broken."""
    parts = re.split(r"(^```.*?^```$)", text.replace("<BLANKLINE>\n", "\n"), flags=re.DOTALL | re.MULTILINE)
    wide = "[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]"
    parts[::2] = [re.sub(f"(?<={wide})\n {{0,3}}(?={wide})", "", part) for part in parts[::2]]
    return "".join(parts)


@lru_cache(maxsize=1)
def _words() -> dict[str, dict[str, str]]:
    return tomllib.loads((Path(__file__).parent / "terminal.toml").read_text(encoding="utf-8"))
