"""How long the lab takes to draw, by the page's own performance marks.

    python bench/lab.py

A learner steps through Trace with 8 tokens × 4 heads and with 64 tokens × 8 heads; each step is timed by the page from
the key press to the frame that shows it. Prints medians against the targets (50 ms and 200 ms), and how long the lab
takes from the command to the first view; writes bench/results/lab.json. Needs Chromium.
"""

import json
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

RESULTS = Path(__file__).parent / "results" / "lab.json"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
CASES = {"8 tokens × 4 heads": (8, 4, 16, 50), "64 tokens × 8 heads": (64, 8, 64, 200)}
ROUNDS = 3
START = 3.0  # seconds, from the command to the view


def launch() -> tuple[subprocess.Popen[str], str]:
    """The lab as a learner starts it, and the address it prints."""
    command = [sys.executable, "-m", "regard", "lab", "--no-browser", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    return process, line.split()[-1]


def first_view(browser: Browser) -> float:
    """Seconds from the command to the first view on the screen of a browser that is open."""
    start = time.perf_counter()
    process, url = launch()
    try:
        tab = browser.new_page()
        tab.goto(url)
        tab.wait_for_selector(".part-result td")
        seconds = time.perf_counter() - start
        tab.close()
        return seconds
    finally:
        process.terminate()
        process.wait()


def steps(browser: Browser, url: str, tokens: int, heads: int, width: int) -> list[float]:
    """Milliseconds of each step change, there and back again."""
    text = "%20".join(f"w{i}" for i in range(tokens))
    tab = browser.new_page(viewport={"width": 1360, "height": 900})
    tab.goto(f"{url}#/trace?text={text}&heads={heads}&d_model={width}")
    tab.wait_for_selector("html[data-ready]")
    tab.locator("main").focus()
    for count, key in enumerate((["ArrowRight"] * 8 + ["ArrowLeft"] * 8) * ROUNDS, 1):
        tab.keyboard.press(key)
        tab.wait_for_function("(n) => performance.getEntriesByName('trace-step').length === n", arg=count)
    found = tab.evaluate("performance.getEntriesByName('trace-step').map((entry) => entry.duration)")
    tab.close()
    return found


def main() -> None:
    """Measure, print, write."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("bench/lab.py needs Chromium: apt-get install chromium")
    rows = []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=FLAGS)
        started = min(first_view(browser) for _ in range(ROUNDS))
        rows.append(("first view, from the command", 1000 * started, 1000 * started, 1000 * START))
        process, url = launch()
        try:
            for name, (tokens, heads, width, target) in CASES.items():
                found = steps(browser, url, tokens, heads, width)
                rows.append((f"step change, {name}", statistics.median(found), max(found), target))
        finally:
            process.terminate()
            process.wait()
        browser.close()
    print(f"{'':38} {'median':>9} {'slowest':>9} {'target':>9}")
    for what, median, slowest, target in rows:
        print(
            f"{what:38} {median:6.0f} ms {slowest:6.0f} ms {target:6.0f} ms  {'met' if median < target else 'missed'}"
        )
    keys = ("what", "median_ms", "slowest_ms", "target_ms")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(
        json.dumps([dict(zip(keys, row, strict=True)) for row in rows], indent=1, ensure_ascii=False) + "\n"
    )


if __name__ == "__main__":
    main()
