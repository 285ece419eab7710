"""A view saved as one HTML file, which opens from disk without a server or a network.

The file contains the same modules as the live page. A page opened from disk may not import other files, so every module
is included as a data URL, and an import map translates the module names into these URLs. The file also contains the
answers that the server gave while the view was open; the saved page uses them instead of requests, and for
any other request it reports that the running lab is needed.
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
from regard.lab.server.live_page import STATIC, json_for_script, module_file, page_facts

IMPORT = re.compile(r"""(\b(?:from|import)\s*\(?\s*)(["'])(\.{1,2}/[^"']+)\2""")
POLICY = "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data: blob:"
PLACEHOLDER = "{{saved}}"  # replaced by the view's state and responses; static/kit/export.js has the same text


def saved_page(
    view: str, state: Mapping[str, Any], answers: Mapping[str, Any], *, title: str = "regard lab", language: str = "en"
) -> str:
    """Return a view as one HTML page that needs no server.

    view                name of the view, such as "trace"
    state               values of its fields
    answers             maps requests (`METHOD path body`, see static/kit/api.js) to their answers
    title, language     title and language ("en" or "zh") of the page

    >>> "<script type=\\"importmap\\">" in saved_page("trace", {}, {})
    True
    """
    content = {"view": view, "state": state, "answers": answers, "language": language}
    return saved_page_template(view, title, language).replace(PLACEHOLDER, json_for_script(content))


def trace_page(trace: Trace, **state: Any) -> str:
    """Return a trace as a page to step through, as in the lab; `state` contains the values of its fields.

    >>> from regard.attention import embed, projections, trace_layer
    >>> words = ["The", "cat"]
    >>> page = trace_page(trace_layer(embed(words, 4), *projections(4), heads=2, tokens=words), text="The cat")
    >>> page.startswith("<!DOCTYPE html>")
    True
    """
    if trace.kind != "layer" or trace.weights.ndim != 3:
        raise ValueError(
            "trace_page needs the trace of a layer without a batch dimension, as trace_layer returns it, "
            f"got kind {trace.kind!r} with weights of shape {trace.weights.shape}"
        )
    return saved_page("trace", state, {"POST /api/trace": json.loads(trace.to_json())})


def saved_page_template(view: str, title: str = "regard lab", language: str = "en") -> str:
    """Return the HTML of a view with `PLACEHOLDER` where its state and answers belong."""
    facts = page_facts()
    styles = [STATIC / "style.css", *(STATIC / "views" / f"{name}.css" for name in facts["styles"] if name == view)]
    facts |= {"styles": [], "views": [view]}
    return Template((STATIC / "saved.html").read_text(encoding="utf-8")).substitute(
        policy=POLICY,
        title=escape(title),
        language=language,
        style="\n".join(file.read_text(encoding="utf-8") for file in styles),
        imports=import_map("app.js", f"views/{view}.js"),
        facts=json_for_script(facts),
        saved=PLACEHOLDER,
    )


def import_map(*starts: str) -> str:
    """Return the import map of modules and of their imports: each name `lab/…` stands for a data URL."""
    modules = {name: source for start in starts for name, source in collect_modules(start).items()}
    encoded = {name: base64.b64encode(source.encode()).decode() for name, source in modules.items()}
    return json.dumps({"imports": {name: f"data:text/javascript;base64,{text}" for name, text in encoded.items()}})


def collect_modules(start: str) -> dict[str, str]:
    """Return the sources of a module and of its imports, by name `lab/…`, with imports rewritten to these names."""
    sources: dict[str, str] = {}
    waiting = [start]
    while waiting:
        path = waiting.pop()
        if f"lab/{path}" in sources:
            continue

        def rename_import(match: re.Match[str], path: str = path) -> str:
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), match[3]))
            waiting.append(target)
            return f"{match[1]}{match[2]}lab/{target}{match[2]}"

        sources[f"lab/{path}"] = IMPORT.sub(rename_import, module_file(path).read_text(encoding="utf-8"))
    return sources
