"""What a kind of drill gives: a task, before it has a level and a seed."""

from dataclasses import dataclass

from regard.languages import Bilingual
from regard.learn.drills.drill import Step, Values


@dataclass(frozen=True)
class Task:
    """Title, what to do in both languages, what is given, and the steps."""

    title: Bilingual
    en: str
    zh: str
    given: Values
    steps: tuple[Step, ...]
