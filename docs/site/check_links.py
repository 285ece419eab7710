"""Check the built site: `python docs/site/check_links.py build/site`.

Every link and resource must exist, with its anchor, and no page may load anything from another host. Exit code 1 if
something is wrong.
"""

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src")}


class Links(HTMLParser):
    """Collects the links, resources and anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors |= {values[name] or "" for name in ("id", "name") if name in values}
        navigation = tag == "link" and values.get("rel") in ("canonical", "next", "prev", "alternate")
        for name, value in attrs:
            if (tag, name) in LOADED and value and not navigation:
                self.loaded.append(value)
            elif name == "href" and value:
                self.links.append(value)


@cache
def read(page: Path) -> Links:
    links = Links()
    links.feed(page.read_text(encoding="utf-8"))
    return links


def problems(site: Path) -> list[str]:
    """Return one line for each broken link or foreign resource of the site."""
    read.cache_clear()
    lines = []
    for page in sorted(site.rglob("*.html")):
        links = read(page)
        name = page.relative_to(site)
        lines += [f"{name}: loads {url}" for url in links.loaded if urlsplit(url).netloc]
        for url in (*links.links, *links.loaded):
            parts = urlsplit(url)
            if parts.scheme or parts.netloc or page.name == "404.html":
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if target.is_dir():
                target /= "index.html"
            if not target.is_relative_to(site) or not target.exists():
                lines.append(f"{name}: {url} does not exist")
            elif target.suffix == ".html" and parts.fragment and unquote(parts.fragment) not in read(target).anchors:
                lines.append(f"{name}: {url} has no such anchor")
    return lines


if __name__ == "__main__":
    found = problems(Path(sys.argv[1]).resolve())
    print("\n".join(found) or "all links lead somewhere, and nothing is loaded from another host")
    sys.exit(bool(found))
