"""A hook of MkDocs: files of the repository that pages link to are part of the site."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
OUTSIDE = re.compile(r"\]\(\.\./([^)#]+)\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the files that pages link to outside of docs/; of a folder, those in it."""
    links = {link for page in sorted((ROOT / "docs").glob("*.md")) for link in OUTSIDE.findall(page.read_text("utf-8"))}
    for path in sorted({file for link in links for file in files_of(ROOT / link)}):
        files.append(File.generated(config, f"files/{path.relative_to(ROOT)}.txt", abs_src_path=str(path)))
    return files


def files_of(path: Path) -> list[Path]:
    return [path] if path.is_file() else [file for file in sorted(path.iterdir()) if file.is_file()]


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Let links out of docs/ lead to those files; one to a folder to the first of them."""
    return OUTSIDE.sub(lambda link: f"](files/{files_of(ROOT / link[1])[0].relative_to(ROOT)}.txt)", markdown)
