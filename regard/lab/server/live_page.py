"""The page of a running lab: an HTML frame that contains the initial data of its JavaScript modules.

The data are the texts in both languages, the names of the views, and the colour tables of `regard.pictures`, so that a
heatmap has the same colours wherever it is drawn.
"""

import json
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

import regard

STATIC = Path(__file__).parents[1] / "static"
PICTURES = Path(__file__).parents[2] / "pictures" / "page"  # the heatmap, shared with the HTML page of regard.pictures
ORDER = ("start", "trace", "heads", "model", "geometry", "cost", "practice", "breakit", "four", "claims")
LANGUAGES = ("en", "zh")


def render_page(token: str, *, runner: bool = True) -> str:
    """Return the HTML of a running lab."""
    facts = {"token": token, "runner": runner, **page_facts()}
    template = (STATIC / "index.html").read_text(encoding="utf-8")
    return Template(template).substitute(facts=json_for_script(facts))


def page_facts() -> dict[str, Any]:
    """Return the data that the live page and a saved page have in common."""
    return {
        "version": regard.__version__,
        "views": view_names(),
        "styles": [name for name in view_names() if (STATIC / "views" / f"{name}.css").exists()],
        "colours": _colours(),
        "text": {language: load_texts(language) for language in LANGUAGES},
    }


def view_names() -> list[str]:
    """Return the names of the views in `static/views`, in the order of the navigation."""
    names = {file.stem for file in (STATIC / "views").glob("*.js")}
    return [name for name in ORDER if name in names] + sorted(names - set(ORDER))


def load_texts(language: str) -> dict[str, str]:
    """Return all texts in one language: the keys of common.en.json as they are, those of NAME.en.json as NAME.key."""
    texts: dict[str, str] = {}
    for file in sorted((STATIC / "text").glob(f"*.{language}.json")):
        prefix = "" if file.name.startswith("common.") else file.name.partition(".")[0] + "."
        texts |= {prefix + key: text for key, text in json.loads(file.read_text(encoding="utf-8")).items()}
    return texts


def module_file(path: str) -> Path:
    """Return the file served as `/static/PATH`; `pictures/…` is the folder of the HTML page of `regard.pictures`."""
    return PICTURES / path.removeprefix("pictures/") if path.startswith("pictures/") else STATIC / path


def json_for_script(facts: Any) -> str:
    """Return JSON that may stand inside a script element, where `<` could open or close an element."""
    return json.dumps(facts, ensure_ascii=False).replace("<", "\\u003c").encode("utf-8", "backslashreplace").decode()


@cache
def _colours() -> dict[str, list[int]]:
    from regard.pictures import colour_table

    return {theme: colour_table(theme).reshape(-1).tolist() for theme in ("light", "dark")}
