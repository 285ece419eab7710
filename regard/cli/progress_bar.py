"""How far a long command is: on the standard error, with the rate and the time left, gone when it ends."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[..., None]]:
    """A bar; call what it gives with the number of steps taken (1 if none is given), and with a total if it changed."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TextColumn, TimeRemainingColumn
    from rich.progress import ProgressColumn as Column
    from rich.text import Text

    class Rate(Column):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:.3g}/s" if task.speed else "", style="dim")

    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn(),
        console=console, transient=True, disable=not console.is_terminal,
    )  # fmt: skip
    with bar:
        task = bar.add_task(what, total=total)

        def advance(steps: int = 1, total: int | None = None) -> None:
            bar.update(task, advance=steps, total=total)

        yield advance


@contextmanager
def timed(what: str, minutes: float) -> Iterator[Callable[..., None]]:
    """The same for work that takes a given time: what is done is counted, and the bar is the time."""
    from time import monotonic

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[done]:,}"),
        TextColumn("{task.fields[rate]:.3g}/s", style="dim"), TimeRemainingColumn(),
        console=console, transient=True, disable=not console.is_terminal,
    )  # fmt: skip
    began, done = monotonic(), 0
    with bar:
        task = bar.add_task(what, total=60 * minutes, done=0, rate=0.0)

        def advance(steps: int = 1) -> None:
            nonlocal done
            done += steps
            seconds = monotonic() - began
            bar.update(task, completed=seconds, done=done, rate=done / max(seconds, 1e-9))

        yield advance
