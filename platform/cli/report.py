"""The page of `xpsql report`: how versions were trained, side by side, in one file that needs no network."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...warehouse.version import Version
from ..errors import StatementError
from ..sql.statements.describe_model import parts, readable, said, settings
from ..training.clauses.release import RELEASE
from ..training.metrics import headlines
from ..training.metrics.gate import VALIDATION
from ..training.metrics.labels import key
from ..training.metrics.measured import PROGRESSIVE, measured_on
from .charts import auc_interval
from .compared import on_rows
from .plots import Trained, charts

if TYPE_CHECKING:
    from ..session import Session

MOST = 4
PAGE = Path(__file__).with_name("report.html")


def report(session: Session, asked: Sequence[tuple[str, int | None]], rows: str | None = None) -> str:
    """Return the page of versions, of the one served where no number is given.

    Args:
        rows: a query of rows that all are measured on; None: there is none.

    Raises:
        ModelError: there is no such version.
        StatementError: more versions than a page has colours.
    """
    if len(asked) > MOST:
        raise StatementError(f"A page compares {MOST} versions at most, got {len(asked)}.")
    found = [session.models.find(*one) for one in asked]
    several = len({version.manifest.model for version in found}) > 1
    shown = [Trained(version, short_name(version, several), number) for number, version in enumerate(found)]
    drawn = [section(*chart) for chart in charts(session, shown)]
    return PAGE.read_text(encoding="utf-8").format(
        title=html.escape(" and ".join(f"{v.manifest.model}, version {v.number}" for v in found)),
        subtitle=html.escape("; ".join(dict.fromkeys(f"{v.manifest.algorithm.name}, {v.manifest.status}" for v in found))),
        gates="".join(verdict(one, len(shown) > 1) for one in shown),
        facts="".join(fact_rows(shown)),
        sections="".join([*([] if rows is None else [on_rows(session, shown, rows)]), *drawn]),
        statements="".join(statement(one, shown) for one in shown),
        options="".join(option_rows(shown)),
    )


def short_name(version: Version, several: bool) -> str:
    return f"{version.manifest.model} v{version.number}" if several else f"v{version.number}"


def section(title: str, text: str, drawn: str) -> str:
    return f"<section><h2>{html.escape(title)}</h2><p>{html.escape(text)}</p>{drawn}</section>"


def statement(one: Trained, shown: Sequence[Trained]) -> str:
    title = f"Statement of {one.name}" if len(shown) > 1 else "Statement"
    return f"<h2>{html.escape(title)}</h2><pre>{html.escape(one.manifest.statement)}</pre>"


def verdict(one: Trained, named: bool) -> str:
    """Return the release gate's verdict on a version; nothing where it had no gate."""
    manifest = one.manifest
    if (release := RELEASE.kept(manifest)) is None:
        return ""
    passed = manifest.status == "ready"
    word = "Released" if passed else f"{manifest.status.capitalize()}, not released"
    known = {**manifest.evaluation, **{f"{VALIDATION}{name}": value for name, value in manifest.validation.items()}}
    asked = re.findall(r"[\w.]+(?:\(\w+\))?", release.text)
    found = ", ".join(f"{name} {known[name]:.4g}" for name in dict.fromkeys(asked) if known.get(name) is not None)
    why = f" It had {html.escape(found)}." if found else ""
    name = f"{html.escape(one.name)}: " if named else ""
    condition = f"RELEASE WHEN <code>{html.escape(release.text)}</code>"
    return f'<div class="gate{"" if passed else " held"}"><b>{name}{word}.</b> {condition}{why}</div>'


def fact_rows(shown: Sequence[Trained]) -> Iterator[str]:
    """Yield the rows of the table of numbers, a column for each version."""
    if len(shown) > 1:
        yield "<tr><th></th>" + "".join(f'<th class="number">{html.escape(one.name)}</th>' for one in shown) + "</tr>"
    columns = [facts(one) for one in shown]
    for name in dict.fromkeys(name for column in columns for name in column):
        cells = "".join(f'<td class="number">{html.escape(column.get(name, ""))}</td>' for column in columns)
        yield f'<tr><td class="name">{html.escape(name)}</td>{cells}</tr>'


def facts(one: Trained) -> dict[str, str]:
    """Return the numbers of a version at the top of the page, by name."""
    manifest = one.manifest
    found: dict[str, object] = {
        "examples": manifest.learned.examples,
        "features": manifest.learned.rows,
        "seconds": manifest.seconds,
    }
    for label in (None, *manifest.roles.labels[1:]):
        if label is None:
            found["metrics measured on"] = measured_on(manifest)
        for name in (*headlines(), "pcopc"):
            found[key(name, label)] = manifest.metrics.get(key(name, label))
        for name in ("auc", "gauc"):
            found[f"{key(name, label)} of windows"] = manifest.evaluation.get(key(name, label))
        for name in headlines():
            found[f"{VALIDATION}{key(name, label)}"] = manifest.validation.get(key(name, label))
    texts = {name: number(value) for name, value in found.items() if value is not None}
    auc, counts = manifest.metrics.get("auc"), one.counts
    if auc is not None and counts is not None and min(counts) and measured_on(manifest) == PROGRESSIVE:
        low, high = auc_interval(auc, *counts)
        texts["auc"] = f"{auc:.4f} ({low:.4f} to {high:.4f})"
    return texts


def number(value: object) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4f}"


def option_rows(shown: Sequence[Trained]) -> Iterator[str]:
    """Yield the rows of the table of what versions were made with."""
    columns = [
        {n: readable(v) for n, v in (*parts(m), *said(m), *settings(m)) if v is not None and v != "()"}
        for m in (one.manifest for one in shown)
    ]
    for name in dict.fromkeys(name for column in columns for name in column):
        cells = "".join(f"<td>{html.escape(column.get(name, ''))}</td>" for column in columns)
        yield f'<tr><td class="name">{html.escape(name)}</td>{cells}</tr>'
