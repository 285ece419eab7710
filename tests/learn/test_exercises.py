"""Tests of every exercise: correct solutions pass, each known mistake is named, texts are complete.

Sources run in this process, through the function that also runs a learner's code in the child process, which
tests/learn/test_runner.py tests.
"""

import ast
import doctest
import re
import tomllib
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from markdown_it import MarkdownIt

import regard.learn.mistakes
from regard.languages import LANGUAGES
from regard.learn import Exercise, Verdict, exercises
from regard.learn.exercise import Mistake
from regard.learn.grader.compare import compare_outcomes
from regard.learn.grader.grade import call_trusted, expected_outcomes, grade_run, pack_cases, serialization
from regard.learn.mistakes.parts import base_name
from regard.learn.sandbox.call_on_cases import call_all
from regard.learn.sandbox.run_in_child_process import Run

SEEDS = (0, 1, 2, 3)
ALL = exercises()
MISTAKES = [(exercise, mistake) for exercise in ALL for mistake in exercise.mistakes]
CORRECT = [(exercise, name) for exercise in ALL for name in exercise.correct]


@cache
def prepared(exercise: Exercise, seed: int) -> tuple[list, list[bytes]]:
    cases = exercise.cases(seed)
    return cases, pack_cases(exercise, cases)


def verdict_on(exercise: Exercise, source: str, seed: int) -> Verdict:
    cases, packed = prepared(exercise, seed)
    with np.errstate(all="ignore"):
        answer = call_all(source, exercise.names, exercise.drive, packed, serialization)
    return grade_run(exercise, source, seed, cases, Run(answer, None, "", 0.0))


def described(value: object) -> str:
    return str(getattr(value, "name", getattr(value, "key", value)))


def test_there_are_enough_exercises_and_mistakes() -> None:
    assert len(ALL) >= 16
    assert [exercise.name[:2] for exercise in ALL] == [f"{i:02}" for i in range(1, len(ALL) + 1)]
    for exercise in ALL:
        assert len(exercise.mistakes) >= 5, exercise.name
        assert len(exercise.correct) >= 3, exercise.name


@pytest.mark.parametrize(("exercise", "mistake"), MISTAKES, ids=described)
def test_every_known_mistake_is_named(exercise: Exercise, mistake: Mistake) -> None:
    """Two mistakes that could not be told apart would both get the name of the first, and fail here."""
    for seed in SEEDS:
        verdict = verdict_on(exercise, mistake.source, seed)
        assert not verdict.passed, seed
        assert (verdict.mistake, verdict.sure) == (mistake.key, True), (seed, verdict.title["en"])
        assert verdict.title == mistake.title
        assert all(verdict.message[language].startswith(mistake.advice[language]) for language in LANGUAGES)
        assert verdict.failing is not None
        assert verdict.failing.expected != verdict.failing.yours


@pytest.mark.parametrize(("exercise", "name"), CORRECT, ids=described)
def test_other_correct_solutions_pass(exercise: Exercise, name: str) -> None:
    for seed in SEEDS:
        verdict = verdict_on(exercise, exercise.correct[name], seed)
        assert verdict.passed, (seed, verdict.title["en"], verdict.message["en"], verdict.failing)


@pytest.mark.parametrize("exercise", ALL, ids=described)
def test_the_reference_passes_and_the_starter_is_reported_as_unwritten(exercise: Exercise) -> None:
    assert verdict_on(exercise, exercise.reference, seed=9).passed
    verdict = verdict_on(exercise, exercise.starter, seed=9)
    assert verdict.kind == "unwritten"
    assert verdict.failing is None
    assert "NotImplementedError" in verdict.message["en"]
    assert "NotImplementedError" in verdict.message["zh"]
    assert f"line {verdict.message['zh'].split(' ')[1]}" in verdict.message["en"]


@pytest.mark.parametrize("exercise", ALL, ids=described)
def test_the_model_without_a_mistake_agrees_with_the_reference(exercise: Exercise) -> None:
    for seed in SEEDS:
        cases, packed = prepared(exercise, seed)
        outcomes = call_trusted(exercise, exercise.reference, packed).outcomes[:-1]
        for ours, theirs in zip(expected_outcomes(exercise, cases), outcomes, strict=True):
            assert compare_outcomes(ours, theirs) is None


@pytest.mark.parametrize("exercise", ALL, ids=described)
def test_every_mistake_of_the_model_has_a_text(exercise: Exercise) -> None:
    shared = tomllib.loads((Path(regard.learn.mistakes.__file__).parent / "texts.toml").read_text(encoding="utf-8"))
    own = {mistake.key for mistake in exercise.mistakes}
    made = {base_name(mistake) for mistakes in exercise.model.PARTS.values() for mistake in mistakes}
    assert made <= own | set(shared)
    assert own <= made


@pytest.mark.parametrize("exercise", ALL, ids=described)
def test_cases_depend_only_on_the_seed(exercise: Exercise) -> None:
    first, second, other = (pack_cases(exercise, exercise.cases(seed)) for seed in (5, 5, 6))
    assert first == second
    assert first != other
    cases = exercise.cases(5)
    assert len(cases) >= 4
    assert len({case.en for case in cases}) == len({case.zh for case in cases}) == len(cases)


@pytest.mark.parametrize("exercise", ALL, ids=described)
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_examples_of_a_statement_run(exercise: Exercise, language: str) -> None:
    names: dict[str, object] = {"np": np, "torch": torch}
    exec(exercise.reference, names)
    examples = "\n".join(blocks(exercise.statement(language)))
    test = doctest.DocTestParser().get_doctest(examples, names, exercise.name, None, 0)
    assert len(test.examples) >= 2
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    with np.errstate(all="ignore"):
        runner.run(test, out=said.append)
    assert runner.failures == 0, "".join(said)


@pytest.mark.parametrize("exercise", ALL, ids=described)
def test_both_languages_have_the_same_code_and_formulas(exercise: Exercise) -> None:
    en, zh = exercise.statement("en"), exercise.statement("zh")
    assert [without_comments(block) for block in blocks(en)] == [without_comments(block) for block in blocks(zh)]
    assert names_in(en) == names_in(zh)
    assert numbers_in(en) == numbers_in(zh)
    for text in (en, zh):
        assert text.startswith("# ")
        assert len(text.splitlines()) <= 60, "longer than two screens"
        assert max(map(len, text.splitlines())) <= 120
        assert all(f"`{name}" in text for name in exercise.names)
        assert "*" not in prose(text), "emphasis that Markdown does not see"
    assert re.search("[\u4e00-\u9fff]", zh)
    assert not re.search("[\u4e00-\u9fff]", en)


@pytest.mark.parametrize("exercise", ALL, ids=described)
def test_hints_become_longer_and_agree_between_languages(exercise: Exercise) -> None:
    en, zh = exercise.hints("en"), exercise.hints("zh")
    assert len(en) == len(zh) >= 3
    for ours, theirs in zip(en, zh, strict=True):
        assert indented(ours) == indented(theirs)
        assert names_in(ours) == names_in(theirs)
    assert indented(en[-1]), "the last hint shows code"


@pytest.mark.parametrize(("exercise", "mistake"), MISTAKES, ids=described)
def test_every_mistake_has_texts_in_both_languages(exercise: Exercise, mistake: Mistake) -> None:
    for texts in (mistake.title, mistake.advice):
        assert re.search("[\u4e00-\u9fff]", texts["zh"])
        assert not re.search("[\u4e00-\u9fff]", texts["en"])
        assert names_in(texts["en"]) == names_in(texts["zh"])
    assert not mistake.title["en"].endswith(".")
    assert mistake.advice["en"].rstrip().endswith((".", "?"))
    assert mistake.advice["zh"].rstrip().endswith(("。", "？"))
    ast.parse(mistake.source)


@pytest.mark.parametrize("exercise", ALL, ids=described)
def test_the_starter_has_the_signatures_of_the_reference(exercise: Exercise) -> None:
    assert signatures(exercise.starter) == {
        name: found for name, found in signatures(exercise.reference).items() if name in signatures(exercise.starter)
    }
    assert set(exercise.names) <= set(signatures(exercise.starter))


def prose(text: str) -> str:
    """What Markdown takes for plain words."""
    inline = [token for token in MarkdownIt().enable("table").parse(text) if token.type == "inline"]
    return " ".join(child.content for token in inline for child in token.children or () if child.type == "text")


def blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def without_comments(block: str) -> str:
    return re.sub(r"\s*#.*", "", block)


def names_in(text: str) -> set[str]:
    return set(re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)))


def numbers_in(text: str) -> list[str]:
    return sorted(re.findall(r"\d+(?:[.,]\d+)*", "\n".join(map(without_comments, [text]))))


def indented(text: str) -> list[str]:
    return [re.sub(r"\s*#.*", "", line) for line in text.splitlines() if line.startswith("    ")]


def signatures(source: str) -> dict[str, str]:
    tree = ast.parse(source)
    found = {node.name: ast.unparse(node.args) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    return found | {node.name: "" for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
