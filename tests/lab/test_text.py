"""The words of the page: the same keys in both languages, none missing where one is used, none unused."""

import json
import re
from pathlib import Path

import pytest

from regard.lab.server.live_page import LANGUAGES, STATIC, load_texts, view_names

WRITTEN = re.compile(r"""\bt\(\s*"([\w.-]+)"|"((?:keep|kept)\.\w+)\"""")
BEGUN = re.compile(r"\bt\(\s*`([\w.-]+\.)\$\{")
REFUSED = re.compile(r"""FieldError\(\s*[^,]+,\s*"([\w-]+)\"""")
CODED = {
    "error.busy",
    "error.gone",
    "error.token",
    "error.saved",
    "error.static",
    "error.static-file",
    "error.failed",
    "error.json",
}  # of the server as a whole


def modules() -> str:
    return "\n".join(file.read_text(encoding="utf-8") for file in sorted(STATIC.rglob("*.js")))


def test_both_languages_have_the_same_keys() -> None:
    english, chinese = (load_texts(language) for language in LANGUAGES)
    assert english.keys() == chinese.keys()
    assert all(english.values())
    assert all(chinese.values())


def test_texts_name_the_same_facts() -> None:
    english, chinese = (load_texts(language) for language in LANGUAGES)
    for key, text in english.items():
        assert set(re.findall(r"\{(\w+)\}", text)) == set(re.findall(r"\{(\w+)\}", chinese[key])), key


def test_chinese_is_chinese() -> None:
    english, chinese = (load_texts(language) for language in LANGUAGES)
    for key, text in chinese.items():
        said = re.sub(r"\{\w+\}", "", english[key])
        if len(re.findall(r"[a-z]{3,}", said)) > 1:
            assert re.search("[一-鿿]", text), key


def test_no_key_is_missing_and_none_unused() -> None:
    known, code = set(load_texts("en")), modules()
    written = {a or b for a, b in WRITTEN.findall(code)}
    begun = set(BEGUN.findall(code))
    assert written - known == set()
    for start in begun:
        assert any(key.startswith(start) for key in known), start
    needed = {f"{view}.{key}" for view in view_names() for key in ("name", "title", "lead")}
    assert needed <= known
    used = written | needed | CODED | _refusals(known)
    unused = {key for key in known - used if not any(key.startswith(start) for start in begun)}
    assert unused == set()


def _refusals(known: set[str]) -> set[str]:
    """The words for what endpoints refuse, each of which must be known: the view's own or those of all views."""
    found = set()
    for file in Path(STATIC.parent).rglob("*.py"):
        for code in REFUSED.findall(file.read_text(encoding="utf-8")):
            view = file.stem.removeprefix("connect_").partition("_")[0]
            keys = {f"{view}.error.{code}", f"error.{code}"} & known
            assert keys or code == "json", f"{file.name} refuses with {code!r}, for which there are no words"
            found |= keys
    return found


@pytest.mark.parametrize("language", LANGUAGES)
def test_files_are_flat_and_each_key_stands_once(language: str) -> None:
    for file in (STATIC / "text").glob(f"*.{language}.json"):
        pairs = json.loads(file.read_text(encoding="utf-8"), object_pairs_hook=list)
        keys = [key for key, _ in pairs]
        assert len(keys) == len(set(keys)), file.name
        assert all(isinstance(text, str) for _, text in pairs), file.name
