"""The command `xpsql monitor`: rows beside those that a version learned, and an exit code."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .commands import chosen_of, failing, main, opened, session_options, writing
from .output import FORMATS, separate

if TYPE_CHECKING:
    import pyarrow as pa

    from ..session import Session

ALARM = 3
QUERY = re.compile(r"\s*(select|with|from|values)\b", re.IGNORECASE)


@main.command()
@click.argument("model")
@click.option("--version", "number", type=click.IntRange(1), help="The version. [default: the one served]")
@click.option("--data", required=True, metavar="TABLE|QUERY", help="The rows to compare, such as a log of serve.")
@click.option("--labels", metavar="QUERY", help="Labels by served_request, to measure metrics; --data must have that column.")
@click.option("--fail-when", "condition", metavar="CONDITION", help="Exit with 3 if it is true, such as 'drift.max > 0.2'.")
@click.option("--textfile", type=click.Path(dir_okay=False, path_type=Path), help="Write gauges for Prometheus there.")
@session_options
def monitor(
    model: str,
    number: int | None,
    data: str,
    labels: str | None,
    condition: str | None,
    textfile: Path | None,
    **options: Any,
) -> None:
    """Show how far new rows have drifted from those that MODEL learned."""
    chosen, why = chosen_of(options), None
    with failing(condition or "", "", chosen.debug), opened(chosen) as session:
        from ..monitoring.alarm import alarm, condition_of, values_of, write_textfile

        asked = None if condition is None else condition_of(condition)
        version = session.models.find(model, number)
        named = f"MODEL `{model}` VERSION {version.number}"
        drift = session.sql(f"SELECT * FROM ML.DATA_DRIFT({named}, {rows_of(data)}) ORDER BY drift DESC").arrow()
        measured = metrics_of(session, named, data, labels, version.manifest.roles.labels)
        metrics = {} if measured is None else measured.drop_columns(["measured_on"]).to_pylist()[0]
        slots, found = drift.to_pylist(), {name.lower(): value for name, value in metrics.items() if name != "label"}
        if asked is not None:
            own = {name.lower(): value for name, value in version.manifest.metrics.items()}
            why = alarm(asked, {**found, **values_of(slots)}, own)
        if textfile is not None:
            write_textfile(textfile, model, version.number, slots, found, why is not None)
        with writing("the result to stdout", "Free space where it goes, or send it elsewhere."):
            if chosen.format == "json":
                whole = {"model": model, "version": version.number, "slots": slots, "metrics": metrics, "alarm": why}
                click.echo(json.dumps(whole, default=str))
            else:
                FORMATS[chosen.format](drift)
                if measured is not None:
                    separate(chosen.format)
                    FORMATS[chosen.format](measured)
    if why is not None:
        click.echo(f"Alarm: {why}.", err=True)
        sys.exit(ALARM)


def rows_of(text: str) -> str:
    """Return a relation as calls of ML.* take it."""
    return f"({text})" if QUERY.match(text) else f"TABLE {text}"


def metrics_of(session: Session, named: str, data: str, labels: str | None, wanted: tuple[str, ...]) -> pa.Table | None:
    """Return the metrics of rows; None where they have no labels."""
    relation = f"({data})" if QUERY.match(data) else data
    if labels is not None:
        query = f"SELECT * FROM {relation} AS d JOIN ({labels}) AS l USING (served_request)"
    else:
        names = {name.lower() for name in session.sql(f"SELECT * FROM {relation} LIMIT 0").arrow().column_names}
        if not wanted or wanted[0].lower() not in names:
            return None
        query = f"SELECT * FROM {relation}"
    return session.sql(f"SELECT * FROM ML.EVALUATE({named}, ({query}))").arrow()
