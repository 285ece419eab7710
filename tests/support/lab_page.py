"""The lab's page in Chromium, with every complaint it makes; it reaches nothing but the lab."""

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from regard.lab import Lab

AXE = Path(sys.prefix, "npm/node_modules/axe-core/axe.min.js")  # `make browser` puts it there
needs_axe = pytest.mark.skipif(
    not AXE.exists(), reason="AXE-CORE IS MISSING, NO PAGE IS CHECKED FOR ACCESS: make browser (needs npm)"
)
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
    "--proxy-server=127.0.0.1:9",  # nobody listens there: nothing but this machine is reached
    # All pages are the lab's own: one process draws them, for starting one takes longer than drawing a page.
    "--renderer-process-limit=1",
    "--disable-site-isolation-trials",
    "--disable-features=SpareRendererForSitePerProcess,IsolateOrigins,site-per-process",
]
SVG = "http://www.w3.org/2000/svg"
PATIENCE = 30_000  # milliseconds: a busy machine is slow, not wrong
WORK_PATIENCE = 120_000  # for answers that need a model, a search, a training or a process of their own
expect.set_options(timeout=PATIENCE)


class Opened:
    """The lab in a tab of its own, which reaches nothing else.

    Windows of the same kind are shared, since opening one takes longer than most tests; nothing is left in it.
    """

    windows: ClassVar[dict[tuple[Any, ...], BrowserContext]] = {}

    def __init__(self, browser: Browser, lab: Lab, link: str = "", **options: Any) -> None:
        options = {"viewport": {"width": 1280, "height": 900}, "locale": "en-US", **options}
        self.lab = lab
        self.kind = (browser, lab.origin, repr(sorted(options.items())))
        if self.kind not in self.windows:
            window = self.windows[self.kind] = browser.new_context(**options)
            window.set_default_timeout(PATIENCE)
            window.grant_permissions(["clipboard-read", "clipboard-write"], origin=lab.origin)
            window.new_page()  # it stays: without a tab a window closes
        self.context = self.windows[self.kind]
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.held: list[Route] = []
        self.tab: Page = self._new_tab()
        self.tab.goto(lab.url + link)
        self.ready()

    def _new_tab(self) -> Page:
        tab = self.context.new_page()
        tab.on("request", lambda request: self.asked.append(request.url))
        tab.on("console", self._heard)
        tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        return tab

    @property
    def foreign(self) -> list[str]:
        """What was asked of anybody but the lab; the browser's flags keep it from being reached."""
        own = (self.lab.origin, "data:", "blob:", "file:", "about:")
        return [url for url in self.asked if not url.startswith(own)]

    def _heard(self, message: Any) -> None:
        # What the server refuses is reported by the browser itself, beside the page's own words.
        if message.type in ("error", "warning") and "the server responded with a status of 422" not in message.text:
            self.complaints.append(message.text)

    def ready(self) -> None:
        self.tab.wait_for_selector("html[data-ready]", timeout=WORK_PATIENCE)

    def go(self, link: str) -> None:
        """Follow a permanent link in a fresh page."""
        self.tab.goto("about:blank")
        self.tab.goto(f"{self.lab.origin}/{link}")
        self.ready()

    def follow(self, link: str) -> None:
        """Follow a link of the page itself: a view that is open stays, and takes what the link says."""
        self.tab.evaluate("(link) => { location.hash = link; }", link)
        self.settle()

    def settle(self) -> None:
        """Wait until what was done has been asked, answered and drawn; typing is asked about after a pause."""
        self.tab.evaluate(
            """async () => {
              const page = document.documentElement.dataset;
              for (let calm = 0; calm < 4; calm += 1) {  // an answer may lead to another question
                await new Promise((done) => setTimeout(done, 15));
                if (page.busy !== undefined || page.waits !== undefined) calm = 0;
              }
              for (let frame = 0; frame < 2; frame += 1) await new Promise((done) => requestAnimationFrame(done));
            }"""
        )

    def hold(self, address: str, most: int | None = None) -> list[Route]:
        """Hold back requests to an address until `release`, at most so many; return the list that collects them."""

        def hold_or_pass(route: Route) -> None:
            if most is None or len(self.held) < most:
                self.held.append(route)
            else:
                route.continue_()

        self.tab.route(address, hold_or_pass)
        return self.held

    def release(self) -> None:
        """Let the requests go that `hold` has held back, and all later ones."""
        for route in self.held:
            route.continue_()
        self.held.clear()
        self.tab.unroute_all()

    def kept(self, kind: str, folder: Path) -> Path:
        """What the page saves: "page", "svg" or "png"."""
        with self.tab.expect_download() as waiting:
            self.tab.locator(f"[data-keep={kind}]").click()
        file = folder / waiting.value.suggested_filename
        waiting.value.save_as(file)
        return file

    def from_disk(self, file: Path) -> list[str]:
        """Go on in a saved page, without a network and without the server's secret; what it asks for is listed."""
        assert self.lab.settings.token not in file.read_text(encoding="utf-8")
        self.context.set_offline(True)
        self.tab.close()
        self.asked.clear()
        self.tab = self._new_tab()
        self.tab.goto(file.as_uri())
        self.ready()
        return self.asked

    def close(self) -> None:
        """Leave the window as it was, and nothing on its way to the lab."""
        if self.tab.is_closed():
            return
        self.release()  # a test that fails before it releases them would leave the page busy forever
        self.tab.wait_for_selector("html:not([data-busy])", state="attached", timeout=WORK_PATIENCE)
        self.context.set_offline(False)
        self.tab.evaluate("localStorage.clear()")
        self.tab.close()

    def violations(self) -> list[str]:
        """What axe-core finds that is serious or critical, one line each."""
        if not self.tab.evaluate("'axe' in window"):
            self.tab.evaluate(AXE.read_text(encoding="utf-8"))
        found = self.tab.evaluate(
            "axe.run(document, { resultTypes: ['violations'] }).then((found) => found.violations)"
        )
        return [
            f"{one['id']}: {node['target']} {node['failureSummary']}"
            for one in found
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        ]


@contextmanager
def opening(browser: Browser, lab: Lab) -> Iterator[Callable[..., Opened]]:
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
