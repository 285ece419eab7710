"""Measure how long the lab takes to draw, by the page's own performance marks.

    python bench/lab.py

The first view is Start, measured from the command. Claims is then opened by a click, 10 s after the first view; in this
time the lab imports what Claims needs. The benchmark steps through the view Trace with 8 tokens × 4 heads and with
64 tokens × 8 heads; the page measures each step from the key press to the frame that shows it. Typing is measured from
the key press to the new numbers, with 8 tokens. Prints the medians with their targets; writes bench/results/lab.json.
Needs Chromium.

The marks measure wall-clock time, which other programs on the machine can increase. The column "processor" is the CPU
time that Chromium's main thread spent on script, style and layout, which they do not affect.
"""

import json
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from playwright.sync_api import Browser, CDPSession, sync_playwright

RESULTS = Path(__file__).parent / "results" / "lab.json"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
CASES = {"8 tokens × 4 heads": (8, 4, 16, 50), "64 tokens × 8 heads": (64, 8, 64, 200)}
WORK = ("ScriptDuration", "LayoutDuration", "RecalcStyleDuration")
ROUNDS = 3
START = 3.0  # target in seconds from the command to the first view
READING = 10.0  # seconds from the first view to the opening of Claims
CLAIMS = 1.0  # target in seconds for that opening


def launch() -> tuple[subprocess.Popen[str], str]:
    """Start the lab by its command and return the process and the address it prints."""
    command = [sys.executable, "-m", "regard", "lab", "--no-browser", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    return process, line.split()[-1]


def first_views(browser: Browser) -> tuple[float, float]:
    """Return the seconds to the first view and to the first view of Claims, in a browser that is already open."""
    start = time.perf_counter()
    process, url = launch()
    try:
        tab = browser.new_page()
        tab.goto(url)
        tab.wait_for_selector(".street")
        first = time.perf_counter() - start
        time.sleep(READING)
        start = time.perf_counter()
        tab.locator("nav [data-view=claims]").click()
        tab.wait_for_selector(".claims-tab")
        claims = time.perf_counter() - start
        tab.close()
        return first, claims
    finally:
        process.terminate()
        process.wait()


def steps(browser: Browser, url: str, tokens: int, heads: int, width: int) -> tuple[list[float], float]:
    """Return the milliseconds of each step change, forwards and backwards, and the mean CPU milliseconds."""
    text = "%20".join(f"w{i}" for i in range(tokens))
    tab = browser.new_page(viewport={"width": 1360, "height": 900})
    tab.goto(f"{url}#/trace?weights=random&text={text}&heads={heads}&d_model={width}")
    tab.wait_for_selector("html[data-ready]")
    tab.locator("main").focus()
    session = tab.context.new_cdp_session(tab)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = cpu_seconds(session)
    for count, key in enumerate((["ArrowRight"] * 8 + ["ArrowLeft"] * 8) * ROUNDS, 1):
        tab.keyboard.press(key)
        tab.wait_for_function("(n) => performance.getEntriesByName('trace-step').length === n", arg=count)
    durations = tab.evaluate("performance.getEntriesByName('trace-step').map((entry) => entry.duration)")
    processor = 1000 * (cpu_seconds(session) - before) / len(durations)
    tab.close()
    return durations, processor


def typing(browser: Browser, url: str) -> list[float]:
    """Return the milliseconds from typing a letter into the sentence of Trace to the numbers of the new sentence."""
    tab = browser.new_page(viewport={"width": 1360, "height": 900})
    tab.goto(f"{url}#/trace?weights=random&step=scores&text=w0%20w1%20w2%20w3%20w4%20w5%20w6%20w")
    tab.wait_for_selector("html[data-ready]")
    tab.locator(".trace-row input").focus()
    durations = []
    for letter in "attention":
        before = tab.locator(".part-result tbody tr:last-child td").first.get_attribute("data-value")
        start = time.perf_counter()
        tab.keyboard.press(letter)
        changed = "(x) => document.querySelector('.part-result tbody tr:last-child td').dataset.value !== x"
        tab.wait_for_function(changed, arg=before)
        durations.append(1000 * (time.perf_counter() - start))
    tab.close()
    return durations


def cpu_seconds(session: CDPSession) -> float:
    """Return the CPU seconds that the page has used for script, style and layout."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return sum(one["value"] for one in metrics if one["name"] in WORK)


def main() -> None:
    """Measure, print a table, and write the results."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("bench/lab.py needs Chromium: apt-get install chromium")
    rows = []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=FLAGS)
        views = [first_views(browser) for _ in range(ROUNDS)]
        names = ("first view, from the command", "first opening of Claims")
        for name, target, seconds in zip(names, (START, CLAIMS), zip(*views, strict=True), strict=True):
            rows.append((name, 1000 * statistics.median(seconds), 1000 * max(seconds), None, 1000 * target))
        process, url = launch()
        try:
            for name, (tokens, heads, width, target) in CASES.items():
                durations, processor = steps(browser, url, tokens, heads, width)
                rows.append((f"step change, {name}", statistics.median(durations), max(durations), processor, target))
            typed = typing(browser, url)
            rows.append(("typing, 8 tokens × 2 heads", statistics.median(typed), max(typed), None, 190))
        finally:
            process.terminate()
            process.wait()
        browser.close()
    print(f"{'':36} {'median':>9} {'slowest':>9} {'processor':>9} {'target':>9}")
    for what, median, slowest, processor, target in rows:
        own = "" if processor is None else f"{processor:.0f} ms"
        met = "met" if median < target else "missed"
        print(f"{what:36} {median:6.0f} ms {slowest:6.0f} ms {own:>9} {target:6.0f} ms  {met}")
    keys = ("what", "median_ms", "slowest_ms", "processor_ms", "target_ms")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(
        json.dumps([dict(zip(keys, row, strict=True)) for row in rows], indent=1, ensure_ascii=False) + "\n"
    )


if __name__ == "__main__":
    main()
