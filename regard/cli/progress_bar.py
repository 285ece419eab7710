"""Progress bars on stderr, with rate and remaining time; removed when the work ends."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def count_bar(description: str, total: int) -> Iterator[Callable[..., None]]:
    """Show a bar for a known number of steps.

    Yields `advance(steps=1, total=None)`: call it after each step, with a new total if that changes.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:.3g}/s" if task.speed else "", style="dim")

    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), Remaining(),
        console=console, transient=True, disable=not console.is_terminal,
    )  # fmt: skip
    with bar:
        task = bar.add_task(description, total=total)

        def advance(steps: int = 1, total: int | None = None) -> None:
            bar.update(task, advance=steps, total=total)

        yield advance


@contextmanager
def time_bar(description: str, minutes: float) -> Iterator[Callable[..., None]]:
    """Show a bar for work that runs for a given time; the bar shows the time, and a number beside it the steps.

    Yields `advance(steps=1)`.
    """
    from time import monotonic

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]:,}"),
        TextColumn("{task.fields[rate]:.3g}/s", style="dim"), TimeRemainingColumn(),
        console=console, transient=True, disable=not console.is_terminal,
    )  # fmt: skip
    start, count = monotonic(), 0
    with bar:
        task = bar.add_task(description, total=60 * minutes, count=0, rate=0.0)

        def advance(steps: int = 1) -> None:
            nonlocal count
            count += steps
            seconds = monotonic() - start
            bar.update(task, completed=seconds, count=count, rate=count / max(seconds, 1e-9))

        yield advance
