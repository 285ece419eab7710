"""The real lab, served on a free port, and the real page in Chromium with every complaint it makes."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, sync_playwright

from regard.lab import Lab, Settings

CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    settings = Settings(warm=False, data=tmp_path_factory.mktemp("data"))
    with Lab(settings, port=0) as served:
        yield served


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if not CHROMIUM:
        pytest.skip("CHROMIUM IS MISSING, NO PAGE IS TESTED: apt-get install chromium")
    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


class Opened:
    """The lab in a browser of its own, which reaches nothing else."""

    def __init__(self, browser: Browser, lab: Lab, link: str = "", **options: Any) -> None:
        options = {"viewport": {"width": 1280, "height": 900}, "locale": "en-US", **options}
        self.lab = lab
        self.context: BrowserContext = browser.new_context(**options)
        self.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=lab.origin)
        self.complaints: list[str] = []
        self.foreign: list[str] = []
        self.context.route("**/*", self._only_here)
        self.tab: Page = self.context.new_page()
        self.tab.on("console", self._heard)
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.tab.goto(lab.url + link)
        self.ready()

    def _only_here(self, route: Route) -> None:
        if route.request.url.startswith(self.lab.origin):
            route.continue_()
        else:
            self.foreign.append(route.request.url)
            route.abort()

    def _heard(self, message: Any) -> None:
        # What the server refuses is reported by the browser itself, beside the page's own words.
        if message.type in ("error", "warning") and "the server responded with a status of 422" not in message.text:
            self.complaints.append(message.text)

    def ready(self) -> None:
        self.tab.wait_for_selector("html[data-ready]", timeout=20_000)

    def go(self, link: str) -> None:
        """Follow a permanent link in a fresh page."""
        self.tab.goto("about:blank")
        self.tab.goto(f"{self.lab.origin}/{link}")
        self.ready()

    def close(self) -> None:
        self.context.close()


@pytest.fixture
def opened(browser: Browser, lab: Lab) -> Iterator[Callable[..., Opened]]:
    """Open the lab with a link and the browser's options; at the end nothing may have been complained of."""
    pages: list[Opened] = []

    def open_page(link: str = "", **options: Any) -> Opened:
        pages.append(Opened(browser, lab, link, **options))
        return pages[-1]

    yield open_page
    for page in pages:
        page.close()
        assert page.complaints == []
        assert page.foreign == []


@pytest.fixture
def page(opened: Callable[..., Opened]) -> Opened:
    return opened()


@pytest.fixture(scope="session")
def static() -> Path:
    from regard.lab.page import STATIC

    return STATIC
