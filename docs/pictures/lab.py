"""Take screenshots of the lab: every view, light and dark, English and Chinese.

    python docs/pictures/lab.py [FOLDER]

Writes VIEW-THEME-LANGUAGE.png into the folder (default: build/lab). Needs Chromium.
"""

import argparse
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from regard.lab import Lab, Settings
from regard.lab.server.live_page import view_names

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
LINKS = {  # for views whose initial state is not the best example
    "trace": "#/trace?step=softmax&mask=causal",
    "practice": "#/practice?tab=exercises&exercise=07-multi-head",
    "heads": "#/heads?mode=phrases&layer=1&head=0",
    "claims": "#/claims?claim=learned-mean",
    "four": "#/four?opponent=friend&truth=true&moves=44444322266665557773335",
}
LOCALES = {"en": "en-US", "zh": "zh-CN"}


def main() -> None:
    """Take all screenshots."""
    parser = argparse.ArgumentParser(description="Screenshots of the lab: every view, light and dark, both languages.")
    parser.add_argument(
        "folder", nargs="?", default="build/lab", type=Path, help="folder to write into (default: build/lab)"
    )
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("docs/pictures/lab.py needs Chromium: apt-get install chromium")
    with (
        tempfile.TemporaryDirectory() as data,  # an empty folder: no progress of a learner
        Lab(Settings(warm=False, data=Path(data)), port=0) as lab,
        sync_playwright() as play,
    ):
        browser = play.chromium.launch(executable_path=chromium, args=FLAGS)
        for theme in ("light", "dark"):
            for language, locale in LOCALES.items():
                context = browser.new_context(
                    viewport={"width": 1360, "height": 1040}, locale=locale, color_scheme=theme, reduced_motion="reduce"
                )
                tab = context.new_page()
                for view in view_names():
                    tab.goto("about:blank")
                    tab.goto(lab.url + LINKS.get(view, f"#/{view}"))
                    tab.wait_for_selector("html[data-ready]")
                    tab.wait_for_function("() => document.documentElement.dataset.busy === undefined")
                    tab.wait_for_function("() => !document.querySelector('.thinking:not([hidden])')", timeout=120_000)
                    file = folder / f"{view}-{theme}-{language}.png"
                    tab.screenshot(path=file)
                    print(file)
                context.close()
        browser.close()


if __name__ == "__main__":
    main()
