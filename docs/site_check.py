"""Check a built site: no fence shown as text, no dead link, no unresolved attribute, nothing from another host.

Usage: python docs/site_check.py FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

CODE = frozenset(("pre", "code", "script", "style"))
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src"}
SHOWN = {"```": "a fence", "{:": "an attribute", "{ .": "an attribute", "](": "a link"}
"""What Markdown's parser leaves in a page's text if it did not understand it."""


class Found(HTMLParser):
    """What a page has: names that links can lead to, links, files that it loads, and text outside of code."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.text: list[str] = []
        self.inside = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.inside += tag in CODE
        self.names.update(given[name] for name in ("id", "name") if name in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in LOADED and LOADED[tag] in given and given.get("rel") != "canonical":
            self.loaded.append(given[LOADED[tag]])

    def handle_endtag(self, tag: str) -> None:
        self.inside -= tag in CODE

    def handle_data(self, data: str) -> None:
        if not self.inside:
            self.text.append(data)


def faults(site: Path) -> Iterator[str]:
    """Yield what is wrong with the pages of a site."""
    pages = {path.resolve(): Found(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        text = "".join(page.text)
        for sign, what in SHOWN.items():
            if (at := text.find(sign)) >= 0:
                yield f"{name} shows {what} as text: {' '.join(text[at : at + 60].split())!r}"
        for link in page.loaded:
            if urlsplit(link).netloc:
                yield f"{name} loads {link} from another host"
        for link in page.links:
            if reason := dead(path, link, pages):
                yield f"{name} has a dead link {link}: {reason}"


def dead(page: Path, link: str, pages: dict[Path, Found]) -> str:
    """Return why a link of a page leads nowhere, or nothing if it does lead somewhere or to another host."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc or page.name == "404.html":
        return ""
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return "no such file"
    if parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].names:
        return "no such heading"
    return ""


if __name__ == "__main__":
    if found := list(faults(Path(sys.argv[1]))):
        sys.exit("\n".join(found))
