"""The static edition, opened from disk and from a plain web server, without a network."""

import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from regard.claims import NAMES, SHIPPED
from regard.cli import main
from regard.files import lock_folder
from regard.lab.api.geometry import trace_query
from regard.lab.prepared_examples import DRILL, SENTENCES, prepared_requests, request_key
from regard.lab.server.live_page import view_names
from regard.lab.static_edition import MARK, VIEWS
from regard.learn import all_cards, drill
from regard.learn.drills.matrices import format_answer
from support.lab_page import AXE, PATIENCE, needs_axe

PHONE = {"viewport": {"width": 390, "height": 844}, "locale": "zh-CN"}
DESKTOP = {"viewport": {"width": 1360, "height": 900}, "locale": "en-US"}


@pytest.fixture(scope="module")
def edition(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The edition, written once by the first process of the tests that needs it."""
    root = tmp_path_factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    folder = root / "static-edition"
    with lock_folder(root):
        if not folder.exists():
            assert main(["lab", "--static", str(folder)]) == 0
    return folder


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def site(edition: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(edition))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


Visit = Callable[..., Page]


@pytest.fixture
def visit(browser: Browser, edition: Path) -> Iterator[Visit]:
    """Open a link of the edition; at the end nothing was missing, reported or asked of another host."""
    contexts, problems, asked = [], [], []

    def open_link(link: str = "", base: str = (edition / "index.html").as_uri(), **options: Any) -> Page:
        context = browser.new_context(reduced_motion="reduce", **{**DESKTOP, **options})
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        context.set_offline(base.startswith("file:"))
        page = context.new_page()
        page.on("console", lambda message: message.type in ("error", "warning") and problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("requestfailed", lambda request: problems.append(request.url))
        page.on("response", lambda answer: answer.status >= 400 and problems.append(f"{answer.status} {answer.url}"))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(base + link)
        page.wait_for_selector("html[data-ready]")
        return page

    yield open_link
    for context in contexts:
        context.close()
    assert problems == []
    allowed = (edition.as_uri(), "http://127.0.0.1:", "data:", "blob:")
    assert [url for url in asked if not url.startswith(allowed)] == []


def follow(page: Page, link: str) -> None:
    page.evaluate("(link) => { location.hash = link; }", link)
    page.wait_for_selector("html:not([data-busy])", state="attached")


def texts(page: Page, selector: str) -> list[str]:
    return page.locator(selector).all_inner_texts()


@pytest.mark.parametrize(("place", "options"), [("disk", DESKTOP), ("server", PHONE)], ids=["disk", "server"])
def test_every_view_shows_its_prepared_example(visit: Visit, site: str, place: str, options: dict[str, Any]) -> None:
    page = visit("", **({"base": site} if place == "server" else {}), **options)
    chinese = options is PHONE
    assert page.locator("nav [data-view]").evaluate_all("(all) => all.map((e) => e.dataset.view)") == list(VIEWS)
    expect(page.locator(".static-notice")).to_contain_text("regard lab")
    for link, selector in {
        "#/start?step=translator": ".lines path",
        "#/start?step=formula": ".formula-table [data-weight]",
        "#/trace": ".part-result td",
        "#/geometry": ".filter .bar-value",
        "#/cost": ".chart-place svg",
        "#/practice": ".question h2",
        "#/claims": ".claims-one h2",
    }.items():
        follow(page, link)
        expect(page.locator(selector).first).to_be_attached()
        expect(page.locator(".toast")).to_have_count(0)
        expect(page.locator("html")).to_have_attribute("data-view", link[2:].partition("?")[0])
        assert page.evaluate("document.documentElement.scrollWidth") <= options["viewport"]["width"], link
        heading = page.locator("h1").inner_text()
        assert bool(re.search("[一-鿿]", heading)) == chinese
        if not chinese and "start" not in link:
            page.locator("button.language").click()  # the other language needs no other answers
            expect(page.locator(selector).first).to_be_attached()
            page.locator("button.language").click()
    without_result = [name for name in NAMES if not (SHIPPED / f"{name}.json").exists()]
    assert page.locator(".claims-tab.is-not-run").count() == len(without_result)


def test_start_leads_to_the_first_own_computation(visit: Visit) -> None:
    page = visit("#/start?step=translator")
    expect(page.locator(".written")).to_have_text("猫坐在垫子上")
    page.locator(".translator-own select").select_option(SENTENCES[1])
    expect(page.locator(".pairing")).to_contain_text(SENTENCES[1])
    follow(page, "#/start?step=formula&word=2")
    expect(page.locator("[data-weight]")).to_have_count(6)
    follow(page, "#/start?step=row")
    task = drill(2, 0, "one-query")
    assert (task.level, task.kind) == (DRILL["level"], DRILL["kind"])
    steps = [re.split("[,;]", format_answer(answer)) for answer in task.answers().values()]
    page.wait_for_selector(".step.now input")
    first = page.locator(".step.now input").first
    first.fill("x y")
    for cell in page.locator(".step.now input").all():
        cell.fill("x y")
    page.locator(".step.now button").click()
    expect(page.locator(".unread").first).to_be_visible()  # what cannot be read is not checked
    for count, cells in enumerate(steps, 1):
        for field, cell in zip(page.locator(".step.now input").all(), cells, strict=True):
            field.fill("99" if count == 1 else cell.strip())
        page.locator(".step.now button").click()
        expect(page.locator(".step.right")).to_have_count(count - 1)
        expect(page.locator(".step.wrong")).to_have_count(1)
    page.locator("[data-do=again]").click()
    for count, cells in enumerate(steps, 1):
        for field, cell in zip(page.locator(".step.now input").all(), cells, strict=True):
            field.fill(cell.strip())
        page.locator(".step.now button").click()
        expect(page.locator(".step.right")).to_have_count(count)
    expect(page.locator(".drill-end .right")).to_be_visible()
    page.locator("[data-do=another]").click()
    expect(page.locator(".step.now input").first).to_have_value("")


def test_controls_offer_what_is_prepared(visit: Visit) -> None:
    page = visit("#/trace")
    expect(page.locator(".part-result td").first).to_be_visible()
    choices = page.locator(".trace-row select")
    assert choices.nth(0).locator("option").all_inner_texts() == list(SENTENCES)
    page.locator(".trace-more").click()
    assert page.locator(".trace-controls input[type=range]").is_disabled()
    choices.nth(0).select_option(SENTENCES[2])
    choices.nth(1).select_option("random")
    expect(page.locator(".trace-controls input[type=number]").first).to_be_visible()
    page.locator("summary", has_text="nn.Linear").click()
    expect(page.locator("[data-way=call]")).to_be_visible()
    choices.nth(1).select_option("encoder-2")
    for step in ("scores", "mask", "softmax", "output"):
        follow(page, f"#/trace?weights=random&mask=causal&step={step}")
        expect(page.locator(".part-result td").first).to_be_visible()
    expect(page.locator(".toast")).to_have_count(0)
    follow(page, "#/trace?weights=random&text=not%20prepared")
    expect(page.locator(".toast.wrong")).to_contain_text("regard lab")
    follow(page, "#/cost")
    expect(page.locator(".measuring code")).to_have_text("regard cost --measure")
    width = page.locator(".cost-controls input[type=range]").first
    before = texts(page, ".here-value")
    width.fill("12")
    expect(page.locator(".here-value").first).not_to_have_text(before[0])
    assert page.locator(".cost-controls select").is_disabled()  # dtypes are prepared for the default width
    expect(page.locator(".toast")).to_have_count(0)


def test_a_moved_query_has_the_numbers_of_the_lab(visit: Visit) -> None:
    page = visit("#/geometry?vector=[0.5,-1.25,2]&temperature=0.7")
    shown = [float(x) for x in page.locator(".bar-value").evaluate_all("(all) => all.map((e) => e.dataset.value)")]
    fields = {"text": SENTENCES[0], "seed": 35, "query": 1, "vector": [0.5, -1.25, 2], "temperature": 0.7}
    np.testing.assert_allclose(shown, trace_query(fields).weights[0], atol=1e-6)


def test_all_cards_can_be_read(visit: Visit) -> None:
    page = visit("#/practice?tab=cards")
    ids = [card.id for card in all_cards()]
    for card in (*ids[:2], ids[-1]):
        follow(page, f"#/practice?tab=cards&card={card}")
        expect(page.locator(f"[data-card='{card}']")).to_be_visible()
    page.locator("[data-do=answer]").click()
    assert page.locator("[data-grade]").count() == 0
    page.locator("[data-do=next]").click()
    expect(page.locator(f"[data-card='{ids[0]}']")).to_be_visible()


def test_what_needs_python_shows_the_command(visit: Visit) -> None:
    page = visit("#/practice?tab=exercises")
    expect(page.locator(".needs-python-card")).to_contain_text("regard lab")
    for view in set(view_names()) - set(VIEWS):
        follow(page, f"#/{view}")
        expect(page.locator("html")).to_have_attribute("data-view", view)
        expect(page.locator(".needs-python-card pre")).to_have_text("pip install 'regard[lab]'\nregard lab")


@needs_axe
def test_axe_finds_nothing_serious(visit: Visit) -> None:
    page = visit("#/trace", color_scheme="dark", locale="zh-CN")
    for link in ("#/trace", "#/cost", "#/practice", "#/heads"):
        follow(page, link)
        expect(page.locator("html")).to_have_attribute("data-view", link[2:])
        page.evaluate(AXE.read_text(encoding="utf-8"))
        # preload: false, since the page's policy forbids axe to fetch the style sheets
        found = page.evaluate("axe.run({ resultTypes: ['violations'], preload: false }).then((one) => one.violations)")
        assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == [], link


def test_the_folder_holds_every_answer_and_nothing_of_this_machine(edition: Path) -> None:
    page = (edition / "index.html").read_text(encoding="utf-8")
    match = re.search(r'id="edition">(.*?)</script>', page)
    assert match is not None
    answers = json.loads(match[1])["answers"]
    assert list(answers) == list(dict.fromkeys(request_key(request) for request in prepared_requests()))
    assert {f"{name}.js" for name in answers.values()} == {file.name for file in (edition / "answers").iterdir()}
    everything = "".join(file.read_text(encoding="utf-8") for file in edition.rglob("*") if file.is_file())
    assert str(Path.home()) + "/" not in everything
    assert "/tmp/" not in everything


def test_only_an_earlier_edition_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("regard.lab.static_edition.prepared_requests", list)
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("mine")
    (tmp_path / "file").touch()
    for folder, complaint in ((other, "is not empty"), (tmp_path / "file", "is a file")):
        assert main(["lab", "--static", str(folder)]) == 2
        error = capsys.readouterr().err
        assert complaint in error
        assert error.count("\n") == 1
    assert (other / "thesis.txt").read_text() == "mine"
    edition = tmp_path / "new" / "edition"
    assert main(["lab", "--static", str(edition)]) == 0
    (edition / "old.txt").touch()
    assert main(["lab", "--static", str(edition)]) == 0
    assert {file.name for file in edition.iterdir()} == {
        "answers",
        "icon.svg",
        "index.html",
        MARK,
        "style.css",
        "views",
    }

    def fail(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("regard.lab.static_edition._write_answers", fail)
    (edition / "kept.txt").touch()
    assert main(["lab", "--static", str(edition)]) == 2
    assert "no space left" in capsys.readouterr().err
    assert (edition / "kept.txt").exists()  # a failed writing leaves the old edition, and nothing beside it
    assert [file.name for file in edition.parent.iterdir()] == ["edition"]
