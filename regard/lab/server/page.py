"""The page as it is sent: one HTML frame with the facts that the modules start from.

The facts are the texts in both languages, the views that are there, and the colours of weights that the pictures of
`regard.pictures` have, so that a heatmap looks the same wherever it is drawn.
"""

import json
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

import regard

STATIC = Path(__file__).parents[1] / "static"
ORDER = ("trace", "heads", "model", "geometry", "cost", "practice", "four", "claims")
LANGUAGES = ("en", "zh")


def page(token: str, *, runner: bool = True) -> str:
    """The page of a running lab."""
    facts = {"token": token, "runner": runner, **common_facts()}
    return Template(_read("index.html")).substitute(facts=in_script(facts))


def common_facts() -> dict[str, Any]:
    """What a page knows wherever it is opened from."""
    return {
        "version": regard.__version__,
        "views": views(),
        "styles": [name for name in views() if (STATIC / "views" / f"{name}.css").exists()],
        "colours": _colours(),
        "text": {language: texts(language) for language in LANGUAGES},
    }


def views() -> list[str]:
    """The views whose files are there, in the order of the navigation."""
    there = {file.stem for file in (STATIC / "views").glob("*.js")}
    return [name for name in ORDER if name in there] + sorted(there - set(ORDER))


def texts(language: str) -> dict[str, str]:
    """Every text in one language: the keys of common.en.json as they are, those of NAME.en.json as NAME.key."""
    found: dict[str, str] = {}
    for file in sorted((STATIC / "text").glob(f"*.{language}.json")):
        prefix = "" if file.name.startswith("common.") else file.name.partition(".")[0] + "."
        found |= {prefix + key: text for key, text in json.loads(file.read_text(encoding="utf-8")).items()}
    return found


def in_script(facts: Any) -> str:
    """JSON that may stand inside a script element, where `<` could open or close another one."""
    return json.dumps(facts, ensure_ascii=False).replace("<", "\\u003c").encode("utf-8", "backslashreplace").decode()


@cache
def _colours() -> dict[str, list[int]]:
    from regard.pictures import colour_table

    return {theme: colour_table(theme).reshape(-1).tolist() for theme in ("light", "dark")}


def _read(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")
