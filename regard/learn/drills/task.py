"""What a kind of drill gives: a task, before it has a level and a seed."""

from dataclasses import dataclass

from regard.learn.drills.drill import Step, Values
from regard.learn.language import Words


@dataclass(frozen=True)
class Task:
    """Title, what to do in both languages, what is given, and the steps."""

    title: Words
    en: str
    zh: str
    given: Values
    steps: tuple[Step, ...]
