"""The view Practice as its tests use it: a learner who begins, and what he does."""

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Locator, expect

from regard.lab import Lab
from regard.learn import find_exercise
from support.lab_page import WORK_PATIENCE, Opened

Open = Callable[..., Opened]
SOFTMAX = find_exercise("softmax")
WRONG_AXIS = next(mistake for mistake in SOFTMAX.mistakes if mistake.key == "wrong-axis")


def of_a_beginner(lab: Lab) -> Lab:
    """The lab, of a learner who has done nothing yet."""
    assert lab.settings.data is not None
    for file in lab.settings.data.iterdir():
        file.unlink()
    return lab


def file_of(lab: Lab) -> Path:
    assert lab.settings.data is not None
    return lab.settings.data / "learn.json"


def write(page: Opened, source: str) -> None:
    page.tab.locator(".editor-text").fill(source)


def run(page: Opened) -> Locator:
    """Run what is written, and wait for the verdict."""
    page.tab.get_by_role("button", name="Run and grade").click()
    expect(page.tab.locator(".verdict")).to_have_class(re.compile("right|wrong"), timeout=WORK_PATIENCE)
    return page.tab.locator(".verdict")
