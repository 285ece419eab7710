"""The static edition: a folder with the lab's page and prepared answers, for any web server or opened from disk.

    index.html           the page: all modules as data URLs with an import map, as in a saved page, the texts, and a
                         table from requests to answers
    style.css, views/    the style sheets
    answers/NAME.js      one answer each, a classic script that calls `regardAnswer(NAME, answer)`

A page opened from disk may neither fetch files nor import modules from them, but it may load classic scripts, so an
answer is loaded by adding a script element when the page asks for it. Equal answers share a file, which is named by a
hash of its content. The answers come from the lab's own server (`prepared_requests`). What is not prepared needs
Python; the page then says so and shows the command.
"""

import hashlib
import json
import secrets
import shutil
from collections.abc import Callable
from html import escape
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import ProxyHandler, build_opener
from urllib.request import Request as HttpRequest

import regard
from regard.lab.prepared_examples import Request, prepared_requests, request_key
from regard.lab.server.app import Settings
from regard.lab.server.live_page import LANGUAGES, STATIC, json_for_script, page_facts
from regard.lab.server.request_guard import TOKEN_HEADER
from regard.lab.server.saved_page import import_map
from regard.lab.server.serve import Lab

VIEWS = ("start", "trace", "geometry", "cost", "practice", "claims")
MARK = "regard-static.json"  # says that a folder is a static edition, which may be replaced
POLICY = (
    "default-src 'none'; script-src 'self' file: 'unsafe-inline' data:; style-src 'self' file: 'unsafe-inline'; "
    "img-src 'self' file: data: blob:"
)
DIGITS = 8  # significant digits of the numbers in answers


def write_static_edition(folder: Path, *, on_progress: Callable[[int, int], object] = lambda done, of: None) -> Path:
    """Write the static edition into a new or empty folder, or replace an earlier edition; return the path of its page.

    The files are written into a temporary folder beside it, which is then renamed.
    """
    folder = folder.absolute()
    _check_replaceable(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    name = f".{folder.name}.{secrets.token_hex(6)}"
    temporary, old = folder.with_name(f"{name}.new"), folder.with_name(f"{name}.old")
    try:
        temporary.mkdir()
        _write_files(temporary, on_progress)
        if folder.exists():
            folder.rename(old)
        try:
            temporary.rename(folder)
        except BaseException:
            if old.exists():
                old.rename(folder)
            raise
    finally:
        for leftover in (temporary, old):
            shutil.rmtree(leftover, ignore_errors=True)
    return folder / "index.html"


def _check_replaceable(folder: Path) -> None:
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ValueError(f"--static needs a folder, but {folder} is a file; choose another name")
    if any(folder.iterdir()) and not (folder / MARK).is_file():
        raise ValueError(f"{folder} is not empty and is not a static edition of the lab; choose a new or empty folder")


def _write_files(folder: Path, on_progress: Callable[[int, int], object]) -> None:
    facts = page_facts()
    absent = [name for name in facts["views"] if name not in VIEWS]
    facts |= {"views": [name for name in facts["views"] if name in VIEWS], "absent": absent, "base": ""}
    facts["styles"] = [name for name in facts["styles"] if name in VIEWS]
    (folder / "views").mkdir()
    for path in ["style.css", "icon.svg", *(f"views/{name}.css" for name in facts["styles"])]:
        shutil.copyfile(STATIC / path, folder / path)
    (folder / "answers").mkdir()
    page = Template((STATIC / "static.html").read_text(encoding="utf-8")).substitute(
        policy=escape(POLICY),
        facts=json_for_script(facts),
        edition=json_for_script({"answers": _write_answers(folder / "answers", on_progress)}),
        imports=import_map("app.js", *(f"views/{name}.js" for name in VIEWS)),
    )
    (folder / "index.html").write_text(page, encoding="utf-8")
    (folder / MARK).write_text(json.dumps({"regard": regard.__version__, "languages": LANGUAGES}) + "\n")


def _write_answers(folder: Path, on_progress: Callable[[int, int], object]) -> dict[str, str]:
    """Write the answers of all prepared requests; return the name of the answer of each request."""
    requests = prepared_requests()
    names: dict[str, str] = {}
    with TemporaryDirectory() as data, Lab(Settings(warm=False, data=Path(data)), port=0) as lab:
        for done, request in enumerate(requests):
            on_progress(done, len(requests))
            answer = json.dumps(_prepared(request, _ask(lab, request)), ensure_ascii=False, separators=(",", ":"))
            name = hashlib.sha256(answer.encode()).hexdigest()[:12]
            (folder / f"{name}.js").write_text(f'regardAnswer("{name}",{answer});\n', encoding="utf-8")
            names[request_key(request)] = name
    on_progress(len(requests), len(requests))
    return names


def _ask(lab: Lab, request: Request) -> Any:
    headers = {TOKEN_HEADER: lab.settings.token, "content-type": "application/json"}
    body = None if request.body is None else json.dumps(request.body).encode()
    call = HttpRequest(lab.origin + request.path, body, headers, method=request.method)
    with build_opener(ProxyHandler({})).open(call) as response:
        return json.loads(response.read(), parse_float=lambda text: float(f"{float(text):.{DIGITS}g}"))


def _prepared(request: Request, answer: Any) -> Any:
    """Return an answer as the static edition stores it: without a learner's file, with the order of the cards."""
    from regard.learn import all_cards, topics

    if request.path == "/api/practice":
        return {"cards": answer["cards"]}
    path, _, topic = request.path.partition("?topic=")
    if path == "/api/practice/cards":
        cards = next((one.cards for one in topics() if one.name == topic), all_cards())
        return {**answer, "order": [card.id for card in cards]}
    return answer
