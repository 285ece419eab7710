"""`regard learn cards` and `regard learn interview`: interview questions in the terminal.

Progress is saved after each answer, so Ctrl-C loses nothing.
"""

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

from regard.cli.learn.prompts import Lang, Terminal, load_progress
from regard.cli.options import argument, flag, option

if TYPE_CHECKING:
    from regard.learn import Card, Deck, Progress
    from regard.learn.cards.interview import TopicResult
    from regard.learn.cards.spaced_repetition import Grade

TopicName = Annotated[str | None, option("NAME", "Ask only cards of this topic, e.g. masks or scaling.")]


def cards(
    card: Annotated[str | None, argument("CARD", "Print the card with this id, e.g. formula.")] = None,
    topic: TopicName = None,
    limit: Annotated[int, option("N", "Largest number of cards to ask.", min=1)] = 20,
    list_all: Annotated[bool, flag("--list", "List all cards and which of them you have mastered.")] = False,
    lang: Lang = None,
) -> None:
    """Review interview questions with spaced repetition: each card returns shortly before you would forget it.

    Answer aloud, read the standard answer, then grade yourself. Example: regard learn cards --topic masks
    """
    from regard.learn import Deck, all_cards, find_card, find_topic

    terminal = Terminal(lang)
    if card is not None:
        print_card(find_card(card), terminal, detail=True)
        return
    progress = load_progress()
    deck = Deck(all_cards() if topic is None else find_topic(topic).cards, progress.cards)
    if list_all:
        print_deck(deck, terminal)
        return
    count = 0
    with terminal.until_stopped():
        while count < limit:
            now = datetime.now(UTC)
            terminal.say("deck", **_counts(deck, now))
            due = deck.next(now)
            if due is None:
                coming = deck.next_due() or now
                terminal.say("nothing-due", when=_describe_wait(coming - now, terminal))
                break
            ask(due, deck, progress, terminal)
            count += 1
            now = datetime.now(UTC)
            terminal.say("due", when=_describe_wait(deck.due_at(due.id) - now, terminal))
    terminal.print(terminal.text("saved", n=count, file=progress.file), style="dim", wrapped=False)


def interview(
    seed: Annotated[int | None, option("N", "Seed of the choice of questions; default: the date.", min=0)] = None,
    questions: Annotated[int, option("N", "Number of questions.", min=1)] = 10,
    seconds: Annotated[float, option("N", "Time limit for each question, in seconds.", min=1)] = 120.0,
    lang: Lang = None,
) -> None:
    """Take a mock interview: questions across all topics, each with a time limit.

    You grade yourself; the summary shows your weakest topics first.
    """
    from regard.learn import Deck, all_cards, find_topic
    from regard.learn.cards.interview import InterviewAnswer, draw_questions, results_by_topic

    terminal = Terminal(lang)
    seed = datetime.now(UTC).toordinal() if seed is None else seed
    question_cards = draw_questions(all_cards(), seed, questions)
    progress = load_progress()
    deck = Deck(all_cards(), progress.cards)
    answers: list[InterviewAnswer] = []
    with terminal.until_stopped():
        for number, card in enumerate(question_cards, 1):
            title = find_topic(card.topic).title[terminal.language]
            terminal.say("question", i=number, n=questions, topic=title, seconds=seconds)
            grade, took = ask(card, deck, progress, terminal, seconds)
            answers.append(InterviewAnswer(card, grade, took))
    if answers:
        print_summary(results_by_topic(answers, seconds), terminal)
    terminal.print(terminal.text("saved", n=len(answers), file=progress.file), style="dim", wrapped=False)
    terminal.say("same-questions", seed=seed)


def ask(
    card: "Card", deck: "Deck", progress: "Progress", terminal: Terminal, limit: float | None = None
) -> "tuple[Grade, float]":
    """Ask one card and save the grade; return the grade and the seconds taken."""
    from regard.learn.cards.spaced_repetition import GRADES

    terminal.print(f"\n{card.question[terminal.language]}\n", style="bold")
    started = time.monotonic()
    terminal.ask(terminal.text("think"))
    took = time.monotonic() - started
    if limit is not None:
        late = {"over": took - limit} if took > limit else {}
        terminal.say("late" if late else "took", seconds=took, **late)
    print_card(card, terminal, question=False)
    while True:
        key = terminal.ask(terminal.text("grade")).lower()
        if key in ("1", "2", "3", "4"):
            break
        if key == "d":
            terminal.print(f"\n{card.detail[terminal.language]}\n")
        else:
            terminal.say("grade-keys")
    grade = GRADES[int(key) - 1]
    deck.grade(card.id, grade, datetime.now(UTC))
    progress.save()
    return grade, took


def print_card(card: "Card", terminal: Terminal, question: bool = True, detail: bool = False) -> None:
    """Print a card: question, standard answer, details, and the command or view that demonstrates it."""
    if question:
        terminal.print(f"{card.question[terminal.language]}\n", style="bold")
    for text in (card.answer, *([card.detail] if detail else [])):
        terminal.print(f"{text[terminal.language]}\n")
    view = card.shows.removeprefix("lab: ")
    place = card.shows if view == card.shows else terminal.text("lab-view", view=view)
    terminal.print(terminal.text("shown-by", place=place), style="dim", wrapped=False)


def print_deck(deck: "Deck", terminal: Terminal) -> None:
    """Print every card in one line, grouped by topic."""
    from regard.learn import find_topic

    for name, mastery in deck.mastery_by_topic().items():
        title = find_topic(name).title[terminal.language]
        terminal.print(f"\n{title} ({name}): {mastery.mastered}/{mastery.cards}", style="bold")
        for card in deck.cards.values():
            if card.topic == name:
                mark = "●" if deck.is_mastered(card.id) else "○" if card.id in deck.memory else "·"
                line = f"  {mark} {card.id}: {card.question[terminal.language]}"
                terminal.console.print(line, highlight=False, markup=False, no_wrap=True, overflow="ellipsis")
    terminal.say("deck", **_counts(deck, datetime.now(UTC)))


def print_summary(rows: "list[TopicResult]", terminal: Terminal) -> None:
    """Print the results of an interview, one row per topic."""
    from rich.table import Table

    from regard.learn import find_topic

    table = Table(title=terminal.text("summary"), title_justify="left")
    for place, heading in enumerate(terminal.text("columns").split("|")):
        table.add_column(heading, justify="right" if place else "left")
    for row in rows:
        title = find_topic(row.topic).title[terminal.language]
        table.add_row(title, str(row.questions), str(row.good), f"{row.seconds:.0f} s", str(row.late))
    terminal.console.print()
    terminal.console.print(table)


def _counts(deck: "Deck", now: datetime) -> dict[str, int]:
    mastery = deck.mastery()
    return {"due": len(deck.due(now)), "new": len(deck.new()), "mastered": mastery.mastered, "cards": mastery.cards}


def _describe_wait(wait: timedelta, terminal: Terminal) -> str:
    if wait < timedelta(hours=12):
        return terminal.text("minutes", n=max(1, round(wait.total_seconds() / 60)))
    days = max(1, round(wait / timedelta(days=1)))
    return terminal.text("day" if days == 1 else "days", n=days)
