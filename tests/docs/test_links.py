"""Documents point at files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT

DOCS = ROOT / "docs"
PAGES = [path for path in sorted(DOCS.rglob("*.md")) if not path.name.startswith("_")]
DOCUMENTS = [ROOT / "README.md", *PAGES]
INTERNALS = {"architecture.md", "extending.md"}
"""Pages for whoever changes xpsql, which may be longer."""
DATED = {"figures.md", "contributing.md"}
MEASURED = re.compile(r"EPYC|Xeon|medians of \w+ in|on a (?:quiet|busy|loaded) machine|found so, and mended|half a day later")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
FILE = re.compile(r"`((?:platform|algorithms|warehouse|tests|docs|examples)/[\w/.]+\.(?:py|sql|md))`")
INVENTED = {
    "platform/sql/statements/count_versions.py",
    "platform/operators/noise_floor.py",
    "platform/training/metrics/win_rate.py",
}


def named(document: Path) -> str:
    return str(document.relative_to(ROOT))


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_links_lead_to_files(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    missing = [link for link in LINK.findall(text) if not (document.parent / link).exists()]
    missing += [name for name in FILE.findall(text) if name not in INVENTED and not (ROOT / name).exists()]
    assert not missing


def test_every_document_is_reached_from_the_index_and_has_a_place_in_the_site() -> None:
    index, site = ((ROOT / name).read_text(encoding="utf-8") for name in ("docs/index.md", "mkdocs.yml"))
    reference = (DOCS / "sql.md").read_text(encoding="utf-8")
    names = [str(page.relative_to(DOCS)) for page in PAGES if page.name != "index.md"]
    assert [name for name in names if f"]({name}" not in index + reference] == []
    assert [name for name in names if f"- {name}\n" not in site] == []
    assert "](docs/index.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", DOCUMENTS, ids=named)
def test_a_page_is_short_and_tells_no_story_of_a_measurement(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert page.name in INTERNALS or text.count("\n") <= 250
    if page.name not in DATED:
        prose = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)
        assert re.findall(r"\b20\d\d-\d\d-\d\d\b", prose) == []
        assert MEASURED.findall(prose) == []


FIRST_WORDS = {
    r"slots?": "feature column|Task slots",
    r"shards?": "servers?",
    r"pcopc": "predicted clicks over observed",
    r"gauc": "within each group|GROUP",
}
"""Words of ours, and what stands near their first place on a page for users."""
PROSE = re.compile(r"```.*?```|`[^`\n]*`|!?\[[^\]]*\]\([^)]*\)", re.DOTALL)


def pages_for_users() -> list[Path]:
    """Return the pages of Start, How-to and Concepts, by the site's contents."""
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    start, _, rest = site.partition("  - Reference:")
    concepts = rest.partition("  - Concepts:")[2].partition("  - Figures:")[0]
    return [DOCS / name for name in re.findall(r"- ([\w/]+\.md)", start + concepts)]


@pytest.mark.parametrize("page", pages_for_users(), ids=named)
def test_a_page_says_what_our_words_mean_where_they_first_come(page: Path) -> None:
    text = PROSE.sub(lambda cut: " " * len(cut[0]), page.read_text(encoding="utf-8"))
    for word, meaning in FIRST_WORDS.items():
        if first := re.search(rf"\b{word}\b", text):
            near = page.read_text(encoding="utf-8")[max(0, first.start() - 200) : first.end() + 200]
            assert re.search(meaning, near), f"{page.name} does not say what {first[0]} means: {near}"


DEFINED = re.compile(r"(?<![*\w])\*([A-Za-z][\w -]{2,30})\*(?![*\w])")
SAID = {"slot", "row", "shard", "worker", "task", "split", "pass", "epoch", "checkpoint", "staged", "held", "ready", "served"}
SAID |= {"interrupted", "damaged", "lag", "position", "progressive"}
"""Words that messages and the columns of SHOW use."""


def test_the_glossary_has_the_words_that_pages_define_and_messages_use() -> None:
    rows = [line.split("|")[1] for line in (DOCS / "glossary.md").read_text(encoding="utf-8").splitlines() if line[:2] == "| "]
    known = {word.strip().lower() for row in rows for word in re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", row).split(",")}
    texts = (
        re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL) for page in pages_for_users()
    )
    words = {word.lower() for text in texts for word in DEFINED.findall(text)} | SAID
    assert [word for word in sorted(words) if not {word, word.removesuffix("s")} & known] == []
