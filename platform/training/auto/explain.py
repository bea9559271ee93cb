"""EXPLAIN TRAIN ... USING auto: the stages of a search, what each tries, and about how long that takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pyarrow as pa

from ...display import listed
from ...engines.base import Staged
from ..metrics.alone import leak_text
from ..planning.targets import duration
from .auto import BINARY, METRICS, NUMBERS, SearchRequest, TrialRows, holding_out, kind_of, order_for, recurs, timed
from .forms import RECIPES, SEVERAL_PASSES, SPACES, StatementForm, batch_of, recipe, with_loss
from .look import looked
from .stages import (
    BASE,
    COLUMNS,
    CROSSES,
    FAMILY,
    MANY_ROWS,
    MOST_LEFT_OUT,
    OPTIONS,
    ORDER,
    PART,
    POINTS,
    RATES,
    SEVERAL,
)
from .takes import compile_seconds, first_seconds

UNKNOWN = "known once the query has run"
LOOK_SECONDS = 2.0


class StageShown(NamedTuple):
    """A stage as EXPLAIN shows it: its name, what it tries, and its seconds; None: not known before the query runs."""

    name: str
    tries: str
    seconds: float | None


def explain_auto(asked: SearchRequest) -> pa.Table:
    """Describe a search: property and value, a row each. Nothing is trained.

    Raises:
        StatementError: what would stop the search before it starts, but for columns that tell the label, which are notes.
    """
    notes: list[str] = []
    rows = timed(asked, notes.append)
    kind, known = BINARY, not asked.passing and not isinstance(asked.engine.scan(rows.query), Staged)
    learned, base = None, StatementForm("xftrl")
    if known:
        rows = holding_out(asked.engine, rows)
        kind = kind_of(asked.engine, rows, base)
        base = StatementForm("linear_regression") if kind == NUMBERS else base
        learned = told(asked, rows, base, notes)
    metric = asked.options.metric or METRICS[kind]
    judges = metric if recurs(rows.writer.plan(base, rows.query)) else None
    stages = [*stages_of(asked, base, kind == NUMBERS, learned, judges)]
    summary = [
        ("model", f"{asked.model}, a new model"),
        ("algorithm", "auto: of the statements below the best one, beyond what chance explains"),
        ("budget", asked.budget.text),
        ("metric", metric),
        ("judged", f"{held_out(rows, base)}: the earlier half of these rows chooses, the later half tells"),
        ("rows", UNKNOWN if learned is None else f"{learned:,} are learned by each trial"),
        ("time", time_text(asked, stages)),
    ]
    shown = [*summary, *((f"stage {one.name}", line_of(one)) for one in stages), *(("note", note) for note in notes)]
    table = pa.table({"property": [name for name, _ in shown], "value": [value for _, value in shown]})
    return listed(table, len(summary))


def told(asked: SearchRequest, rows: TrialRows, base: StatementForm, notes: list[str]) -> int:
    """Look at the rows, note what would mislead, and return how many are learned."""
    with TemporaryDirectory() as folder:
        seen = looked(rows.writer.plan(base, rows.query), asked.engine, Path(folder), notes.append)
    order = order_for(seen)
    notes += [*seen.notes, *(() if order is None else (order[1],))]
    notes += [leak_text(name, one) for name, one in seen.leaks.items()]
    return seen.rows


def held_out(rows: TrialRows, base: StatementForm) -> str:
    """Return the VALIDATE of the statements."""
    lines = rows.writer.write(base).splitlines()
    return next(line.strip() for line in lines if line.strip().startswith("VALIDATE"))


def stages_of(
    asked: SearchRequest, base: StatementForm, numbers: bool, learned: int | None, metric: str | None
) -> Iterator[StageShown]:
    """Yield the stages in order; later ones build on what earlier ones find, so that their times are of what can be known.

    Args:
        metric: judges networks after each of several passes; None: none are tried.
    """

    def seconds(*forms: StatementForm) -> float | None:
        return None if learned is None else sum(first_seconds(form, learned) for form in forms)

    def again(times: int) -> float | None:
        return None if learned is None else times * (first_seconds(base, learned) - compile_seconds(base))

    names = [name for name in asked.options.algorithms if with_loss(name.lower(), numbers) is not None]
    first = f", on {PART:.0%} of the rows first" if (learned or 0) > MANY_ROWS else ""
    yield StageShown("look", "columns alone, leaks, ids, order", LOOK_SECONDS)
    yield StageShown(BASE, f"{base.algorithm} with its defaults, which wins where nothing beats it", seconds(base))
    what = "without columns that tell nothing; numbers as bins, too; at the end without arrays and columns of many values"
    yield StageShown(COLUMNS, what, again(3 + MOST_LEFT_OUT))
    what = f"at most {asked.options.most_crosses} of 2 to {ORDER} columns, by residuals; two sizes of the list"
    yield StageShown(CROSSES, what, again(2))
    if not numbers:
        yield StageShown(RATES, "recent click rates as inputs", seconds(base._replace(rates=True)))
    yield StageShown(FAMILY, f"{', '.join(names)}, with their defaults{first}", seconds(*map(StatementForm, names)))
    networks = [] if metric is None else [StatementForm(name) for name in map(str.lower, names) if name in RECIPES]
    forms = [recipe(form, metric or "", batch_of(learned or 0)) for form in networks]
    if forms:
        what = f"{', '.join(form.algorithm for form in forms)}, normalised by batches, at most {SEVERAL_PASSES}"
        yield StageShown(SEVERAL, what, seconds(*forms))
    tries = f"passes, and {POINTS} points of {', '.join(SPACES['xftrl'])} or what an algorithm has, of the two best"
    yield StageShown(OPTIONS, tries, again(2 * POINTS))
    yield StageShown("version", "the statement that wins, on all rows", again(1))


def line_of(stage: StageShown) -> str:
    took = UNKNOWN if stage.seconds is None else f"about {duration(stage.seconds)}"
    return f"{stage.tries}: {took}"


def time_text(asked: SearchRequest, stages: list[StageShown]) -> str:
    """Say how long it takes: the budget, or less."""
    every = [stage.seconds for stage in stages]
    whole = UNKNOWN if None in every else f"about {duration(sum(one or 0.0 for one in every))}"
    if asked.budget.seconds is None:
        return f"{whole} for all stages; the budget is of trials, and the version comes after them"
    return f"{duration(asked.budget.seconds)} at most; all stages would take {whole}"
