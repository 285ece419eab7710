"""Requirements on every view: keyboard, phones, dark theme, Chinese, reduced motion, accessibility and broken links."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from playwright.sync_api import expect

from regard.lab.server.live_page import view_names
from regard.lab.server.saved_page import saved_page_template
from support.lab_page import SVG, WORK_PATIENCE, Opened, needs_axe

Open = Callable[..., Opened]
VIEWS = view_names()
PHONE = {"viewport": {"width": 390, "height": 844}}
TEXT, OTHER = "The cat sat on the mat", "The dog sat under the table"  # texts of the view Your model

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


TRACE_CELLS = ("[data-part=result] tbody td", 48)  # 6 tokens × width 8
HEAD_CELLS = ("details[open] tbody td", 36)  # 6 queries × 6 keys
BROKEN_LINKS = {
    "#/trace?heads=x&step=nothing&head=99&cell=[9,9]&edits={}": TRACE_CELLS,
    "#/trace?head=-1.5&cell=[null,7]&which=X": TRACE_CELLS,
    "#/nothing?x=1": (".start-street", 1),
    "#%": (".start-street", 1),
    "#/start?step=x&weights=[1]&layer=x&answers=[]": (".start-street", 1),
    "#/heads?mode=x&head=99&cell=[9,9]&heads=4": HEAD_CELLS,
    "#/heads?painted=x&off={}&layer=-4": HEAD_CELLS,
    "#/heads?painted=[[0,99],3]&off=[[0,1],9]&head=1.5": HEAD_CELLS,
    "#/model?model=phrases&call=99&head=-3&cell=[99,0]&measure=x&sorted=3": HEAD_CELLS,
    "#/geometry?vector=[99,0,0]": (".filter .bar-value", 6),
    "#/cost?heads=3": (".chart-place > *", 1),
    "#/cost?seq=77&metric=x&hidden=[1]": (".chart-place > *", 1),
    "#/cost?d_model=-4": (".chart-place > *", 1),
    "#/practice?tab=nothing": (".part h2", None),
    '#/practice?tab=drills&drill=x:9:9&answers={"a":1}': (".part h2", None),
    '#/practice?tab=drills&drill=softmax:1:0&answers={"exponentials":[["x"]]}': (".part h2", None),
    "#/practice?tab=cards&card=none&topic=zzz": (".part h2", None),
    "#/practice?tab=exercises&exercise=99": (".part h2", None),
    "#/practice?tab=diagram&diagram=x&edges=[1,[2]]": (".part h2", None),
}


def open_all(opened: Open, link: str, **options: Any) -> Opened:
    """Open a link, wait until the view is drawn, and open the table of numbers if the view has one."""
    page = opened(link, **options)
    if link.startswith("#/model"):
        page.tab.wait_for_selector(".model-map canvas", timeout=WORK_PATIENCE)
    page.settle()
    if link.startswith(("#/model", "#/heads")):
        page.tab.locator("details:is(.model-numbers, .heads-numbers) summary").click()
        page.tab.wait_for_selector("details[open] td")
    if link == "#/cost":
        expect(page.tab.locator(".cost-all tbody tr").first).to_be_visible()
    return page


@pytest.mark.parametrize("link", BROKEN_LINKS)
def test_a_broken_link_opens_the_view(opened: Open, link: str) -> None:
    page = open_all(opened, link)
    selector, count = BROKEN_LINKS[link]
    expect(page.tab.locator(selector).first).to_be_visible()
    if count is not None:
        expect(page.tab.locator(selector)).to_have_count(count)


@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
@pytest.mark.parametrize("link", ["#/cost", "#/model?model=minilm&compare=true"])
def test_a_phone_needs_no_sideways_scrolling(opened: Open, link: str, locale: str) -> None:
    page = open_all(opened, link, **PHONE, locale=locale)
    assert page.tab.evaluate("document.documentElement.scrollWidth") <= 390


# The other views are checked by their own tests, in each of their parts.
@needs_axe
@pytest.mark.parametrize("options", [{}, {"color_scheme": "dark", "locale": "zh-CN"}], ids=["light", "dark"])
@pytest.mark.parametrize("link", ["#/geometry", "#/cost", "#/model?model=phrases&compare=true&sorted=true&cell=[1,1]"])
def test_axe_finds_nothing_serious(opened: Open, link: str, options: dict[str, Any]) -> None:
    assert open_all(opened, link, reduced_motion="reduce", **options).violations() == []


@needs_axe
def test_axe_finds_nothing_serious_in_minilm(opened: Open) -> None:
    assert open_all(opened, "#/model?model=minilm&cell=[1,1]").violations() == []


@pytest.mark.parametrize(
    ("link", "heading", "part", "allowed"),
    [
        ("#/cost", "注意力的开销", ".view-cost", "float bfloat Transformer regard cost materialised"),
        (
            "#/claims?claim=learned-mean",
            "教科书的说法，用实验检验",
            ".claims-one",
            "learned mean torch Python Linux EPYC Holm regard claims token",
        ),
        ("#/heads?text=猫坐在垫子上&cell=[0,0]", "每个头关注的内容不同", "main", "dmodel HTML"),
        (
            "#/model?model=phrases&compare=true&cell=[0,0]",
            "真实模型的内部",
            "main",
            f"MiniLM HTML {TEXT} {OTHER} end begin",
        ),
    ],
)
def test_chinese_pages_contain_no_english(opened: Open, link: str, heading: str, part: str, allowed: str) -> None:
    page = open_all(opened, link, locale="zh-CN")
    expect(page.tab.locator("h1")).to_have_text(heading)
    expect(page.tab.locator(part)).to_be_visible()
    words = set(re.findall(r"[A-Za-z]{4,}", page.tab.locator(part).inner_text()))
    assert words <= set(re.findall(r"[A-Za-z]+", allowed))


PICTURES = {view: f"#/{view}" for view in VIEWS if view != "model"} | {  # `model` has its own test
    "reading": "#/start?step=reading",
    "translator": "#/start?step=translator",
    "formula": "#/start?step=formula",
    "row": "#/start?step=row",
    "exercise": "#/practice?tab=exercises&exercise=02-one-query",
    "drill": "#/practice?tab=drills",
    "card": "#/practice?tab=cards&card=formula",
    "diagram": "#/practice?tab=diagram",
    "interview": "#/practice?tab=interview",
}


@pytest.mark.parametrize("shown", PICTURES)
def test_every_picture_has_a_title_the_project_and_the_link(opened: Open, tmp_path: Path, shown: str) -> None:
    page = open_all(opened, PICTURES[shown])
    page.tab.wait_for_selector("[data-keep=png]")
    drawn = ElementTree.parse(page.kept("svg", tmp_path)).getroot()
    width, height = (float(drawn.attrib[name]) for name in ("width", "height"))
    frame = [text for text in drawn.findall(f"{{{SVG}}}text") if "".join(text.itertext()).strip()]
    assert len(frame) >= 3
    assert "regard · a workbench for attention in PyTorch" in [text.text for text in frame]
    link = "".join(frame[-1].itertext())
    assert link.startswith(f"{page.lab.origin}/{PICTURES[shown].partition('?')[0]}")
    assert "key=" not in link
    assert all(0 < float(text.attrib["y"]) < height for text in frame)
    for part in drawn.findall(f"{{{SVG}}}svg"):  # the drawings lie within the frame
        x, y, wide, tall = (float(part.attrib[name]) for name in ("x", "y", "width", "height"))
        assert 0 < x < x + wide < width
        assert 0 < y < y + tall < height
    assert page.kept("png", tmp_path).stat().st_size > 5_000
    assert page.tab.locator(".toast").count() == 0


def test_an_unknown_view_is_reported_and_toasts_end_with_their_view(opened: Open) -> None:
    page = opened("#/nope")
    expect(page.tab.locator(".toast.wrong")).to_contain_text("nope")
    page.tab.locator("nav [data-view=cost]").click()
    page.settle()
    expect(page.tab.locator(".toast")).to_have_count(0)
