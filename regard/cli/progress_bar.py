"""Progress bars on stderr, with rate and remaining time; removed when the work ends."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn


@contextmanager
def count_bar(description: str, total: int) -> Iterator[Callable[..., None]]:
    """Show a bar for a known number of steps.

    Yields `advance(steps=1, total=None)`: call it after each step, with a new total if that changes.
    """
    from rich.progress import MofNCompleteColumn, ProgressColumn, Task
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:.3g}/s" if task.speed else "", style="dim")

    with _bar(MofNCompleteColumn(), Rate()) as bar:
        task = bar.add_task(description, total=total)

        def advance(steps: int = 1, total: int | None = None) -> None:
            bar.update(task, advance=steps, total=total)

        yield advance


@contextmanager
def time_bar(description: str, minutes: float) -> Iterator[Callable[..., None]]:
    """Show a bar for work that runs for a given time: the bar shows the time; a number beside it counts the steps.

    Yields `advance(steps=1)`, to be called after each step.
    """
    from time import monotonic

    from rich.progress import TextColumn

    start, count = monotonic(), 0
    rate = TextColumn("{task.fields[rate]:.3g}/s", style="dim")
    with _bar(TextColumn("{task.fields[count]:,}"), rate) as bar:
        task = bar.add_task(description, total=60 * minutes, count=0, rate=0.0)

        def advance(steps: int = 1) -> None:
            nonlocal count
            count += steps
            seconds = monotonic() - start
            bar.update(task, completed=seconds, count=count, rate=count / max(seconds, 1e-9))

        yield advance


def _bar(*columns: "ProgressColumn") -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    parts = (TextColumn("{task.description}"), BarColumn(), *columns, TimeRemainingColumn())
    return Progress(*parts, console=console, transient=True, disable=not console.is_terminal)
