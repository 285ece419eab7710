"""Tests of the grader on programs written apart from it: wrong ones are named, unusual correct ones pass.

The programs run in this process, through the function that also runs a learner's code in the child process.
`bench/grader.py` runs them in the child process.
"""

import tomllib
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from regard.learn import Verdict, exercises, find_exercise
from regard.learn.grader.grade import grade_run, pack_cases, serialization
from regard.learn.sandbox.call_on_cases import call_all
from regard.learn.sandbox.run_in_child_process import Run

FOLDER = Path(__file__).with_name("programs")
NAMES = [exercise.name.partition("-")[2] for exercise in exercises()]


@cache
def programs(kind: str) -> list[dict]:
    files = sorted(FOLDER.glob(f"{kind}*.toml"))
    return [program for file in files for program in tomllib.loads(file.read_text(encoding="utf-8"))["program"]]


def verdict_on(program: dict, seed: int) -> Verdict:
    exercise = find_exercise(program["exercise"])
    cases = exercise.cases(seed)
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):  # as in the child process
        answer = call_all(program["source"], exercise.names, exercise.drive, pack_cases(exercise, cases), serialization)
    return grade_run(exercise, program["source"], seed, cases, Run(answer, None, "", 0.0))


def same_mistakes(found: str, names: list[str]) -> bool:
    return any(set(found.split("+")) == set(name.split("+")) for name in names)


def test_there_are_enough_programs() -> None:
    assert len(programs("wrong")) >= 160
    assert len(programs("unusual")) >= 40
    assert {program["exercise"] for kind in ("wrong", "unusual") for program in programs(kind)} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_wrong_programs_are_named_and_never_pass(name: str) -> None:
    for program in programs("wrong"):
        if program["exercise"] == name:
            verdict = verdict_on(program, seed=5)
            assert not verdict.passed, program["label"]
            assert same_mistakes(verdict.mistake or verdict.kind, program["names"]), (
                program["label"],
                verdict.mistake or verdict.kind,
                verdict.title["en"],
            )


@pytest.mark.parametrize("name", NAMES)
def test_unusual_correct_programs_pass(name: str) -> None:
    for program in programs("unusual"):
        if program["exercise"] == name:
            verdict = verdict_on(program, seed=6)
            assert verdict.passed, (program["label"], verdict.title["en"], verdict.message["en"])
