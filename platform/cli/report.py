"""The page of `xpsql report`: how a version was trained, in one file that needs no network."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...warehouse.progress import LEARNING, READING, latest, read_progress
from ...warehouse.version import Version
from ..errors import XpsqlError
from ..models.weights import magnitude, weights
from ..sql.statements.describe_model import gate, parts, readable, settings
from ..training.metrics import headlines
from ..training.metrics.gate import VALIDATION
from ..training.metrics.labels import key

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from ..session import Session

COLORS = ("#4c8dd6", "#e8883a", "#3fa37c", "#c05a8f")
LIFE = ("admitted", "expired")
SLOTS = 30
SCORED = "scored before it was learned from; in passes after the first the model has seen them before"
PAGE = Path(__file__).with_name("report.html")


def report(session: Session, name: str, number: int | None) -> str:
    """Return the page of a version, of the one served where no number is given.

    Raises:
        ModelError: there is no such version.
        XpsqlError: plotly is not installed.
    """
    try:
        import plotly.graph_objects  # noqa: F401  the message is better here than in the middle of a page
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise XpsqlError("xpsql report draws with plotly, which is not installed: pip install 'xpsql[report]'.") from error
    version = session.models.find(name, number)
    manifest = version.manifest
    return PAGE.read_text(encoding="utf-8").format(
        title=html.escape(f"{manifest.model}, version {version.number}"),
        subtitle=html.escape(f"{manifest.algorithm.name}, {manifest.status}; xpsql {manifest.xpsql}"),
        script=get_plotlyjs(),
        facts="".join(f"<div><span>{name}</span><b>{value}</b></div>" for name, value in facts(version)),
        sections="".join(sections(session, version)),
        statement=html.escape(manifest.statement),
        options="".join(f"<tr><td>{html.escape(k)}</td><td>{html.escape(readable(v))}</td></tr>" for k, v in options(version)),
    )


def facts(version: Version) -> list[tuple[str, str]]:
    """Return the numbers at the top of the page."""
    manifest = version.manifest
    found: dict[str, Any] = {"examples": manifest.examples, "rows": manifest.rows, "seconds": manifest.seconds}
    for label in (None, *manifest.labels[1:]):
        found |= {name: manifest.metrics.get(name) for name in (key(name, label) for name in (*headlines(), "pcopc"))}
        windows = (key(name, label) for name in ("auc", "gauc"))
        found |= {f"{name} of windows": manifest.evaluation.get(name) for name in windows}
        held_out = (key(name, label) for name in headlines())
        found |= {f"{VALIDATION}{name}": manifest.validation.get(name) for name in held_out}
    return [
        (name, f"{value:,}" if isinstance(value, int) else f"{value:,.4f}")
        for name, value in found.items()
        if value is not None
    ]


def options(version: Version) -> list[tuple[str, object]]:
    """Return what the version was made with, by name."""
    manifest = version.manifest
    return [
        (name, value)
        for name, value in (*parts(manifest), *gate(manifest), *settings(manifest))
        if value is not None and value != "()"
    ]


def sections(session: Session, version: Version) -> list[str]:
    """Return the plots, each under a heading, those for which there is anything to draw."""
    every = [line for line in latest(read_progress(version.folder)) if "segment" not in line]
    lines, validated = ([line for line in every if ("validation" in line) == held_out] for held_out in (False, True))
    windows = [line for line in lines if "window" in line]
    measured = windows or lines
    seen = f"each window, {SCORED}" if windows else f"all examples of a pass so far, {SCORED}"
    found = []
    if len(measured) > 1:
        batches = [line["batch"] for line in measured]
        found += [
            section(f"Learning curve: {name}", seen, curves(batches, of_passes(measured, name), "batches"))
            for name in headlines()
            if any(line.get(name) is not None for line in measured)
        ]
        whole = [line for line in measured if line.get("label") == measured[0].get("label")]
        life = {name: [line.get(name, 0) for line in whole] for name in ("rows", *LIFE) if any(name in line for line in whole)}
        batches = [line["batch"] for line in whole]
        told = "rows in memory, and those admitted and expired so far"
        found.append(section("The life of rows", told, curves(batches, life, "batches")))
    spent = [line for line in lines if "compute_seconds" in line]
    if spent:
        told = (
            "seconds of all workers by step; a long input_wait says that reading is the bottleneck, read_wait that learning is"
        )
        found.append(section("Where the time went", told, steps(spent[-1])))
    if validated:
        passes = [line["pass"] + 1 for line in validated]
        found += [
            section(f"Rows held out: {name}", "after each pass", curves(passes, of_labels(validated, name), "passes"))
            for name in headlines()
            if any(line.get(name) is not None for line in validated)
        ]
    if version.manifest.calibration:
        found.append(section("Calibration", "mean label by mean prediction, in twenty parts", calibration(version)))
    if version.manifest.status in ("ready", "held"):
        found.append(
            section(
                "Weights by slot",
                "mean size of the weights of each slot; features and largest weight on hover",
                slots(session, version),
            )
        )
    return found


def of_passes(measured: Sequence[dict[str, Any]], name: str) -> dict[str, list[Any]]:
    """Return a metric's values by label and pass, None where a line is of another; under its own name where there is one."""
    of = [(line.get("label"), line.get("pass") or 0) for line in measured]
    labels, numbers = (list(dict.fromkeys(values)) for values in zip(*of, strict=True))
    found = {}
    for label, number in dict.fromkeys(of):
        words = [str(label)] * (len(labels) > 1) + [f"pass {number + 1}"] * (len(numbers) > 1)
        curve = [line.get(name) if one == (label, number) else None for line, one in zip(measured, of, strict=True)]
        found[", ".join(words) or name] = curve
    return found


def of_labels(measured: Sequence[dict[str, Any]], name: str) -> dict[str, list[Any]]:
    """Return a metric's values by label, None where a line is of another; under its own name where there is one."""
    labels = dict.fromkeys(line.get("label") for line in measured)
    return {label or name: [line.get(name) if line.get("label") == label else None for line in measured] for label in labels}


def section(title: str, text: str, figure: Figure) -> str:
    figure.update_layout(
        height=340, margin={"l": 60, "r": 20, "t": 20, "b": 50}, paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)"
    )
    plot = figure.to_html(full_html=False, include_plotlyjs=False, config={"displayModeBar": False, "responsive": True})
    return f"<h2>{html.escape(title)}</h2><p>{html.escape(text)}</p>{plot}"


def curves(x: Sequence[int], lines: dict[str, list[Any]], title: str) -> Figure:
    from plotly.graph_objects import Figure, Scatter

    drawn = [
        Scatter(x=list(x), y=values, name=name, mode="lines+markers", line={"color": COLORS[i % len(COLORS)]})
        for i, (name, values) in enumerate(lines.items())
    ]
    return Figure(drawn, {"xaxis": {"title": title}, "yaxis": {}, "showlegend": len(drawn) > 1})


def steps(line: dict[str, Any]) -> Figure:
    from plotly.graph_objects import Bar, Figure

    names = [*READING, *LEARNING]
    colors = [COLORS[0]] * len(READING) + [COLORS[1]] * len(LEARNING)
    bars = Bar(x=names, y=[line[f"{name}_seconds"] for name in names], marker={"color": colors})
    return Figure([bars], {"xaxis": {}, "yaxis": {"title": "seconds"}})


def calibration(version: Version) -> Figure:
    from plotly.graph_objects import Figure, Scatter

    predicted, labels, examples = zip(*version.manifest.calibration, strict=True)
    ends = [0, max(*predicted, *labels)]
    return Figure(
        [
            Scatter(x=ends, y=ends, mode="lines", line={"dash": "dot", "color": "#98a2b3"}, name="perfect"),
            Scatter(x=predicted, y=labels, mode="lines+markers", line={"color": COLORS[0]}, customdata=examples, name="model"),
        ],
        {"xaxis": {"title": "mean prediction"}, "yaxis": {"title": "mean label"}},
    )


def slots(session: Session, version: Version) -> Figure:
    from plotly.graph_objects import Bar, Figure

    table = version.manifest.tables[0]
    with weights(version, session.engine) as relation:
        size = {"size": magnitude(table)}
        rows = f"({relation.select_table(table.name, ['slot'], size)})"
        query = f"SELECT slot, count(*) AS features, avg(size) AS mean, max(size) AS largest FROM {rows} AS r GROUP BY slot"
        found = [row for batch in session.engine.reader(query) for row in batch.to_pylist()]
    found = sorted(found, key=lambda row: -row["mean"])[:SLOTS]
    names = [row["slot"] or "(shared)" for row in found]
    texts = [f"{row['features']:,} features, largest {row['largest']:.4g}" for row in found]
    bars = Bar(x=names, y=[row["mean"] for row in found], text=texts, textposition="none", marker={"color": COLORS[2]})
    return Figure([bars], {"xaxis": {}, "yaxis": {"title": "mean size of weights"}})
