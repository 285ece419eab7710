"""What holds for every view alike: by keyboard alone, on a phone, in the dark, in Chinese, and without motion."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from regard.lab.server.live_page import view_names
from regard.lab.server.saved_page import saved_page_template
from support.lab_page import Opened

Open = Callable[..., Opened]
VIEWS = view_names()
PHONE = {"viewport": {"width": 390, "height": 844}}

# What Tab must reach, numbered. Of tabs, radio buttons and cells of a grid it is one, and arrows lead to the others,
# which have a tabindex of -1.
REACHABLE = """() => {
  const all = [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex]')];
  const seen = (e) => e.checkVisibility({ visibilityProperty: true });
  const found = all.filter((e) => !e.disabled && e.tabIndex >= 0 && seen(e) && !e.closest('[inert]'));
  found.forEach((e, i) => { e.dataset.walk = i; });
  return found.map((e) => e.dataset.walk);
}"""
HERE = """() => {
  const e = document.activeElement;
  if (!e || e === document.body) return null;
  const style = getComputedStyle(e);
  const ring = (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== 'none';
  return { walk: e.dataset.walk ?? null, tag: e.tagName, name: e.className, ring, type: e.type ?? '' };
}"""


PLACES = """[...document.querySelectorAll('main *')].filter((e) => !e.closest('canvas, svg')).map((e) => {
  const box = e.getBoundingClientRect();
  return [e.tagName, String(e.className), Math.round(box.width), Math.round(box.height), getComputedStyle(e).color];
})"""


def test_a_view_looks_the_same_whatever_was_open_before(opened: Open) -> None:
    page = opened("#/trace")
    for view in VIEWS:
        page.follow(f"#/{view}")
    for view in ("claims", "practice", "heads", "geometry"):  # what these show does not depend on chance or speed
        page.follow(f"#/{view}")
        expect(page.tab.locator("html")).to_have_attribute("data-view", view)
        page.settle()
        alone = opened(f"#/{view}")
        for _ in range(50):  # what fits its picture to its size does so once it is shown
            alone.settle()
            if page.tab.evaluate(PLACES) == alone.tab.evaluate(PLACES):
                break
        assert page.tab.evaluate(PLACES) == alone.tab.evaluate(PLACES)
        # The styles of the other views are kept, so that a view that is opened again has its own from the first.
        assert page.tab.evaluate("[...document.querySelectorAll('link[href*=views]')].every((link) => link.sheet)")


def test_a_saved_view_has_its_own_modules_and_style_alone() -> None:
    whole = {view: saved_page_template(view) for view in VIEWS}
    for view, page in whole.items():
        assert all((f'"lab/views/{other}.js"' in page) == (other == view) for other in VIEWS)
        assert all((f".view-{other} " in page) <= (other == view) for other in VIEWS)


@pytest.mark.parametrize("view", VIEWS)
def test_tab_reaches_everything_and_the_place_is_seen(opened: Open, view: str) -> None:
    page = opened(f"#/{view}", reduced_motion="reduce")
    page.settle()
    wanted = set(page.tab.evaluate(REACHABLE))
    page.tab.evaluate("document.activeElement.blur?.(); window.getSelection().removeAllRanges()")
    reached: set[str] = set()
    unseen: list[Any] = []
    for _ in range(3 * len(wanted) + 20):
        page.tab.keyboard.press("Escape")  # the way out of the editor, where Tab indents
        page.tab.keyboard.press("Tab")
        here = page.tab.evaluate(HERE)
        if here is None or here["walk"] is None:
            continue
        if here["walk"] in reached and wanted <= reached:
            break
        reached.add(here["walk"])
        if not here["ring"]:
            unseen.append(here)
    missed = page.tab.evaluate(
        "(all) => all.map((i) => document.querySelector(`[data-walk='${i}']`)?.outerHTML.slice(0, 160) ?? null)",
        sorted(wanted - reached),
    )
    assert [one for one in missed if one is not None] == []  # what the view has drawn anew meanwhile is not there
    assert unseen == []
    assert len(reached) > 8


@pytest.mark.parametrize("wide", [800, 1024, 1200])
def test_all_views_are_in_the_bar(opened: Open, wide: int) -> None:
    page = opened("#/claims", viewport={"width": wide, "height": 700})
    room, needed = page.tab.evaluate(
        "(({ clientWidth, scrollWidth }) => [clientWidth, scrollWidth])(document.querySelector('nav'))"
    )
    assert needed <= room


@pytest.mark.parametrize("view", VIEWS)
def test_a_dark_phone_in_chinese_without_motion(opened: Open, view: str) -> None:
    page = opened(f"#/{view}", **PHONE, color_scheme="dark", locale="zh-CN", reduced_motion="reduce")
    page.settle()
    assert page.tab.locator("html").get_attribute("lang") == "zh-Hans"
    assert page.tab.evaluate("document.documentElement.scrollWidth") <= 390
    moving = page.tab.evaluate(
        "document.getAnimations().filter((a) => a.effect.getComputedTiming().duration > 1)"
        ".map((a) => String(a.effect.target?.className))"
    )
    assert moving == []
    background = page.tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert sum(int(part) for part in background[4:-1].split(",")[:3]) < 200  # dark indeed
    heading = page.tab.locator("h1").inner_text()
    assert any("一" <= letter <= "鿿" for letter in heading)
