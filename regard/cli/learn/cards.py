"""`regard learn cards` and `regard learn interview`: questions of an interview, asked in the terminal.

Everything is kept after each answer, so Ctrl-C or the end of the input loses nothing.
"""

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.errors import report_user_errors
from regard.cli.learn.prompts import Lang, Speaker, load_state

if TYPE_CHECKING:
    from regard.learn import Card, Deck, Progress
    from regard.learn.cards.interview import TopicResult
    from regard.learn.cards.spaced_repetition import Grade

TopicName = Annotated[str | None, typer.Option(metavar="NAME", help="Only this topic, such as masks or scaling.")]

SAID = {
    "deck": (
        "{due} due, {new} new, {ease} of {cards} at ease",
        "到期 {due} 张，未学 {new} 张，{ease}/{cards} 张已熟练",
    ),
    "think": ("Answer aloud, then press Enter (q stops) ", "先自己说一遍，再按回车看答案（q 退出）"),
    "shown by": ("See it: {place}", "动手看：{place}"),
    "lab": ("the {view} view of regard lab", "regard lab 的 {view} 视图"),
    "grade": (
        "How did it go? 1 again, 2 hard, 3 good, 4 easy (d for details, q stops) ",
        "答得如何？1 不会，2 勉强，3 不错，4 轻松（d 看详解，q 退出）",
    ),
    "which": ("Type 1, 2, 3, 4, d or q.", "请输入 1、2、3、4、d 或 q。"),
    "due": ("Asked again {when}.", "{when}再问。"),
    "minutes": ("in {n} minutes", "{n} 分钟后"),
    "days": ("in {n} days", "{n} 天后"),
    "day": ("tomorrow", "明天"),
    "none": (
        "Nothing is due and no card is new. The next one comes {when}.",
        "没有到期的卡片，也没有新卡片。下一张{when}。",
    ),
    "kept": ("{n} answered; kept in {file}", "已答 {n} 题，记录在 {file}"),
    "question": ("Question {i} of {n} · {topic} · {seconds:.0f} s", "第 {i}/{n} 题 · {topic} · 限时 {seconds:.0f} 秒"),
    "took": ("{seconds:.0f} s", "用时 {seconds:.0f} 秒"),
    "late": ("{seconds:.0f} s, {over:.0f} s too long", "用时 {seconds:.0f} 秒，超时 {over:.0f} 秒"),
    "summary": ("By topic, the weakest first", "按主题汇总，弱项在前"),
    "columns": ("topic|asked|good or easy|mean time|too long", "主题|题数|不错或轻松|平均用时|超时"),
    "seed": (
        "The same questions again: regard learn interview --seed {seed}",
        "再来一遍同样的题：regard learn interview --seed {seed}",
    ),
}


def cards(
    card: Annotated[str | None, typer.Argument(metavar="[CARD]", help="Print this card and ask nothing.")] = None,
    topic: TopicName = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="Ask this many at most.")] = 20,
    every: Annotated[bool, typer.Option("--list", help="List the cards and how you stand with each.")] = False,
    lang: Lang = None,
) -> None:
    """Be asked interview questions, each again just before you would forget it.

    InterviewAnswer aloud, look at the standard answer, say how it went. Example: regard learn cards --topic masks
    """
    with report_user_errors("learn cards"):
        from regard.learn import Deck, all_cards, find_card, find_topic

        speaker = Speaker(SAID, lang)
        if card is not None:
            print_card(find_card(card), speaker, detail=True)
            return
        state = load_state()
        deck = Deck(all_cards() if topic is None else find_topic(topic).cards, state.cards)
        if every:
            print_deck(deck, speaker)
            return
        asked = 0
        with speaker.until_stopped():
            while asked < limit:
                now = datetime.now(UTC)
                speaker.say("deck", due=len(deck.due(now)), new=len(deck.new()), **_ease(deck))
                due = deck.next(now)
                if due is None:
                    coming = deck.next_due() or now
                    speaker.say("none", when=_when(coming - now, speaker))
                    break
                ask(due, deck, state, speaker)
                asked += 1
                now = datetime.now(UTC)
                speaker.say("due", when=_when(deck.due_at(due.id) - now, speaker))
        speaker.print(speaker.text("kept", n=asked, file=state.file), style="dim", wrapped=False)


def interview(
    seed: Annotated[int | None, typer.Option(metavar="N", min=0, help="Which questions; today's if none.")] = None,
    questions: Annotated[int, typer.Option(metavar="N", min=1, help="How many questions.")] = 10,
    seconds: Annotated[float, typer.Option(metavar="N", min=1, help="Time for each, in seconds.")] = 120.0,
    lang: Lang = None,
) -> None:
    """Sit a mock interview: ten questions across the topics, with a timer on each.

    You grade yourself; the summary says which topics to go back to.
    """
    with report_user_errors("learn interview"):
        from regard.learn import Deck, all_cards, find_topic
        from regard.learn.cards.interview import InterviewAnswer, draw_questions, results_by_topic

        speaker = Speaker(SAID, lang)
        seed = datetime.now(UTC).toordinal() if seed is None else seed
        drawn = draw_questions(all_cards(), seed, questions)
        state = load_state()
        deck = Deck(all_cards(), state.cards)
        answers: list[InterviewAnswer] = []
        with speaker.until_stopped():
            for number, card in enumerate(drawn, 1):
                title = find_topic(card.topic).title[speaker.language]
                speaker.say("question", i=number, n=questions, topic=title, seconds=seconds)
                grade, took = ask(card, deck, state, speaker, seconds)
                answers.append(InterviewAnswer(card, grade, took))
        if answers:
            print_summary(results_by_topic(answers, seconds), speaker)
        speaker.print(speaker.text("kept", n=len(answers), file=state.file), style="dim", wrapped=False)
        speaker.say("seed", seed=seed)


def ask(
    card: "Card", deck: "Deck", state: "Progress", speaker: Speaker, limit: float | None = None
) -> "tuple[Grade, float]":
    """Ask one card, keep the grade, and say how long the answer took; with a limit, whether that was too long."""
    from regard.learn.cards.spaced_repetition import GRADES

    speaker.print(f"\n{card.question[speaker.language]}\n", style="bold")
    started = time.monotonic()
    speaker.ask(speaker.text("think"))
    took = time.monotonic() - started
    if limit is not None:
        late = {"over": took - limit} if took > limit else {}
        speaker.say("late" if late else "took", seconds=took, **late)
    print_card(card, speaker, question=False)
    while True:
        typed = speaker.ask(speaker.text("grade")).lower()
        if typed in ("1", "2", "3", "4"):
            break
        if typed == "d":
            speaker.print(f"\n{card.detail[speaker.language]}\n")
        else:
            speaker.say("which")
    grade = GRADES[int(typed) - 1]
    deck.grade(card.id, grade, datetime.now(UTC))
    state.save()
    return grade, took


def print_card(card: "Card", speaker: Speaker, question: bool = True, detail: bool = False) -> None:
    """A card, its standard answer first."""
    if question:
        speaker.print(f"{card.question[speaker.language]}\n", style="bold")
    for text in (card.answer, *([card.detail] if detail else [])):
        speaker.print(f"{text[speaker.language]}\n")
    view = card.shows.removeprefix("lab: ")
    place = card.shows if view == card.shows else speaker.text("lab", view=view)
    speaker.print(speaker.text("shown by", place=place), style="dim", wrapped=False)


def print_deck(deck: "Deck", speaker: Speaker) -> None:
    """Every card in a line, by topic."""
    from regard.learn import find_topic

    for name, ease in deck.summary_by_topic().items():
        title = find_topic(name).title[speaker.language]
        speaker.print(f"\n{title} ({name}): {ease.at_ease}/{ease.cards}", style="bold")
        for card in deck.cards.values():
            if card.topic == name:
                mark = "●" if deck.at_ease(card.id) else "○" if card.id in deck.memory else "·"
                line = f"  {mark} {card.id}: {card.question[speaker.language]}"
                speaker.console.print(line, highlight=False, markup=False, no_wrap=True, overflow="ellipsis")
    speaker.say("deck", due=len(deck.due(datetime.now(UTC))), new=len(deck.new()), **_ease(deck))


def print_summary(rows: "list[TopicResult]", speaker: Speaker) -> None:
    """How the interview went, a row a topic."""
    from rich.table import Table

    from regard.learn import find_topic

    table = Table(title=speaker.text("summary"), title_justify="left")
    for place, heading in enumerate(speaker.text("columns").split("|")):
        table.add_column(heading, justify="right" if place else "left")
    for row in rows:
        title = find_topic(row.topic).title[speaker.language]
        table.add_row(title, str(row.asked), str(row.good), f"{row.seconds:.0f} s", str(row.late))
    speaker.console.print()
    speaker.console.print(table)


def _ease(deck: "Deck") -> dict[str, int]:
    ease = deck.ease()
    return {"ease": ease.at_ease, "cards": ease.cards}


def _when(wait: timedelta, speaker: Speaker) -> str:
    if wait < timedelta(hours=12):
        return speaker.text("minutes", n=max(1, round(wait.total_seconds() / 60)))
    days = max(1, round(wait / timedelta(days=1)))
    return speaker.text("day" if days == 1 else "days", n=days)
