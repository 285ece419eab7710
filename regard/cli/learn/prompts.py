"""What the sub-commands of the course share: a language, questions that may be stopped, and the learner's state."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from regard.languages import Language
    from regard.learn import Progress

Lang = Annotated[str | None, typer.Option(metavar="en|zh", help="Language; that of your locale if not given.")]
BREAKABLE = re.compile(r"\s*(?:[一-鿿]|[^\s一-鿿，。；：、？！）”]+)[，。；：、？！）”]*|\s+|[，。；：、？！）”]+")
Sayings = Mapping[str, tuple[str, str]]  # English, Chinese


class Stopped(Exception):
    """The learner has had enough."""


class Speaker:
    """Prints what a table of sayings holds, in one language and without colour that would matter."""

    def __init__(self, sayings: Sayings, lang: str | None) -> None:
        from rich.console import Console

        from regard.languages import choose_language

        self.sayings, self.language, self.console = sayings, choose_language(lang), Console()

    language: "Language"
    console: "Console"

    def text(self, what: str, **values: object) -> str:
        """One saying."""
        return self.sayings[what][self.language == "zh"].format(**values)

    def say(self, what: str, **values: object) -> None:
        """Print a saying."""
        self.print(self.text(what, **values), style="dim")

    def print(self, text: str, style: str | None = None, wrapped: bool = True) -> None:
        """Print text as it stands: brackets in it are no colours. What is to be copied is not wrapped."""
        shown = "\n".join(wrap(line, self.console.width) for line in text.split("\n")) if wrapped else text
        self.console.print(shown, style=style, highlight=False, markup=False, soft_wrap=True)

    def ask(self, prompt: str) -> str:
        """What is typed; q stops."""
        typed = self.console.input(prompt, markup=False).strip()
        if typed.lower() in ("q", "quit", "exit"):
            raise Stopped
        return typed

    @contextmanager
    def until_stopped(self) -> Iterator[None]:
        """Ends with q, Ctrl-C and the end of the input alike."""
        try:
            yield
        except (Stopped, EOFError, KeyboardInterrupt):
            self.console.print()


def wrap(text: str, width: int) -> str:
    """Lines of at most this width; Chinese may break after any character, but no line begins with punctuation.

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


def load_state() -> "Progress":
    """What the learner has done; on the standard error, what they should know about the file."""
    from regard.learn import Progress

    state = Progress.load()
    if state.notice:
        typer.echo(f"regard learn: {state.notice}", err=True)
    return state
