"""Hooks of MkDocs: files of the repository that pages link to are part of the site, and every fenced block becomes code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
OUTSIDE = re.compile(r"\]\(\.\./([^)#]+)\)")
ATTRIBUTES = re.compile(r"^(```\w+) .*$", re.MULTILINE)
"""What tests of the pages read behind a fence's language, and Markdown's parser does not know."""
CODE = re.compile(r"<(pre|code)\b.*?</\1>", re.DOTALL)


class RawFence(Exception):
    """A page of the site shows the fence of a block as text."""


def on_files(files: Any, config: Any) -> Any:
    """Add the files that pages link to outside of docs/; of a folder, those in it."""
    from mkdocs.structure.files import File  # tests of these hooks do without MkDocs

    links = {link for page in sorted((ROOT / "docs").glob("*.md")) for link in OUTSIDE.findall(page.read_text("utf-8"))}
    for path in sorted({file for link in links for file in files_of(ROOT / link)}):
        files.append(File.generated(config, f"files/{path.relative_to(ROOT)}.txt", abs_src_path=str(path)))
    return files


def files_of(path: Path) -> list[Path]:
    return [path] if path.is_file() else [file for file in sorted(path.iterdir()) if file.is_file()]


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Let links out of docs/ lead to those files, one to a folder to the first of them; leave a fence its language alone."""
    plain = ATTRIBUTES.sub(r"\1", markdown)

    def placed(link: re.Match[str]) -> str:
        path = ROOT / link[1]
        return (
            f"](files/{files_of(path)[0].relative_to(ROOT)}.txt)" if path.exists() else link[0]
        )  # a page, from a folder of docs/

    return OUTSIDE.sub(placed, plain)


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Refuse a page on which the fence of a block is text.

    Raises:
        RawFence: there is one; names the page and shows it.
    """
    text = CODE.sub("", html)
    if (at := text.find("```")) >= 0:
        shown = text[at : at + 60]
        raise RawFence(f"{page.file.src_uri} shows a fence as text: {shown!r}. Close it, or begin its line with it.")
    return html
