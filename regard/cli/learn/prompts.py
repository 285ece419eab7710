"""Terminal input and output shared by the commands of `regard learn`: language, prompts, the learner's progress."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import option

if TYPE_CHECKING:
    from regard.learn import Progress

Lang = Annotated[str | None, option("en|zh", "Language of the texts; default: that of your locale.")]
BREAKABLE = re.compile(r"\s*(?:[一-鿿]|[^\s一-鿿，。；：、？！）”]+)[，。；：、？！）”]*|\s+|[，。；：、？！）”]+")


class Stopped(Exception):
    """The learner typed q."""


class Terminal:
    """Prints the texts of terminal.toml in one language and reads answers."""

    def __init__(self, lang: str | None) -> None:
        from rich.console import Console

        from regard.languages import choose_language

        self.language, self.console = choose_language(lang), Console()

    def text(self, key: str, **values: object) -> str:
        """Return a text of terminal.toml."""
        from regard.learn.terminal import phrase

        return phrase(key, self.language, **values)

    def say(self, key: str, **values: object) -> None:
        """Print a text of terminal.toml."""
        self.print(self.text(key, **values), style="dim")

    def print(self, text: str, style: str | None = None, wrapped: bool = True) -> None:
        """Print text literally: brackets are not markup. Text to be copied is not wrapped."""
        lines = "\n".join(wrap(line, self.console.width) for line in text.split("\n")) if wrapped else text
        self.console.print(lines, style=style, highlight=False, markup=False, soft_wrap=True)

    def ask(self, prompt: str) -> str:
        """Return the typed answer; raise `Stopped` for q."""
        answer = self.console.input(prompt, markup=False).strip()
        if answer.lower() in ("q", "quit", "exit"):
            raise Stopped
        return answer

    @contextmanager
    def until_stopped(self) -> Iterator[None]:
        """End the block silently on q, Ctrl-C or the end of the input."""
        try:
            yield
        except (Stopped, EOFError, KeyboardInterrupt):
            self.console.print()


def wrap(text: str, width: int) -> str:
    """Wrap text to this width; Chinese may break after any character, but no line begins with punctuation.

    >>> wrap("缩放点积 attention，掩码", 12)
    '缩放点积\\nattention，\\n掩码'
    """
    from rich.cells import cell_len

    lines = [""]
    for piece in BREAKABLE.findall(text):
        if cell_len(lines[-1] + piece.rstrip()) > width and lines[-1].strip():
            lines.append("")
            piece = piece.lstrip()
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)


def load_progress() -> "Progress":
    """Read the learner's progress; print a notice to stderr if the file could not be read."""
    from regard.learn import Progress

    progress = Progress.load()
    if progress.notice:
        typer.echo(f"regard learn: {progress.notice}", err=True)
    return progress
