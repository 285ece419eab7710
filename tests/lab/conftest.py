"""The real lab, served on a free port, and the real page in Chromium."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from regard.claims import SHIPPED, read
from regard.connectx import Solver
from regard.lab import Lab, Settings
from regard.lab.server.live_page import STATIC
from support.lab_page import CHROMIUM, FLAGS, Opened, opening


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of claims: four that are whole, one that was stopped, one that is broken, and none of the others."""
    folder = tmp_path_factory.mktemp("claims")
    for name in ("scale", "learned-mean", "mask", "errata"):
        shutil.copy(SHIPPED / f"{name}.json", folder)
    whole = read(SHIPPED / "softmax.json")
    replace(whole, parts=whole.parts[:3]).save(folder / "softmax.json")
    (folder / "quadratic.json").write_text("{")
    return folder


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory, results: Path) -> Iterator[Lab]:
    settings = Settings(warm=False, data=tmp_path_factory.mktemp("data"), claims=results)
    with Lab(settings, port=0) as served:
        yield served


@pytest.fixture(scope="session")
def solver() -> Solver:
    return Solver(table_bits=20)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if not CHROMIUM:
        pytest.skip("CHROMIUM IS MISSING, NO PAGE IS TESTED: apt-get install chromium")
    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser: Browser, lab: Lab) -> Iterator[Callable[..., Opened]]:
    """Open the lab with a link and the browser's options."""
    with opening(browser, lab) as open_page:
        yield open_page


@pytest.fixture
def page(opened: Callable[..., Opened]) -> Opened:
    return opened()


@pytest.fixture(scope="session")
def static() -> Path:
    return STATIC
