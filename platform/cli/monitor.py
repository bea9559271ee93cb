"""The command `xpsql monitor`: rows beside those that a version learned, and an exit code."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import StatementError
from .commands import chosen_of, failing, main, opened, session_options, writing
from .output import FORMATS, separate

if TYPE_CHECKING:
    import pyarrow as pa

    from ...warehouse.version import Version
    from ..session import Session

ALARM = 3
AT = "served_at"
QUERY = re.compile(r"\s*(select|with|from|values)\b", re.IGNORECASE)


@main.command()
@click.argument("model")
@click.option("--version", "number", type=click.IntRange(1), help="The version. [default: the one served]")
@click.option("--data", required=True, metavar="TABLE|QUERY", help="The rows to compare, such as a log of serve.")
@click.option("--labels", metavar="QUERY", help="Labels by served_request, to measure metrics; --data must have that column.")
@click.option("--fail-when", "condition", metavar="CONDITION", help="Exit with 3 if it is true, such as 'drift.max > 0.2'.")
@click.option("--textfile", type=click.Path(dir_okay=False, path_type=Path), help="Write gauges for Prometheus there.")
@click.option("--time", metavar="COLUMN", help="The time of rows: metrics by hour. [default: served_at, where --data has it]")
@click.option(
    "--tolerance",
    type=click.FloatRange(0, min_open=True),
    metavar="SHARE",
    help="Exit with 3 if pcopc is, beyond chance, further from 1 than this in two hours running.",
)
@session_options
def monitor(
    model: str,
    number: int | None,
    data: str,
    labels: str | None,
    condition: str | None,
    textfile: Path | None,
    time: str | None,
    tolerance: float | None,
    **options: Any,
) -> None:
    """Show how far new rows have drifted from those that MODEL learned."""
    chosen, why = chosen_of(options), None
    with failing(condition or "", "", chosen.debug), opened(chosen) as session:
        from ..monitoring.alarm import alarm, condition_of, values_of, write_textfile

        asked = None if condition is None else condition_of(condition)
        version = session.models.find(model, number)
        named = f"MODEL `{model}` VERSION {version.number}"
        drift = answer(session, f"SELECT * FROM ML.DATA_DRIFT({named}, {rows_of(data)}) ORDER BY drift DESC")
        rows = labelled(session, data, labels, version.manifest.roles.labels)
        measured = None if rows is None else answer(session, f"SELECT * FROM ML.EVALUATE({named}, ({rows}))")
        hours = hours_of(session, version, rows, time, tolerance)
        metrics = {} if measured is None else measured.drop_columns(["measured_on"]).to_pylist()[0]
        slots, found = drift.to_pylist(), {name.lower(): value for name, value in metrics.items() if name != "label"}
        if asked is not None:
            own = {name.lower(): value for name, value in version.manifest.metrics.items()}
            why = alarm(asked, {**found, **values_of(slots)}, own)
        if tolerance is not None and hours is not None:
            from ..monitoring.hours import twice_outside

            why = "; ".join(filter(None, (why, twice_outside(hours, tolerance)))) or None
        if textfile is not None:
            write_textfile(textfile, model, version.number, slots, found, why is not None)
        with writing("the result to stdout", "Free space where it goes, or send it elsewhere."):
            if chosen.format == "json":
                by_hour = [] if hours is None else hours.to_pylist()
                whole = {"model": model, "version": version.number, "slots": slots, "metrics": metrics, "hours": by_hour}
                whole["alarm"] = why
                click.echo(json.dumps(whole, default=str))
            else:
                FORMATS[chosen.format](drift)
                for table in (measured, hours):
                    if table is not None:
                        separate(chosen.format)
                        FORMATS[chosen.format](table)
    if why is not None:
        click.echo(f"Alarm: {why}.", err=True)
        sys.exit(ALARM)


def answer(session: Session, query: str) -> pa.Table:
    """Run a query that --data and --labels are put into; its errors have no place, as nobody wrote it."""
    try:
        return session.sql(query).arrow()
    except StatementError as error:
        raise error.at(None) from error


def rows_of(text: str) -> str:
    """Return a relation as calls of ML.* take it."""
    return f"({text})" if QUERY.match(text) else f"TABLE {text}"


def labelled(session: Session, data: str, labels: str | None, wanted: tuple[str, ...]) -> str | None:
    """Return the query of rows with their labels; None where they have none."""
    relation = f"({data})" if QUERY.match(data) else data
    if labels is not None:
        return f"SELECT * FROM {relation} AS d JOIN ({labels}) AS l USING (served_request)"
    query = f"SELECT * FROM {relation}"
    return query if wanted and wanted[0].lower() in names_of(session, query) else None


def names_of(session: Session, query: str) -> list[str]:
    return [name.lower() for name in answer(session, f"SELECT * FROM ({query}) LIMIT 0").column_names]


def hours_of(
    session: Session, version: Version, rows: str | None, time: str | None, tolerance: float | None
) -> pa.Table | None:
    """Return the metrics of rows by hour; None where nobody asks for them, and rows have no labels or no time.

    Raises:
        StatementError: somebody asks, and they have none.
    """
    from ..monitoring.hours import Hourly
    from ..training.recipe import algorithm_of

    made = algorithm_of(version.manifest)
    names = [] if rows is None else names_of(session, rows)
    labels = tuple(label for label in version.manifest.roles.labels if label.lower() in names)
    found = labels and made.values and (time or AT).lower() in names
    if rows is None or not found:
        if time is None and tolerance is None:
            return None
        lacks = "labels that are numbers" if not labels or not made.values else f"a column {time or AT}"
        raise StatementError(
            f"Metrics by hour need rows with {lacks}, and --data has none. Give --labels, or --time a column of their time."
        )
    hourly = Hourly(labels, made.measured)
    query = hourly.query(f"MODEL `{version.manifest.model}` VERSION {version.number}", rows, time or AT)
    return hourly.table(answer(session, query))
