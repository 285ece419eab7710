"""Tests of the progress file, the deck of cards, the interview and the checklist."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.learn import (
    DIAGRAMS,
    Deck,
    Progress,
    all_cards,
    checklist,
    drill,
    exercises,
    find_exercise,
)
from regard.learn.cards.interview import InterviewAnswer, draw_questions, results_by_topic
from regard.learn.cards.spaced_repetition import GRADES
from regard.learn.drills.matrices import format_answer
from regard.learn.mastery_checklist import CORE_EXERCISES
from regard.learn.progress import COURSE_SECTIONS

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
CARDS = all_cards()


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REGARD_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "learn.json"


def test_progress_is_one_readable_file(file: Path) -> None:
    state = Progress.load()
    assert state.file == file
    assert not file.exists()
    state.settings["name"] = "注意"
    assert state.save() == file
    assert '"name": "注意"' in file.read_text(encoding="utf-8")
    assert list(json.loads(file.read_text())) == ["version", *COURSE_SECTIONS, "settings", "checksum"]
    assert json.loads(Progress.load().to_json()) == json.loads(file.read_text())
    assert [path.name for path in file.parent.iterdir()] == ["learn.json"]


def test_the_default_file_is_in_the_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("REGARD_HOME", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert Progress.load().file.name == "learn.json"
    assert "regard" in Progress.load().file.parts


def test_unknown_sections_and_entries_are_kept(file: Path) -> None:
    file.parent.mkdir()
    other = {"version": 1, "exercises": {"01-softmax": {"passed": "2030-01-01", "hints": 2}}, "lessons": [1, 2]}
    file.write_text(json.dumps(other))
    state = Progress.load()
    state.flow["x"] = {"done": True}
    state.save()
    written = json.loads(file.read_text())
    assert written["exercises"] == other["exercises"]
    assert written["lessons"] == [1, 2]
    assert written["flow"] == {"x": {"done": True}}


def test_concurrent_processes_lose_nothing(file: Path) -> None:
    program = (
        "import sys\n"
        "from regard.learn import Progress, exercises\n"
        "for i in range(20):\n"
        "    Progress.load().record_hint(exercises()[0])\n"
        "    state = Progress.load()\n"
        "    state.cards[f'{sys.argv[1]}-{i}'] = {'n': i}\n"
        "    state.save()\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", program, name]) for name in ("page", "terminal", "other")]
    assert [one.wait(60) for one in running] == [0, 0, 0]
    state = Progress.load()
    assert state.exercises[exercises()[0].name]["hints"] == 60
    assert len(state.cards) == 60
    assert [path.name for path in file.parent.iterdir()] == ["learn.json"]


def test_clear_empties_only_the_named_sections(file: Path) -> None:
    state = Progress.load()
    for part in COURSE_SECTIONS:
        getattr(state, part)["x"] = {"n": 1}
    state.settings["language"] = "zh"
    state.save()
    state.clear("cards", "drills")
    state.save()
    assert [part for part in COURSE_SECTIONS if getattr(Progress.load(), part)] == ["exercises", "flow", "path"]
    state.clear()
    state.save()
    assert not any(getattr(Progress.load(), part) for part in COURSE_SECTIONS)
    assert Progress.load().settings == {"language": "zh"}
    with pytest.raises(ValueError, match="the sections are exercises, cards, drills, flow, path, got 'settings'"):
        state.clear("settings")


def test_two_open_files_do_not_overwrite_each_other(file: Path) -> None:
    page, terminal = Progress.load(), Progress.load()
    page.cards["a"] = {"n": 1}
    page.save()
    terminal.cards["b"] = {"n": 2}
    terminal.exercises["e"] = {"passed": "today"}
    terminal.save()
    page.cards["a"]["n"] = 3
    page.save()
    assert Progress.load().cards == {"a": {"n": 3}, "b": {"n": 2}}
    assert Progress.load().exercises == {"e": {"passed": "today"}}
    del page.cards["b"]
    page.save()
    assert Progress.load().cards == {"a": {"n": 3}}


@pytest.mark.parametrize(
    "broken",
    ["", "{", "[]", "3", '{"cards": {}}', '{"version": "1"}', '{"version": 1, "cards": []}', "\udcff", "[" * 100_000],
)
def test_an_unreadable_file_is_renamed(file: Path, broken: str) -> None:
    file.parent.mkdir()
    content = broken.encode(errors="surrogateescape")
    for number in (1, 2):
        file.write_bytes(content)
        state = Progress.load()
        assert state.notice is not None
        assert f"renamed to learn.unreadable-{number}.json" in state.notice
        assert (file.parent / f"learn.unreadable-{number}.json").read_bytes() == content
        assert not file.exists()
    state.cards["a"] = {}
    state.save()
    assert Progress.load().cards == {"a": {}}
    assert Progress.load().notice is None


def test_a_changed_number_is_reported_and_kept(file: Path) -> None:
    state = Progress.load()
    state.flow["x"] = {"done": True, "tries": 12}
    state.save()
    file.write_text(file.read_text().replace("12", "13"))
    state = Progress.load()
    assert state.notice == f"{file} was changed outside of regard, or is damaged; check your progress"
    assert state.flow["x"]["tries"] == 13
    state.save()
    assert Progress.load().notice is None


def test_a_file_damaged_while_in_use_is_renamed(file: Path) -> None:
    state = Progress.load()
    state.cards["a"] = {"n": 1}
    state.save()
    file.write_text("{")
    state.cards["b"] = {"n": 2}
    state.save()
    assert Progress.load().cards == {"a": {"n": 1}, "b": {"n": 2}}
    assert (file.parent / "learn.unreadable-1.json").read_text() == "{"


def test_a_newer_file_is_not_changed(file: Path) -> None:
    file.parent.mkdir()
    file.write_text('{"version": 2, "cards": {}}')
    with pytest.raises(ValueError, match="newer regard"):
        Progress.load()
    assert file.read_text() == '{"version": 2, "cards": {}}'


def test_cards_are_due_after_growing_intervals() -> None:
    deck = Deck(CARDS, {})
    first = deck.next(NOON)
    assert first is not None
    assert deck.grade(first.id, "again", NOON) - NOON < timedelta(hours=1)
    assert deck.next(NOON) != first
    assert deck.due(NOON + timedelta(hours=1)) == [first]
    waits = []
    now = NOON + timedelta(hours=1)
    for _ in range(4):
        due = deck.grade(first.id, "good", now)
        waits.append(due - now)
        assert not deck.due(due - timedelta(minutes=1))
        now = due
    assert waits == sorted(waits)
    assert waits[-1] > 10 * DAY
    assert deck.is_mastered(first.id)
    deck.grade(first.id, "again", now)
    assert not deck.is_mastered(first.id)


@given(st.lists(st.tuples(st.sampled_from(CARDS[:5]), st.sampled_from(GRADES), st.integers(0, 3000)), max_size=25))
def test_the_same_grades_give_the_same_deck(reviews: list) -> None:
    decks = [Deck(CARDS, {}), Deck(CARDS, {})]
    now = NOON
    for card, grade, minutes in reviews:
        now += timedelta(minutes=minutes)
        first, second = (deck.grade(card.id, grade, now) for deck in decks)
        assert first == second > now
        decks[1] = Deck(CARDS, json.loads(json.dumps(decks[1].memory)))  # as after saving and loading
    assert decks[0].memory == decks[1].memory
    assert decks[0].mastery() == decks[1].mastery()
    assert len(decks[0].new()) + decks[0].mastery().reviewed == len(CARDS)


def test_better_grades_give_longer_intervals() -> None:
    waits = [Deck(CARDS, {}).grade(CARDS[0].id, grade, NOON) for grade in GRADES]
    assert waits == sorted(waits)
    assert waits[0] < waits[2] < waits[3]


def test_new_cards_alternate_between_topics() -> None:
    deck = Deck(CARDS, {})
    topics = [card.topic for card in deck.new()]
    count = len(set(topics))
    assert len(set(topics[:count])) == count
    assert sorted(card.id for card in deck.new()) == sorted(card.id for card in CARDS)


def test_mastery_by_topic() -> None:
    deck = Deck(CARDS, {})
    for card in CARDS:
        if card.topic == "masks":
            deck.grade(card.id, "easy", NOON)
    assert deck.mastery_by_topic()["masks"].share == 1.0
    assert deck.mastery_by_topic()["scaling"].share == 0.0
    assert deck.mastery().mastered == deck.mastery("masks").cards


def test_times_without_zone_and_unknown_grades_raise() -> None:
    deck = Deck(CARDS, {})
    with pytest.raises(ValueError, match="must have a time zone"):
        deck.grade(CARDS[0].id, "good", datetime(2030, 1, 1))
    with pytest.raises(ValueError, match="one of again, hard, good, easy, got 'fine'"):
        deck.grade(CARDS[0].id, "fine", NOON)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no card 'x'"):
        deck.grade("x", "good", NOON)
    with pytest.raises(ValueError, match=r"the entry of the card .* cannot be read"):
        Deck(CARDS, {CARDS[0].id: {"state": "review"}}).due(NOON)
    assert Deck(CARDS, {"a card of another version": {}}).due(NOON) == []


@given(st.integers(0, 10_000), st.integers(1, len(CARDS)))
def test_an_interview_covers_the_topics(seed: int, questions: int) -> None:
    drawn = draw_questions(CARDS, seed, questions)
    assert drawn == draw_questions(CARDS, seed, questions)
    assert len({card.id for card in drawn}) == len(drawn) == questions
    topics = len({card.topic for card in CARDS})
    assert len({card.topic for card in drawn}) == min(questions, topics)


def test_interviews_depend_on_the_seed_and_check_their_length() -> None:
    assert len({tuple(card.id for card in draw_questions(CARDS, seed)) for seed in range(20)}) == 20
    with pytest.raises(ValueError, match=f"1 to {len(CARDS)} questions, got 0"):
        draw_questions(CARDS, 0, 0)


def test_results_are_sorted_by_weakest_topic() -> None:
    by_topic = {card.topic: card for card in CARDS}
    answers = [
        InterviewAnswer(by_topic["masks"], "easy", 10.0),
        InterviewAnswer(by_topic["scaling"], "again", 130.0),
        InterviewAnswer(by_topic["heads"], "good", 20.0),
        InterviewAnswer(by_topic["heads"], "again", 40.0),
    ]
    rows = results_by_topic(answers, limit=120.0)
    assert [(row.topic, row.questions, row.good, row.seconds, row.late) for row in rows] == [
        ("scaling", 1, 0, 130.0, 1),
        ("heads", 2, 1, 30.0, 0),
        ("masks", 1, 1, 10.0, 0),
    ]


def test_the_checklist_follows_the_progress(file: Path) -> None:
    state = Progress.load()
    assert [item.done for item in checklist(state)] == [False] * 4

    for name in DIAGRAMS:
        state.record_diagram(name, True, NOON)
        state.record_diagram(name, False, NOON + DAY)  # a correct diagram stays done
    for kind in ("softmax", "causal", "cross", "online"):
        task = drill(1, 0, kind)
        state.record_drill(task, task.check({n: format_answer(v) for n, v in task.answers().items()}), NOON)
    state.exercises["06-self-attention"] = {"passed": "2030-01-01"}
    state.exercises["07-multi-head"] = {"passed": None, "attempts": 3}
    deck = Deck(CARDS, state.cards)
    for card in CARDS[: round(len(CARDS) * 0.85)]:
        deck.grade(card.id, "easy", NOON)
    state.save()

    items = {item.name: item for item in checklist(Progress.load())}
    assert {name: item.done for name, item in items.items()} == {
        "flow": True, "hand": True, "exercises": False, "cards": True,
    }  # fmt: skip
    assert (items["hand"].have, items["hand"].need) == (3, 3)  # softmax is of level 1
    assert (items["exercises"].have, items["exercises"].need) == (1, 3)
    state.exercises["07-multi-head"]["passed"] = "2030-01-02"
    state.exercises["08-layer-class"] = {"passed": "2030-01-02"}
    assert all(item.done for item in checklist(state))


def test_repeated_and_failed_drills_do_not_count(file: Path) -> None:
    state = Progress.load()
    for seed in range(3):
        task = drill(1, seed, "causal")
        state.record_drill(task, task.check({n: format_answer(v) for n, v in task.answers().items()}), NOON)
    failed = drill(1, 0, "cross")
    state.record_drill(failed, failed.check(["1"]), NOON)
    assert {item.name: item.have for item in checklist(state)}["hand"] == 1
    assert state.drills[failed.name]["wrong"] == [step.name for step in failed.steps]
    with pytest.raises(ValueError, match="the diagrams are self-attention, multi-head, got 'x'"):
        state.record_diagram("x", True, NOON)


def test_every_exported_name_loads_without_heavy_imports() -> None:
    code = (
        "import sys, regard.learn as learn\n"
        "learn.drill(5, 1); learn.Deck(learn.all_cards(), {}).mastery()\n"
        "print(*({'torch', 'numpy', 'matplotlib'} & set(sys.modules)))\n"
        "assert all(getattr(learn, name) is not None for name in dir(learn))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == ""


def test_the_core_exercises_exist() -> None:
    assert {find_exercise(name).name.partition("-")[2] for name in CORE_EXERCISES} == set(CORE_EXERCISES)
