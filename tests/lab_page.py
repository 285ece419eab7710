"""The lab's page in Chromium, with every complaint it makes; it reaches nothing but the lab."""

import shutil
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, Route

from regard.lab import Lab

AXE = Path(sys.prefix, "npm/node_modules/axe-core/axe.min.js")  # `make browser` puts it there
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


class Opened:
    """The lab in a browser of its own, which reaches nothing else."""

    def __init__(self, browser: Browser, lab: Lab, link: str = "", **options: Any) -> None:
        options = {"viewport": {"width": 1280, "height": 900}, "locale": "en-US", **options}
        self.lab = lab
        self.context: BrowserContext = browser.new_context(**options)
        self.context.set_default_timeout(90_000)  # a busy machine is slow, not wrong
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
        self.tab.wait_for_selector("html[data-ready]", timeout=90_000)

    def go(self, link: str) -> None:
        """Follow a permanent link in a fresh page."""
        self.tab.goto("about:blank")
        self.tab.goto(f"{self.lab.origin}/{link}")
        self.ready()

    def settle(self) -> None:
        """Wait until what was typed has been asked and answered; typing is asked about after a pause."""
        self.tab.wait_for_timeout(350)
        self.tab.wait_for_function("() => document.documentElement.dataset.busy === undefined")

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
        self.context.unroute("**/*")
        self.tab = self.context.new_page()
        asked: list[str] = []
        self.tab.on("request", lambda request: asked.append(request.url))
        self.tab.on("console", lambda message: self.complaints.append(message.text))
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.tab.goto(file.as_uri())
        self.ready()
        return asked

    def close(self) -> None:
        self.context.close()

    def violations(self) -> list[str]:
        """What axe-core finds that is serious or critical, one line each."""
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
