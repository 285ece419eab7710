"""The learning path: six stages from intuition to the interview, and which of them the learner has completed.

    intuition   the introduction of the lab (its view Start)
    formula     the whole computation, step by step (Trace)
    hand        a drill without a mistake
    code        an exercise that passes
    break       finding out what is broken in a real model (Break it)
    interview   rating an answer to an interview card

Drills, exercises and cards have their own sections in the progress file. The page records the other three stages.
"""

from dataclasses import dataclass

from regard.learn.progress import RECORDED_STAGES, Progress

STAGES = ("intuition", "formula", "hand", "code", "break", "interview")


@dataclass(frozen=True)
class PathStage:
    """One stage of the path and whether the learner has completed it."""

    name: str
    done: bool


def learning_path(progress: Progress) -> list[PathStage]:
    """Return the six stages in order.

    progress    the learner's progress

    >>> from pathlib import Path
    >>> progress = Progress(Path("nowhere.json"), drills={"softmax:1:0": {"passed": True}})
    >>> [stage.name for stage in learning_path(progress) if stage.done]
    ['hand']
    """
    done = {name: name in progress.path for name in RECORDED_STAGES}
    done["hand"] = any(entry.get("passed") for entry in progress.drills.values())
    done["code"] = any(entry.get("passed") for entry in progress.exercises.values())
    done["interview"] = bool(progress.cards)
    return [PathStage(name, done[name]) for name in STAGES]
