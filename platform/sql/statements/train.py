"""TRAIN MODEL and EXPLAIN TRAIN MODEL: a new model from a query."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from ...errors import StatementError
from ...training.clauses.budget import BUDGET
from ...training.clauses.items import ITEMS
from ...training.parallelism import check_room
from ...training.plan import Plan
from ...training.start import train
from ...training.trial import Trial
from .. import clauses, idempotency, streams
from ..auto import Asks, asks_of, without_auto, writer_of
from ..base import Statement
from ..cursor import Cursor
from ..query import Query
from ..rates import with_rates
from ..trials import candidates, check_given, check_tuned, first
from .resume import resumed

if TYPE_CHECKING:
    from pathlib import Path

    from ...engines.spark_sql.passage import Passage
    from ...engines.tasks import Room
    from ...training.auto.auto import SearchRequest
    from ...training.clauses.budget import Budget
    from ...training.tuning.bayes import Search
    from ...training.tuning.space import Candidate
    from ..context import StatementContext
    from ..fitting import Applied

GRAMMAR = f"""\
TRAIN [OR REPLACE] MODEL [IF NOT EXISTS] name
  USING algorithm [(option = value, ...)]
  {clauses.GRAMMAR}"""


@dataclass(frozen=True)
class Train:
    """A training of a new model; `plan.query` is as written, with the calls that `query` runs first."""

    plan: Plan
    given: clauses.Clauses
    query: Query
    stream: streams.Streamed | None
    if_not_exists: bool
    candidates: tuple[Candidate, ...] = ()
    search: Search | None = None
    auto: Asks | None = None

    def run(self, context: StatementContext) -> pa.Table | None:
        if (training := resumed(context, self.plan.model, self.plan.statement)) is not None:
            return training.run(context)
        if self.if_not_exists and context.models.exists(self.plan.model):
            context.reporter.note(f"The model {self.plan.model} exists; nothing is trained.")
            return None
        name, served = self.plan.settings.once, context.models.served(self.plan.model)
        if name is not None and served is not None and not self.plan.replace:
            version = context.models.version(self.plan.model)
            if idempotency.has_learned(version, name):
                context.reporter.note(f"The model {self.plan.model} has learned {name!r}; nothing is learned.")
                return idempotency.answer(idempotency.learner(context.models, version, name))
        with self.query.expanded(context) as query:
            if self.auto is not None:
                from ...training.auto.auto import auto

                with clauses.placing(self.given, query):
                    return auto(self.asked(query, context, context.resumes))
            plan, text = self.transformed(query, context)
            with clauses.placing(self.given, text):
                plan = replace(plan, passing=bool(self.query.calls))
                if self.candidates:
                    from ...training.tuning.tune import tuned

                    tune = self.given["TUNE"].value
                    return tuned(plan, tune, self.candidates, self.search, context.engine, context.models, context.reporter)
                return train(plan, context.engine, context.models, context.reporter)

    def asked(self, query: Passage, context: StatementContext, goes_on: bool) -> SearchRequest:
        """Return what the statement asks of USING auto.

        Args:
            query: with the calls in it run.
            goes_on: with the trials of a search by this statement that was killed.
        """
        from ...training.auto.auto import SearchRequest

        def planned(statement: str, rows: Passage) -> Plan:
            return train_of(statement).transformed(rows, context).plan

        def made(statement: str, budget: Budget, rows: Path | None) -> pa.Table:
            found = train_of(statement)
            with found.query.expanded(context) as own:
                plan, _ = found.transformed(own, context)
                plan = replace(plan, passing=bool(found.query.calls)).having(BUDGET, budget)
                return train(plan, context.engine, context.models, context.reporter, Trial(rows=rows))

        assert self.auto is not None  # else nobody asks
        writer = writer_of(self.plan.model, self.plan.replace, self.given, self.query.passage.text, planned)
        return SearchRequest(
            self.plan.statement,
            self.plan.model,
            query.text,
            bool(self.query.calls),
            *self.auto,
            writer,
            context.engine,
            context.models,
            context.reporter,
            self.plan.replace,
            goes_on,
            made,
        )

    def check_room(self, context: StatementContext, room: Room, first: bool) -> None:
        """See TakesTasks; where it may learn nothing, or go on with the tasks of another start, nothing is said."""
        if not (context.resumes or self.if_not_exists or self.plan.settings.once is not None):
            self.check_places(room)

    def check_places(self, room: Room) -> None:
        """Refuse more tasks than there is room for."""
        with clauses.placing(self.given, None):
            check_room(self.plan, room)

    def transformed(self, query: Passage, context: StatementContext) -> Applied:
        """Return the plan with TRANSFORM, fitted, around the query."""
        from ..bound_histories import reading
        from ..fitting import applied

        written = self.given["TRANSFORM"].value if "TRANSFORM" in self.given else None
        with clauses.placing(self.given, None):
            return reading(applied(self.plan, query, self.stream, written, context), context)


@dataclass(frozen=True)
class ExplainTrain:
    """What a training would do."""

    train: Train
    fast: bool

    def check_room(self, context: StatementContext, room: Room, first: bool) -> None:
        """See TakesTasks."""
        self.train.check_places(room)

    def run(self, context: StatementContext) -> pa.Table:
        from ...training.explain import explain

        train = self.train
        with train.query.expanded(context) as query:
            if train.auto is not None:
                from ...training.auto.explain import explain_auto

                with clauses.placing(train.given, query):
                    return explain_auto(train.asked(query, context, goes_on=False))
            plan, text = train.transformed(query, context)
            with clauses.placing(train.given, text):
                return explain(plan, context.engine, context.models, self.fast)


def parse_train(cursor: Cursor) -> Train:
    first = cursor.index - 1
    or_replace = cursor.accept("OR", "REPLACE")
    cursor.expect("MODEL")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    if or_replace and if_not_exists:
        raise cursor.error("OR REPLACE and IF NOT EXISTS exclude each other; leave one out.")
    model = cursor.identifier("a model name")
    given = clauses.read_clauses(cursor)
    auto = asks_of(given)
    given = with_rates(given if auto is None else without_auto(given))
    check_tuned(given, continues=False)
    if "USING" not in given:
        raise cursor.error("TRAIN MODEL needs USING algorithm before AS.")
    query = streams.read_query(cursor)
    stream = streams.stream_in(query)
    if "TUNE" in given and stream is not None:
        message = "TUNE learns the same rows again for each trial, and a stream does not end. TRAIN on a table, then CONTINUE."
        raise StatementError(message, given["TUNE"].position)
    if auto is not None and stream is not None:
        message = "USING auto learns the same rows again and again, and a stream does not end. TRAIN on a table, then CONTINUE."
        raise StatementError(message, given["USING"].position)
    clauses.check_release(clauses.values_of(given), given)
    plan = make_plan(cursor.span(first).text, model, given, query, stream, or_replace)
    streams.check_settings(stream, plan.settings, given)
    if plan.settings.refit:
        raise StatementError(
            "WITH refit is for CONTINUE: TRAIN computes the constants of TRANSFORM in any case. Leave it out.",
            given["WITH"].value["refit"].position,
        )
    with clauses.placing(given, None):
        tried, search = candidates(plan.statement, given, plan.settings.seed) if "TUNE" in given else ([], None)
    check_given(given, [trial.algorithm for trial in tried] or [plan.algorithm], plan.settings, plan.clause(ITEMS))
    return Train(plan, given, query, stream, if_not_exists, tuple(tried), search, auto)


def train_of(statement: str) -> Train:
    """Return the training of a statement's text."""
    cursor = Cursor.of(statement)
    cursor.expect("TRAIN")
    return parse_train(cursor)


def make_plan(
    statement: str, model: str, given: clauses.Clauses, query: Query, stream: streams.Streamed | None, or_replace: bool
) -> Plan:
    """Check what the clauses name and return the plan."""
    algorithm = clauses.algorithm(first(given["USING"].value))
    return Plan(
        statement=statement,
        model=model,
        algorithm=algorithm,
        operators=clauses.operators(given["OPERATORS"].value) if "OPERATORS" in given else (),
        query=query.passage.text,
        settings=clauses.settings(given["WITH"].value) if "WITH" in given else clauses.settings({}),
        clauses=clauses.labelled(algorithm, clauses.values_of(given), given),
        replace=or_replace,
        stream=None if stream is None else stream.query,
    )


def parse_explain(cursor: Cursor) -> ExplainTrain:
    return ExplainTrain(parse_train(cursor), fast=False)


def parse_explain_fast(cursor: Cursor) -> ExplainTrain:
    return ExplainTrain(parse_train(cursor), fast=True)


TRAIN = Statement("TRAIN", GRAMMAR, "Train a model on the rows of a query.", parse_train)
EXPLAIN_TRAIN = Statement(
    "EXPLAIN TRAIN",
    "EXPLAIN TRAIN MODEL ...",
    "Show what a training would take, without starting it: rows, time, memory, what is stored, batch size, workers and shards, "
    "then the details. It learns from a sample for a second or two, and forgets that.",
    parse_explain,
)
EXPLAIN_FAST_TRAIN = Statement(
    "EXPLAIN FAST TRAIN",
    "EXPLAIN FAST TRAIN MODEL ...",
    "Show the same as EXPLAIN TRAIN without learning from a sample: time and memory are estimated for usual rows.",
    parse_explain_fast,
)
