"""Data sets: generated pairs, files of pairs, text files."""

import re
from datetime import date
from pathlib import Path

import pytest
from babel.dates import format_date, parse_date

from regard.training import Pairs, date_pairs, phrase_pairs, read_tsv
from regard.training.data.dates import FIRST, LAST, ordinal
from regard.training.data.phrase_grammar import CAT
from regard.training.data.text import load_text, python_reference, read_texts
from regard.training.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def phrase_data() -> Pairs:
    return phrase_pairs(train=20_000)


@pytest.fixture(scope="module")
def date_data() -> Pairs:
    return date_pairs(train=20_000)


@pytest.fixture(scope="module", params=["phrase_data", "date_data"])
def pairs_of_both(request: pytest.FixtureRequest) -> Pairs:
    return request.getfixturevalue(request.param)


class TestPhrasesAndDates:
    def test_held_out_sources_are_not_in_the_training_data(self, pairs_of_both: Pairs) -> None:
        learnt = {source.lower().rstrip(".") for source, _ in pairs_of_both.train}
        assert not learnt & {source.lower().rstrip(".") for source, _ in (*pairs_of_both.valid, *pairs_of_both.test)}

    def test_every_source_has_one_translation(self, pairs_of_both: Pairs) -> None:
        everything = pairs_of_both.train + pairs_of_both.valid + pairs_of_both.test
        assert len({source for source, _ in everything}) == len(everything)

    def test_samples_are_held_out(self, pairs_of_both: Pairs) -> None:
        assert set(pairs_of_both.samples) <= {source for source, _ in pairs_of_both.test}

    def test_the_same_seed_gives_the_same_pairs(self, pairs_of_both: Pairs) -> None:
        again = {"phrases": phrase_pairs, "dates": date_pairs}[pairs_of_both.name]
        assert again(train=20_000).train == pairs_of_both.train
        assert again(train=20_000, seed=1).train != pairs_of_both.train

    def test_the_tokenizer_decodes_every_text_exactly(self, pairs_of_both: Pairs) -> None:
        texts = [text for pair in pairs_of_both.train for text in pair]
        tokenizer = Tokenizer.train(texts, pairs_of_both.tokenizer, lexicon=pairs_of_both.lexicon)
        for text in texts[:4000] + [text for pair in pairs_of_both.test for text in pair]:
            assert tokenizer.decode(tokenizer.encode(text)) == text
            assert not tokenizer.unseen(text)


class TestPhrases:
    def test_the_cat_sentence_is_held_out_in_every_spelling(self, phrase_data: Pairs) -> None:
        assert phrase_data.test[0] == CAT
        assert phrase_data.samples[0] == CAT[0]
        for source, target in phrase_data.train + phrase_data.valid:
            assert source.lower().rstrip(".") != CAT[0].lower()
            assert target.rstrip("。") != CAT[1]

    def test_the_words_of_the_cat_sentence_are_in_the_training_data(self, phrase_data: Pairs) -> None:
        learnt = " ".join(source for source, _ in phrase_data.train).split()
        assert all(learnt.count(word) > 50 for word in CAT[0].split())

    def test_measure_words_follow_the_noun(self, phrase_data: Pairs) -> None:
        counted = dict.fromkeys(["两只猫", "三本书", "四匹马", "五位老师", "六顶帽子", "一封信"], 0)
        for _, target in phrase_data.train:
            for words in counted:
                counted[words] += words in target
        assert min(counted.values()) > 0
        assert not any(re.search("[个本张]猫|只书|个马", target) for _, target in phrase_data.train)

    def test_grammar_of_all_sentences(self, phrase_data: Pairs) -> None:
        for source, target in phrase_data.train:
            assert source.endswith("?") == target.endswith("？")
            assert source.endswith(".") == target.endswith("。")
            assert not re.search(r"\ba [aeiou]|\ban [^aeiou]", source), source
            assert "的的" not in target
            if re.match(r"there (is|are) ", source, re.I):
                assert "有" in target
            if " will " in source:
                assert "会" in target
            if " did not " in source:
                assert "没有" in target
                assert "了" not in target


class TestDates:
    def test_held_out_days_are_not_in_the_training_data_in_any_form(self, date_data: Pairs) -> None:
        def day(pair: tuple[str, str]) -> date:
            source, target = map(read, pair)
            assert source == target, pair
            return source

        learnt = {day(pair) for pair in date_data.train}
        assert not learnt & {day(pair) for pair in date_data.test + date_data.valid}

    def test_targets_are_cldr_formats(self, date_data: Pairs) -> None:
        for source, target in date_data.test:
            in_chinese = "年" in target
            when = read(source)
            assert FIRST <= when <= LAST
            form = "full" if re.search("星期|day", target) else "long"
            assert target == format_date(when, form, locale="zh" if in_chinese else "en")
            named = re.search("星期|周|週|(?i:mon|tue|wed|thu|fri|sat|sun)", source)
            assert (form == "full") == bool(named), (source, target)

    def test_both_directions_are_equally_frequent(self, date_data: Pairs) -> None:
        to_chinese = sum("年" in target for _, target in date_data.train) / len(date_data.train)
        assert 0.45 < to_chinese < 0.55

    def test_every_form_shows_which_number_is_the_month(self, date_data: Pairs) -> None:
        for source, _ in date_data.train:
            assert re.search("[A-Z][a-z][a-z]|年", source) or re.match(r"\d{4}/", source), source

    def test_ordinals(self) -> None:
        assert [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 22, 23, 31)] == [
            "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "23rd", "31st",
        ]  # fmt: skip


MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


def read(text: str) -> date:
    """Parse a date independently of the code that wrote it: Chinese by babel's parser, English by its numbers."""
    if re.match(r"\d{4}[年/]", text):
        numbers = re.match(r"\d{4}\D\d+\D\d+", text)
        assert numbers, text
        return parse_date(numbers[0], locale="zh", format="long")
    month = re.search("|".join(MONTHS), text)
    if month is None:
        return numerals(text)
    rest = text[: month.start()] + text[month.end() :]
    day, year = sorted(map(int, re.findall(r"\d+", rest)))
    return date(year, MONTHS.index(month[0]) + 1, day)


def numerals(text: str) -> date:
    """Parse a date in Chinese numerals such as 二〇二四年三月五日."""
    parts = re.match("(.+?)年(.+?)月(.+?)日", text)
    assert parts, text
    year, month, day = parts.groups()
    digits = "〇一二三四五六七八九"

    def small(word: str) -> int:
        tens, ten, ones = word.rpartition("十")
        return (10 * (digits.index(tens) if tens else 1) if ten else 0) + (digits.index(ones) if ones else 0)

    return date(int("".join(str(digits.index(c)) for c in year)), small(month), small(day))


class TestFiles:
    def test_pairs_from_a_file(self, pairs: Path) -> None:
        read_pairs = read_tsv(pairs)
        assert len(read_pairs.train) + len(read_pairs.valid) + len(read_pairs.test) == 80
        assert ("137", "一三七") in read_pairs.train + read_pairs.valid + read_pairs.test

    def test_a_source_with_two_translations_stays_in_one_part(self, tmp_path: Path) -> None:
        file = tmp_path / "pairs.tsv"
        file.write_text("".join(f"{n % 20}\t{n}\n" for n in range(60)), encoding="utf-8")
        read_pairs = read_tsv(file)
        sides = [{source for source, _ in part} for part in (read_pairs.train, read_pairs.valid, read_pairs.test)]
        assert sum(map(len, sides)) == len(set().union(*sides))
        assert sum(map(len, (read_pairs.train, read_pairs.valid, read_pairs.test))) == 60

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "has 0 different sources"),
            (b"a\tb\n\n", "has 1 different sources"),
            (b"a\tb\nc d\n", "line 2: no tab; expected SOURCE<tab>TRANSLATION in UTF-8, got 'c d'"),
            (b"a\tb\n\nc\t \n", "line 3: no text on one side of the tab"),
            (b"a\t\xff\n", "line 1: not UTF-8"),
            (b"same\tline\n" * 50, "has 1 different sources"),
            (("ab\tc\n" * 9).encode("utf-16"), "not UTF-8|NUL"),
        ],
    )
    def test_an_error_in_a_file_names_the_line(self, content: bytes, message: str, tmp_path: Path) -> None:
        file = tmp_path / "pairs.tsv"
        file.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            read_tsv(file)

    def test_windows_files_are_read(self, tmp_path: Path) -> None:
        file = tmp_path / "pairs.tsv"
        file.write_bytes(b"\xef\xbb\xbfa\tb\r\nc\td\r\ne\tf\r\n")
        read_pairs = read_tsv(file)
        assert set(read_pairs.train + read_pairs.valid + read_pairs.test) == {("a", "b"), ("c", "d"), ("e", "f")}

    def test_lines_that_cannot_be_used_are_skipped_and_named(self, tmp_path: Path) -> None:
        file = tmp_path / "pairs.tsv"
        good = [f"{n}\twords {n}".encode() for n in range(20)]
        wide, repeated = b"x\ty\tthird\tfourth", good[0]
        bad = [b"no tab", b"no target\t", b"nul\t\0", b"latin\t\xe9t\xe9", b"long\t" + b"word " * 900]
        file.write_bytes(b"\n".join([*good, *bad, b"", b" \t ", wide, repeated]))
        pairs = read_tsv(file)
        assert set(pairs.train + pairs.valid + pairs.test) == {(str(n), f"words {n}") for n in range(20)} | {("x", "y")}
        assert pairs.notes == (
            "line 21 skipped: no tab",
            "line 22 skipped: no text on one side of the tab",
            "line 23 skipped: NUL characters",
            "line 24 skipped: not UTF-8",
            "line 25 skipped: more than 4,000 characters on one side",
            "line 28: only the first two columns are used",
            "line 29: the same pair as on an earlier line; it counts more than once",
        )

    def test_excluding_pairs_leaves_data_in_every_part(self, tmp_path: Path) -> None:
        file = tmp_path / "pairs.tsv"
        file.write_text("".join(f"{n}\t{n}\n" for n in range(50)), encoding="utf-8")
        pairs = read_tsv(file)
        fewer = pairs.without({pairs.train[0], *pairs.valid, *pairs.test})
        assert all((fewer.train, fewer.valid, fewer.test, fewer.samples))
        assert not {pairs.train[0], *pairs.valid} & {*fewer.train, *fewer.valid, *fewer.test}

    def test_the_python_reference(self) -> None:
        text = python_reference()
        assert len(text.train) > 8 * len(text.valid) > 0
        assert not set(text.train) & set(text.valid)
        assert sum(map(len, text.train)) > 300_000
        assert load_text().train == text.train

    def test_text_files(self, tmp_path: Path) -> None:
        file = tmp_path / "a.txt"
        file.write_text("word " * 100, encoding="utf-8")
        text = read_texts([file])
        assert "".join(text.train + text.valid) == "word " * 100
        (tmp_path / "empty.txt").write_text(" \n")
        with pytest.raises(ValueError, match=r"empty.txt has 0 characters"):
            read_texts([file, tmp_path / "empty.txt"])
        with pytest.raises(FileNotFoundError):
            read_texts([tmp_path / "none.txt"])
