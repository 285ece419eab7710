"""Dates in English with Chinese translations, and the reverse.

A source is a date in a form that English or Chinese uses (CLDR's patterns through babel, ordinals, Chinese numerals).
The target is the same date in the other language, in CLDR's `full` pattern if the source names the weekday, and in its
`long` pattern otherwise.

    Tue, 5 Mar 2024        →  2024年3月5日星期二
    二〇二四年三月五日     →  March 5, 2024

Forms that do not show which number is the month (3/5/24) are excluded, so every source has one translation. A held-out
date does not occur in the training data in any form.
"""

import random
from collections.abc import Callable
from datetime import date, timedelta
from functools import cache

from regard.extras import needs
from regard.training.data.pairs import Pair, Pairs

with needs("train", "the data set of dates"):
    from babel import Locale
    from babel.dates import parse_pattern

FIRST, LAST = date(1900, 1, 1), date(2099, 12, 31)

Form = Callable[[date], str]
_parse_pattern, _locale = cache(parse_pattern), cache(Locale.parse)


def date_pairs(*, seed: int = 0, train: int = 100_000, valid: int = 500, test: int = 2000) -> Pairs:
    """Generate distinct pairs, about half of them from English to Chinese; test pairs are held out.

    seed                seed of the pairs
    train, valid, test  number of pairs of each kind

    >>> pairs = date_pairs(train=100, valid=10, test=10)
    >>> len(pairs.train), len(pairs.test)
    (100, 10)
    """
    rng = random.Random(seed)
    days = [FIRST + timedelta(days=i) for i in range((LAST - FIRST).days + 1)]
    rng.shuffle(days)
    # Each held-out day gives one pair; the days for training occur in several forms.
    test_pairs = _distinct_pairs(days[:test], test, rng)
    return Pairs(
        "dates",
        train=_distinct_pairs(days[test + valid :], train, rng),
        valid=_distinct_pairs(days[test : test + valid], valid, rng),
        test=test_pairs,
        tokenizer="characters",
        samples=tuple(source for source, _ in test_pairs[:6]),
    )


def _distinct_pairs(days: list[date], count: int, rng: random.Random) -> tuple[Pair, ...]:
    pairs: dict[str, str] = {}
    while len(pairs) < count:
        for day in days:
            source_forms, target_form = rng.choice(DIRECTIONS)
            pairs.setdefault(rng.choice(source_forms)(day), target_form(day))
            if len(pairs) == count:
                break
    return tuple(pairs.items())


def cldr(pattern: str, locale: str) -> Form:
    """Return a function that writes a date by a CLDR pattern ("EEEE, MMMM d, y") or pattern name ("full", "yMMMEd").

    >>> cldr("full", "en_GB")(date(2024, 3, 5)), cldr("yMMMEd", "zh")(date(2024, 3, 5))
    ('Tuesday, 5 March 2024', '2024年3月5日周二')
    """

    def form(day: date) -> str:
        named_form = _locale(locale).date_formats.get(pattern) or _locale(locale).datetime_skeletons.get(pattern)
        return (named_form or _parse_pattern(pattern)).apply(day, _locale(locale))

    return form


def ordinal(number: int) -> str:
    """Return an English ordinal: 1st, 2nd, 3rd, 4th, 11th, 21st."""
    ending = "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def with_ordinal(pattern: str) -> Form:
    """Return a function that writes a date in English by a CLDR pattern, with # for the day as an ordinal."""
    return lambda day: cldr(pattern, "en")(day).replace("#", ordinal(day.day))


DIGITS = "〇一二三四五六七八九"


def chinese_numeral(number: int) -> str:
    """Return a number below 100 in Chinese.

    >>> [chinese_numeral(n) for n in (5, 10, 12, 20, 31)]
    ['五', '十', '十二', '二十', '三十一']
    """
    tens, ones = divmod(number, 10)
    return ("" if tens < 2 else DIGITS[tens]) + "十" * (tens > 0) + (DIGITS[ones] if ones or not tens else "")


def in_chinese_numerals(day: date) -> str:
    """Return the date in Chinese numerals: 二〇二四年三月五日."""
    year = "".join(DIGITS[int(digit)] for digit in str(day.year))
    return f"{year}年{chinese_numeral(day.month)}月{chinese_numeral(day.day)}日"


ENGLISH_LONG, ENGLISH_FULL = cldr("long", "en"), cldr("full", "en")
CHINESE_LONG, CHINESE_FULL = cldr("long", "zh"), cldr("full", "zh")

ENGLISH: tuple[Form, ...] = (
    ENGLISH_LONG, cldr("medium", "en"), cldr("long", "en_GB"), cldr("medium", "en_GB"), cldr("long", "en_ZA"),
    *map(with_ordinal, ("MMMM '#', y", "'#' MMMM y", "'the' '#' 'of' MMMM, y")),
)  # fmt: skip
ENGLISH_WITH_WEEKDAY: tuple[Form, ...] = (
    ENGLISH_FULL, cldr("full", "en_GB"), cldr("full", "en_IE"),
    *(cldr("yMMMEd", locale) for locale in ("en", "en_GB", "en_IE")),
    *map(with_ordinal, ("EEEE, MMMM '#', y", "EEEE 'the' '#' 'of' MMMM, y")),
)  # fmt: skip
CHINESE: tuple[Form, ...] = (CHINESE_LONG, cldr("short", "zh"), cldr("y年MM月dd日", "zh"), in_chinese_numerals)
CHINESE_WITH_WEEKDAY: tuple[Form, ...] = (
    CHINESE_FULL, cldr("full", "zh_Hant"), cldr("yMMMEd", "zh"), cldr("yMEd", "zh"), cldr("yMEd", "zh_Hant"),
    lambda day: in_chinese_numerals(day) + cldr("EEEE", "zh")(day),
)  # fmt: skip
DIRECTIONS: tuple[tuple[tuple[Form, ...], Form], ...] = (
    (ENGLISH, CHINESE_LONG),
    (ENGLISH_WITH_WEEKDAY, CHINESE_FULL),
    (CHINESE, ENGLISH_LONG),
    (CHINESE_WITH_WEEKDAY, ENGLISH_FULL),
)
