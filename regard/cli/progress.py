"""How far a long command is: on the standard error, with the rate and the time left, gone when it ends."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[..., None]]:
    """A bar; call what it gives with the number of steps taken (1 if none is given)."""
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

        def advance(steps: int = 1) -> None:
            bar.advance(task, steps)

        yield advance
