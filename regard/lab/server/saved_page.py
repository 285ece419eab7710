"""A view as one HTML file that opens from disk, with no network and no server.

The same modules run in it as on the page. A file may not import other files, so every module goes in as a data URL
under the name it has on the page, and an import map leads from the names to them. What the server answered while the
view was open goes in as well; the saved page answers the same questions with it, and says of any other that it needs
the lab.
"""

import base64
import json
import posixpath
import re
from collections.abc import Mapping
from html import escape
from string import Template
from typing import Any

from regard.attention import Trace
from regard.lab.server.page import STATIC, common_facts, in_script

IMPORT = re.compile(r"""(\b(?:from|import)\s*\(?\s*)(["'])(\.{1,2}/[^"']+)\2""")
POLICY = "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data: blob:"
PLACE = "{{saved}}"  # where the page that asks for a frame puts what it has


def saved_page(
    view: str,
    state: Mapping[str, Any],
    answers: Mapping[str, Any],
    *,
    title: str = "regard lab",
    language: str = "en",
) -> str:
    """A view with these answers of the server (by `METHOD path body`, as static/kit/api.js writes it), as HTML.

    >>> "<script type=\\"importmap\\">" in saved_page("trace", {}, {})
    True
    """
    saved = {"view": view, "state": state, "answers": answers, "language": language}
    return frame(view, title, language).replace(PLACE, in_script(saved))


def trace_page(trace: Trace, **state: Any) -> str:
    """A trace as a page to step through, the same as in the lab; `state` is what its fields show.

    >>> from regard.attention import embed, projections, trace_layer
    >>> words = ["The", "cat"]
    >>> page = trace_page(trace_layer(embed(words, 4), *projections(4), heads=2, tokens=words), text="The cat")
    >>> page.startswith("<!DOCTYPE html>")
    True
    """
    if trace.kind != "layer" or trace.weights.ndim != 3:
        raise ValueError("a page shows the trace of a layer for one sentence, as trace_layer makes it without a batch")
    return saved_page("trace", state, {"POST /api/trace": json.loads(trace.to_json())})


def frame(view: str, title: str = "regard lab", language: str = "en") -> str:
    """The file of a view without what is saved in it, for which `PLACE` stands."""
    facts = common_facts()
    styles = [STATIC / "style.css", *(STATIC / "views" / f"{name}.css" for name in facts["styles"] if name == view)]
    facts |= {"styles": [], "views": [view]}
    parts = modules("app.js") | modules(f"views/{view}.js")
    imports = {name: _data_url(text) for name, text in parts.items()}
    return Template((STATIC / "saved.html").read_text(encoding="utf-8")).substitute(
        policy=POLICY,
        title=escape(title),
        language=language,
        style="\n".join(file.read_text(encoding="utf-8") for file in styles),
        imports=json.dumps({"imports": imports}),
        facts=in_script(facts),
        saved=PLACE,
    )


def modules(start: str) -> dict[str, str]:
    """A module and all that it imports, by their names `lab/…`, with the imports written by those names."""
    found: dict[str, str] = {}
    waiting = [start]
    while waiting:
        path = waiting.pop()
        if f"lab/{path}" in found:
            continue

        def named(match: re.Match[str], path: str = path) -> str:
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), match[3]))
            waiting.append(target)
            return f"{match[1]}{match[2]}lab/{target}{match[2]}"

        found[f"lab/{path}"] = IMPORT.sub(named, (STATIC / path).read_text(encoding="utf-8"))
    return found


def _data_url(text: str) -> str:
    return f"data:text/javascript;base64,{base64.b64encode(text.encode()).decode()}"
