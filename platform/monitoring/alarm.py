"""Alarms: a condition on drift and metrics, and files that other programs watch."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..engines.spark_sql.cursor import Cursor
from ..errors import StatementError, Subject, XpsqlError
from ..training.clauses.release import read_condition
from ..training.metrics.gate import DRIFT, DRIFT_MAX, NEW_SHARE, NULL_SHARE, Condition, Metrics, truth
from ..training.profiles.drift import ENOUGH_ROWS
from ..training.profiles.stored import CATEGORY, NUMBER

SUBJECT = Subject("--fail-when")
GAUGES = {
    "drift": ("xpsql_feature_drift", "Jensen-Shannon divergence from the rows that the version learned, beyond chance."),
    "null_share": ("xpsql_feature_null_ratio", "Share of rows without a value."),
    "new_share": ("xpsql_feature_new_ratio", "Share of occurrences whose feature has no row in the version."),
}
MOST_SLOTS = 100
"""Slots in a text file, those that have drifted most."""

Rows = Sequence[Mapping[str, Any]]


def condition_of(text: str) -> Condition:
    """Read a condition.

    Raises:
        StatementError: it is none.
    """
    cursor = Cursor.of(text)
    found = read_condition(cursor)
    cursor.done()
    return found


def values_of(slots: Rows) -> dict[str, float | None]:
    """Return what conditions name of the rows of ML.DATA_DRIFT."""
    found: dict[str, float | None] = {}
    for row in slots:
        for name in (DRIFT, NULL_SHARE, NEW_SHARE):
            found[f"{name}({row['slot'].lower()})"] = row[name]
    enough = [
        row[DRIFT]
        for row in slots
        if row["kind"] in (CATEGORY, NUMBER) and min(row["rows"], row["rows_before"]) >= ENOUGH_ROWS and row[DRIFT] is not None
    ]
    found[DRIFT_MAX] = max(enough, default=None)
    return found


def alarm(condition: Condition, found: Metrics, own: Metrics) -> str | None:
    """Return why a condition holds, naming values; None where it does not.

    Args:
        found: of the rows watched.
        own: of the version's training, for `previous.`.

    Raises:
        StatementError: it names what is not known.
    """
    previous = {**own, **found}
    named = condition.named(found, previous)
    if missing := [name for name, value in named if value is None]:
        raise StatementError(
            f"{SUBJECT} names {', '.join(missing)}, which is not known of these rows. Metrics need labels (--labels, or "
            f"a label in --data), {DRIFT_MAX} {ENOUGH_ROWS:,} rows.",
            subject=SUBJECT,
        )
    if truth(condition.tree, found, previous) < 1:
        return None
    return f"{condition.text}: " + ", ".join(f"{name} is {value:.6g}" for name, value in named if value is not None)


def write_textfile(path: Path, model: str, version: int, slots: Rows, metrics: Metrics, alarmed: bool) -> None:
    """Write gauges for the textfile collector of Prometheus' node_exporter; the file appears whole.

    Raises:
        XpsqlError: it cannot be written.
    """
    by_drift = sorted(slots, key=lambda row: -(row[DRIFT] or 0.0))[:MOST_SLOTS]
    of = f'model="{escaped(model)}",version="{version}"'
    lines = []
    for column, (name, help) in GAUGES.items():
        lines += [f"# HELP {name} {help}", f"# TYPE {name} gauge"]
        lines += [
            f'{name}{{{of},slot="{escaped(row["slot"])}"}} {row[column]!r}' for row in by_drift if row[column] is not None
        ]
    lines += ["# HELP xpsql_metric Metrics of the rows watched.", "# TYPE xpsql_metric gauge"]
    lines += [f'xpsql_metric{{{of},metric="{escaped(k)}"}} {float(v)!r}' for k, v in metrics.items() if v is not None]
    lines += [
        "# HELP xpsql_alarm Whether --fail-when holds.",
        "# TYPE xpsql_alarm gauge",
        f"xpsql_alarm{{{of}}} {int(alarmed)}",
    ]
    write_whole(path, "\n".join(lines) + "\n")


def write_whole(path: Path, text: str) -> None:
    """Write a file that others read: it appears whole, in place of one that is there.

    Raises:
        XpsqlError: it cannot be written.
    """
    begun = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    try:
        begun.write_text(text, encoding="utf-8")
        begun.replace(path)
    except OSError as error:
        begun.unlink(missing_ok=True)
        raise XpsqlError(
            f"Cannot write {path}: {error.strerror or error}. Give --textfile a file in a folder that you may write."
        ) from error


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
