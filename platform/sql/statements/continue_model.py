"""CONTINUE MODEL and EXPLAIN CONTINUE MODEL: a new version of a model from new data.

A clause that is not given is the parent's. USING and WITH change only the options that they name; the algorithm stays.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...engines.spark_sql.lexer import tokenize
from ...errors import ModelError, StatementError
from ...options import Value, written
from ...training.clauses.cross import CROSS, terms_of
from ...training.clauses.items import ITEMS
from ...training.clauses.settings import BASE_RATE
from ...training.clauses.transform import TRANSFORM, read_transform
from ...training.clauses.using import Given
from ...training.clauses.validate import VALIDATE
from ...training.clauses.with_options import WITH, names
from ...training.parallelism import check_room
from ...training.plan import Plan
from ...training.recipe import options_in
from ...training.start import train
from .. import clauses, idempotency, inherited, streams
from ..base import Statement
from ..cursor import Cursor
from ..query import Query
from ..trials import check_given, check_tuned
from .resume import resumed

if TYPE_CHECKING:
    from ....warehouse.manifest import Manifest
    from ....warehouse.version import Version
    from ...engines.spark_sql.passage import Passage
    from ...engines.tasks import Room
    from ...input.streams.base import StreamRelation
    from ..context import StatementContext
    from ..fitting import Applied

GRAMMAR = f"""\
CONTINUE [OR REPLACE] MODEL name [FROM VERSION n]
  [USING algorithm (option = value, ...)]
  {clauses.GRAMMAR}"""


@dataclass(frozen=True)
class Continue:
    """A training that starts from a version, the served one where `version` is None.

    `replace`: what the version learned under the name of `once` is learned again, from its parent.
    """

    statement: str
    model: str
    version: int | None
    replace: bool
    given: clauses.Clauses
    query: Query
    stream: streams.Streamed | None

    def run(self, context: StatementContext) -> pa.Table:
        if (training := resumed(context, self.model, self.statement)) is not None:
            return training.run(context)
        version = context.models.version(self.model, self.version)
        if (learned := idempotency.has_learned(version, self.name)) and not self.replace:
            assert self.name is not None  # has_learned
            found = idempotency.learner(context.models, version, self.name)
            context.reporter.note(f"Version {found.number} of {self.model} has learned {self.name!r}; nothing is learned.")
            return idempotency.answer(found)
        stays = "PUBLISH" in self.given
        if self.stream is not None and not stays and (nothing := self.idle(context, version, self.stream.relation)) is not None:
            return nothing
        for held in idempotency.beside(context.models, version):
            if self.name is None or idempotency.own_name(held) != self.name:  # else it is learned again now
                context.reporter.note(idempotency.missing(self.model, held, self.stream is not None))
        with self.query.expanded(context) as query:
            plan, text = self.transformed(query, context)
            with clauses.placing(self.given, text):
                plan = replace(plan, passing=bool(self.query.calls))
                done = train(plan, context.engine, context.models, context.reporter)
        if learned:
            context.models.drop(self.model, version.number)
            context.reporter.note(f"Version {version.number} of {self.model}, which had learned {self.name!r}, is removed.")
        return done

    def check_room(self, context: StatementContext, room: Room, first: bool) -> None:
        """See TakesTasks; its parent says the rest of its settings, and may be another one after a statement before it."""
        if not context.resumes and self.name is None and self.stream is None:  # else it may learn nothing
            self.check_places(context, room, first)

    def check_places(self, context: StatementContext, room: Room, first: bool) -> None:
        """Refuse more tasks than there is room for, where the parent is known; one that is not there the statement reports."""
        with suppress(ModelError, OSError), clauses.placing(self.given, None):
            if first:
                check_room(self.plan(context, ""), room)

    def idle(self, context: StatementContext, version: Version, relation: StreamRelation) -> pa.Table | None:
        """Return the result where nothing has arrived since a version, which is known at once; None where something may
        have."""
        from ...training.streaming import idle

        forgives = clauses.settings(self.clause("WITH", {})).forgives
        return idle(relation, version, context.models.warehouse, forgives, context.reporter)

    @property
    def name(self) -> str | None:
        """What `once` says."""
        given = self.clause("WITH", {})
        name: str | None = given["once"].value if "once" in given else None
        return name

    def plan(self, context: StatementContext, query: str) -> Plan:
        """Return the plan: what the statement gives, and the parent's manifest for the rest."""
        parent = context.models.version(self.model, self.version)
        if self.name is not None and self.replace and idempotency.has_learned(parent, self.name):
            parent = idempotency.parent_to_replace(context.models, parent, self.name)
        manifest = parent.manifest
        self.check_crosses(manifest)
        own = clauses.values_of(self.given)
        values = {**inherited.values(manifest, self.stream is not None), **own, CROSS.name: CROSS.kept(manifest)}
        clauses.check_release(values, self.given)
        algorithm = clauses.algorithm(self.using(manifest))
        carried = self.carried(manifest, VALIDATE.of(values) is not None)
        settings = clauses.settings({**carried, **self.clause("WITH", {})})
        values[WITH.name] = names(
            {name: carried[name] for name in WITH.kept(manifest) if name in carried} | self.clause("WITH", {})
        )
        check_given(self.given, [algorithm], settings, ITEMS.of(values))
        return Plan(
            statement=self.statement,
            model=self.model,
            algorithm=algorithm,
            operators=clauses.operators(self.clause("OPERATORS", inherited.operators(manifest))),
            query=query,
            settings=settings,
            clauses=clauses.labelled(algorithm, values, self.given),
            parent=parent.number,
            inherited=self.inherited(manifest),
            stream=None if self.stream is None else self.stream.query,
        )

    def carried(self, manifest: Manifest, validated: bool) -> dict[str, Value]:
        """Return the settings that the parent hands on; a stream is read once."""
        found = carried(manifest, validated)
        return found if self.stream is None else {name: value for name, value in found.items() if name != "passes"}

    def check_crosses(self, manifest: Manifest) -> None:
        """Refuse other crosses than the parent's."""
        given = self.given.get("CROSS")
        before = CROSS.kept(manifest)
        if given is not None and {term.meaning for term in terms_of(given.value)} != {term.meaning for term in before}:
            has = f"({', '.join(term.text for term in before)})" if before else "none"
            message = f"CONTINUE keeps the crosses of version {manifest.version}: {has}. Leave CROSS out, or TRAIN a new model."
            raise StatementError(message, given.position)

    def transformed(self, query: Passage, context: StatementContext) -> Applied:
        """Return the plan with the parent's TRANSFORM around the query.

        Raises:
            StatementError: the statement has another list than the parent.
        """
        from ..bound_histories import reading
        from ..fitting import applied

        plan = self.plan(context, query.text)
        read = context.models.version(self.model, plan.parent).manifest.histories
        given, before = self.given.get("TRANSFORM"), plan.clause(TRANSFORM)
        if given is not None and (before is None or before.text != given.value.text):
            raise StatementError(
                f"CONTINUE keeps the features of version {plan.parent}, and its TRANSFORM is another one. Leave it out, or "
                "TRAIN a new model.",
                given.position,
            )
        if not plan.settings.refit:
            with clauses.placing(self.given, None):
                return reading(applied(plan, query, self.stream, None, context), context, read)
        if before is None:
            message = f"WITH refit computes the constants of TRANSFORM anew, and version {plan.parent} has none. Leave it out."
            raise StatementError(message, self.given["WITH"].value["refit"].position)
        context.reporter.note(
            f"The constants of TRANSFORM are computed anew: version {plan.parent} learned such columns with "
            "other bounds and scales."
        )
        text = query.inserted(f"({before.text}\n)", 0)
        written = read_transform(Cursor(text, tokenize(text)))
        with clauses.placing(self.given, None):
            return reading(applied(plan.having(TRANSFORM, None), query, self.stream, written, context), context, read)

    def clause(self, word: str, default: Any) -> Any:
        return self.given[word].value if word in self.given else default

    def inherited(self, manifest: Manifest) -> frozenset[str]:
        """Return the parent's options of the algorithm that USING does not give."""
        given = self.clause("USING", Given(Value(manifest.algorithm.name), {})).options
        return frozenset(options_in(manifest).keys() - {name.lower() for name in given})

    def using(self, manifest: Manifest) -> Given:
        """Return the parent's algorithm with the options that USING changes."""
        name, options = manifest.algorithm.name, written(options_in(manifest))
        given: Given = self.clause("USING", Given(Value(name), {}))
        if given.name.value.lower() != name:
            raise StatementError(
                f"CONTINUE keeps the algorithm, {name}; got {given.name.value}. Train a new model for another one.",
                given.name.position,
            )
        return Given(given.name, {**options, **given.options})


@dataclass(frozen=True)
class ExplainContinue:
    """What a continued training would do."""

    training: Continue
    fast: bool

    def check_room(self, context: StatementContext, room: Room, first: bool) -> None:
        """See TakesTasks."""
        self.training.check_places(context, room, first)

    def run(self, context: StatementContext) -> pa.Table:
        from ...training.explain import explain

        with self.training.query.expanded(context) as query:
            plan, text = self.training.transformed(query, context)
            with clauses.placing(self.training.given, text):
                return explain(plan, context.engine, context.models, self.fast)


def parse_continue(cursor: Cursor) -> Continue:
    first = cursor.index - 1
    or_replace = cursor.accept("OR", "REPLACE")
    cursor.expect("MODEL")
    model = cursor.identifier("a model name")
    version = cursor.integer("a version number") if cursor.accept("FROM", "VERSION") else None
    given = clauses.read_clauses(cursor)
    check_tuned(given, continues=True)
    query = streams.read_query(cursor)
    stream = streams.stream_in(query)
    check_named(given, stream)
    if or_replace and "once" not in (given["WITH"].value if "WITH" in given else {}):
        raise cursor.error("CONTINUE OR REPLACE needs WITH (once = 'name'), the name of what is learned anew.")
    return Continue(cursor.span(first).text, model, version, or_replace, given, query, stream)


def check_named(given: clauses.Clauses, stream: streams.Streamed | None) -> None:
    """Report unknown names and values out of range while parsing; the parent is known only when the statement runs."""
    if "USING" in given:
        clauses.algorithm(given["USING"].value)
    if "OPERATORS" in given:
        clauses.operators(given["OPERATORS"].value)
    streams.check_settings(stream, clauses.settings(given["WITH"].value if "WITH" in given else {}), given)
    if "WITH" in given and "base_rate" in given["WITH"].value:
        raise StatementError(
            f"{BASE_RATE} has no effect: CONTINUE keeps the intercept of its version. Leave it out.",
            given["WITH"].value["base_rate"].position,
            BASE_RATE,
        )


def carried(manifest: Manifest, validated: bool) -> dict[str, Value]:
    """Return the settings that a version hands on: all but the mean of labels that a new model begins with, its name, how it
    ended, what is said of a stream or of constants, and what is said of rows held out where none are."""
    own = (
        "base_rate",
        "once",
        "refit",
        "fit_rows",
        "cooldown",
        *streams.SETTINGS,
        *(() if validated else ("patience", "patience_by", "plateau", "held_out")),
    )
    return {name: value for name, value in written(manifest.settings).items() if name not in own}


def parse_explain(cursor: Cursor) -> ExplainContinue:
    return ExplainContinue(parse_continue(cursor), fast=False)


def parse_explain_fast(cursor: Cursor) -> ExplainContinue:
    return ExplainContinue(parse_continue(cursor), fast=True)


CONTINUE = Statement("CONTINUE", GRAMMAR, "Learn from more data: a new version of a model.", parse_continue)
EXPLAIN_CONTINUE = Statement(
    "EXPLAIN CONTINUE",
    "EXPLAIN CONTINUE MODEL ...",
    "Show what a CONTINUE would take, as EXPLAIN TRAIN does, without starting it.",
    parse_explain,
)
EXPLAIN_FAST_CONTINUE = Statement(
    "EXPLAIN FAST CONTINUE",
    "EXPLAIN FAST CONTINUE MODEL ...",
    "Show the same as EXPLAIN CONTINUE without learning from a sample: time and memory are estimated for usual rows.",
    parse_explain_fast,
)
