"""Dates in English and Chinese, both ways: real, unlimited, and exact to score.

A date is written as English or Chinese writes it somewhere (the patterns are CLDR's, through babel; ordinals and
Chinese numerals are added) and is to be written as the other language writes it in full: CLDR's `full` pattern
where the source names the weekday, its `long` pattern where it does not.

    Tue, 5 Mar 2024        →  2024年3月5日星期二
    二〇二四年三月五日     →  March 5, 2024

Forms that do not say which number is the month (3/5/24) are left out, so every source has one translation. A date
that is held out is never seen in any form.
"""

import random
from collections.abc import Callable
from datetime import date, timedelta
from functools import cache

from babel import Locale
from babel.dates import DateTimePattern, parse_pattern

from regard.training.data.pairs import Pair, Pairs

FIRST, LAST = date(1900, 1, 1), date(2099, 12, 31)

Form = Callable[[date], str]


def date_pairs(*, seed: int = 0, train: int = 100_000, valid: int = 500, test: int = 2000) -> Pairs:
    """So many pairs of each kind, half of them from English."""
    rng = random.Random(seed)
    days = [FIRST + timedelta(days=i) for i in range((LAST - FIRST).days + 1)]
    rng.shuffle(days)
    # A held-out day gives one pair to ask; the days that are left over to learn from come again in other forms.
    asked, watched, learnt = days[:test], days[test : test + valid], days[test + valid :]
    held_out = _distinct(asked, test, rng)
    return Pairs(
        "dates",
        train=_distinct(learnt, train, rng),
        valid=_distinct(watched, valid, rng),
        test=held_out,
        tokenizer="characters",
        show=tuple(source for source, _ in held_out[:6]),
    )


def _distinct(days: list[date], count: int, rng: random.Random) -> tuple[Pair, ...]:
    found: dict[str, str] = {}
    while len(found) < count:
        for day in days:
            forms, answer = rng.choice(DIRECTIONS)
            found.setdefault(rng.choice(forms)(day), answer(day))
            if len(found) == count:
                break
    return tuple(found.items())


@cache
def _pattern(text: str) -> DateTimePattern:
    return parse_pattern(text)


@cache
def _locale(name: str) -> Locale:
    return Locale.parse(name)


def cldr(pattern: str, locale: str) -> Form:
    """The form of a CLDR pattern: "EEEE, MMMM d, y" and the like, or a name of one: "full", "long", "yMMMEd".

    >>> cldr("full", "en_GB")(date(2024, 3, 5)), cldr("yMMMEd", "zh")(date(2024, 3, 5))
    ('Tuesday, 5 March 2024', '2024年3月5日周二')
    """

    def form(day: date) -> str:
        named = _locale(locale).date_formats.get(pattern) or _locale(locale).datetime_skeletons.get(pattern)
        return (named or _pattern(pattern)).apply(day, _locale(locale))

    return form


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th, 21st."""
    ending = "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def with_ordinal(pattern: str) -> Form:
    """The English form of a CLDR pattern in which # stands for the day as an ordinal."""

    def form(day: date) -> str:
        return cldr(pattern, "en")(day).replace("#", ordinal(day.day))

    return form


DIGITS = "〇一二三四五六七八九"


def numeral(number: int) -> str:
    """A number below 100 in Chinese.

    >>> [numeral(n) for n in (5, 10, 12, 20, 31)]
    ['五', '十', '十二', '二十', '三十一']
    """
    tens, ones = divmod(number, 10)
    return ("" if tens < 2 else DIGITS[tens]) + "十" * (tens > 0) + (DIGITS[ones] if ones or not tens else "")


def in_numerals(day: date) -> str:
    """二〇二四年三月五日"""
    year = "".join(DIGITS[int(digit)] for digit in str(day.year))
    return f"{year}年{numeral(day.month)}月{numeral(day.day)}日"


def _weekday(form: Form, pattern: str, locale: str) -> Form:
    return lambda day: form(day) + cldr(pattern, locale)(day)


ENGLISH_LONG, ENGLISH_FULL = cldr("long", "en"), cldr("full", "en")
CHINESE_LONG, CHINESE_FULL = cldr("long", "zh"), cldr("full", "zh")

ENGLISH: tuple[Form, ...] = (
    ENGLISH_LONG,
    cldr("medium", "en"),
    cldr("long", "en_GB"),
    cldr("medium", "en_GB"),
    cldr("long", "en_ZA"),
    with_ordinal("MMMM '#', y"),
    with_ordinal("'#' MMMM y"),
    with_ordinal("'the' '#' 'of' MMMM, y"),
)
ENGLISH_WITH_WEEKDAY: tuple[Form, ...] = (
    ENGLISH_FULL,
    cldr("full", "en_GB"),
    cldr("full", "en_IE"),
    cldr("yMMMEd", "en"),
    cldr("yMMMEd", "en_GB"),
    cldr("yMMMEd", "en_IE"),
    with_ordinal("EEEE, MMMM '#', y"),
    with_ordinal("EEEE 'the' '#' 'of' MMMM, y"),
)
CHINESE: tuple[Form, ...] = (
    CHINESE_LONG,
    cldr("short", "zh"),
    cldr("y年MM月dd日", "zh"),
    in_numerals,
)
CHINESE_WITH_WEEKDAY: tuple[Form, ...] = (
    CHINESE_FULL,
    cldr("full", "zh_Hant"),
    cldr("yMMMEd", "zh"),
    cldr("yMEd", "zh"),
    cldr("yMEd", "zh_Hant"),
    _weekday(in_numerals, "EEEE", "zh"),
)
DIRECTIONS: tuple[tuple[tuple[Form, ...], Form], ...] = (
    (ENGLISH, CHINESE_LONG),
    (ENGLISH_WITH_WEEKDAY, CHINESE_FULL),
    (CHINESE, ENGLISH_LONG),
    (CHINESE_WITH_WEEKDAY, ENGLISH_FULL),
)
