"""The clauses of TRAIN and CONTINUE, between the model's name and AS; in any order, each at most once.

A new clause is a reader below and a line in CLAUSES.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from .. import parts
from ..engines.spark_sql.passage import Passage
from ..engines.targets import check_place
from ..errors import OptionError, Position, StatementError, Subject
from ..input.roles import LABEL, SHARE, VECTORS
from ..options import Value, parse
from ..training.metrics import metric_names
from ..training.metrics.evaluate import Evaluate
from ..training.metrics.gate import VALIDATION, Condition
from ..training.metrics.validate import Validate
from ..training.plan import Settings, Use
from ..training.resident.publish import Publish
from .crosses import given_terms, read_crosses
from .cursor import Cursor
from .query import read_rows
from .release import read_condition
from .transform import read_transform
from .tuning import read_tune

NAME = re.compile(r"[a-z0-9_]+")

GRAMMAR = """\
[LABEL column [LATE] | LABEL column, column [, ...]]
  [WEIGHT column] [TIME column] [GROUP column] [IGNORE ([column, ...])]
  [CROSS ({slot * slot [* ...] | (slot, ...) ^ n | * ^ n}, ...)]
  [VECTORS name AS (query) [, name AS (query) ...]] [ITEMS {TABLE t | (query)}]
  [TRANSFORM ({expression AS name | column | * [EXCEPT (column, ...)]}, ...)]
  [OPERATORS (operator [(option = value, ...)] [ON {table | dense | (table, ...)}], ...)]
  [EVALUATE EVERY m BATCHES ON n BATCHES [BY column]]
  [TUNE BY metric TRIALS n [METHOD {random | grid | halving}]]
  [VALIDATE ON {share | LAST share | (query)}]
  [RELEASE WHEN condition]
  [PUBLISH EVERY n {MINUTES | SECONDS | EXAMPLES}] [RETAIN LAST n]
  [WITH (option = value, ...)]
AS query"""


class Given(NamedTuple):
    """A part as written: its name with its place, its options, and what an operator acts on, nothing for all."""

    name: Value
    options: dict[str, Value]
    on: tuple[str, ...] = ()


Clauses = Mapping[str, Value]
"""Clause -> the reader's result and the position of the clause."""


def read_clauses(cursor: Cursor) -> Clauses:
    """Read clauses up to AS, which is read too.

    Raises:
        StatementError: a word that is not a clause, or a clause given twice.
    """
    clauses: dict[str, Value] = {}
    while not cursor.accept("AS"):
        word = next((word for word in CLAUSES if cursor.peek(word)), None)
        if word is None:
            raise cursor.expected("a clause or AS query", (*CLAUSES, "AS"))
        if word in clauses:
            raise cursor.error(f"The clause {word} is given twice.")
        first = cursor.index
        cursor.expect(word)
        value = CLAUSES[word](cursor)
        clauses[word] = Value(value, cursor.span(first))
    return clauses


def read_using(cursor: Cursor) -> Given:
    return read_part(cursor, "an algorithm")


def read_operators(cursor: Cursor) -> tuple[Given, ...]:
    cursor.expect("(")
    operators = cursor.listed(lambda: read_operator(cursor))
    cursor.expect(")")
    return operators


def read_operator(cursor: Cursor) -> Given:
    given = read_part(cursor, "an operator")
    if not cursor.accept("ON"):
        return given
    if not cursor.accept("("):
        return given._replace(on=(cursor.identifier("a table, dense, or (table, ...)"),))
    on = cursor.columns("a table, or dense")
    cursor.expect(")")
    return given._replace(on=on)


def read_part(cursor: Cursor, what: str) -> Given:
    position = cursor.position()
    name = Value(cursor.identifier(what), position)
    return Given(name, cursor.options() if cursor.peek("(") else {})


def read_columns(cursor: Cursor) -> tuple[str, ...]:
    return cursor.columns("a column")


def read_column(cursor: Cursor) -> str:
    return cursor.identifier("a column")


def read_ignored(cursor: Cursor) -> tuple[str, ...]:
    cursor.expect("(")
    columns = () if cursor.peek(")") else cursor.columns("a column")
    cursor.expect(")")
    return columns


def read_vectors(cursor: Cursor) -> Mapping[str, str]:
    vectors: dict[str, str] = {}
    for name, query in cursor.listed(lambda: read_vectors_query(cursor)):
        if name in vectors:
            raise cursor.error(f"VECTORS names {name} twice.")
        vectors[name] = query
    return vectors


def read_vectors_query(cursor: Cursor) -> tuple[str, str]:
    position = cursor.position()
    name = cursor.identifier("a name of vectors").lower()
    if not NAME.fullmatch(name):
        raise StatementError(f"VECTORS expects a name of letters, digits and _, got {name!r}.", position)
    cursor.expect("AS")
    if not cursor.peek("("):
        raise cursor.expected("(query)")
    return name, cursor.parenthesised().text


def read_evaluate(cursor: Cursor) -> Evaluate:
    cursor.expect("EVERY")
    every = read_batches(cursor)
    cursor.expect("BATCHES", "ON")
    on = read_batches(cursor)
    cursor.expect("BATCHES")
    return Evaluate(every, on, cursor.identifier("a column") if cursor.accept("BY") else None)


def read_batches(cursor: Cursor) -> int:
    position = cursor.position()
    batches = cursor.integer("a number of batches")
    if not batches:
        raise StatementError("EVALUATE EVERY m BATCHES ON n BATCHES expects at least 1 for m and n.", position)
    return batches


def read_validate(cursor: Cursor) -> Validate:
    cursor.expect("ON")
    if cursor.peek("("):
        return Validate(None, False, cursor.parenthesised().text)
    last, position = cursor.accept("LAST"), cursor.position()
    if cursor.next_kind != "number":
        raise cursor.expected("a share of the rows between 0 and 1, LAST share, or (query)")
    share = float(cursor.number())
    if not 0 < share < 1:
        raise StatementError(f"VALIDATE ON expects a share of the rows between 0 and 1, got {share:g}.", position)
    return Validate(share, last, None)


def read_release(cursor: Cursor) -> Condition:
    cursor.expect("WHEN")
    return read_condition(cursor)


def read_publish(cursor: Cursor) -> Publish:
    cursor.expect("EVERY")
    number = read_positive(cursor, "PUBLISH EVERY", "a number of minutes, seconds or examples")
    for unit, seconds in (("MINUTE", 60.0), ("SECOND", 1.0)):
        if cursor.accept(f"{unit}S") or (number == 1 and cursor.accept(unit)):
            return Publish(number * seconds, None)
    if cursor.accept("EXAMPLES"):
        return Publish(None, number)
    raise cursor.expected("MINUTES, SECONDS or EXAMPLES")


def read_retain(cursor: Cursor) -> int:
    cursor.expect("LAST")
    return read_positive(cursor, "RETAIN LAST", "a number of versions")


def read_positive(cursor: Cursor, clause: str, what: str) -> int:
    position = cursor.position()
    number = cursor.integer(what)
    if not number:
        raise StatementError(f"{clause} expects {what} of at least 1.", position)
    return number


CLAUSES: Mapping[str, Callable[[Cursor], Any]] = {
    "USING": read_using,
    "LABEL": read_columns,
    "LATE": lambda cursor: True,
    "WEIGHT": read_column,
    "TIME": read_column,
    "GROUP": read_column,
    "IGNORE": read_ignored,
    "CROSS": read_crosses,
    "VECTORS": read_vectors,
    "ITEMS": lambda cursor: read_rows(cursor).passage.text,
    "TRANSFORM": read_transform,
    "OPERATORS": read_operators,
    "EVALUATE": read_evaluate,
    "TUNE": read_tune,
    "VALIDATE": read_validate,
    "RELEASE": read_release,
    "PUBLISH": read_publish,
    "RETAIN": read_retain,
    "WITH": Cursor.options,
}

JUDGED = {"EVALUATE": "evaluate", "VALIDATE": "validate", "RELEASE": "release"}
"""Clauses that judge a training, with the plan's field of each."""

PUBLISHED = {"PUBLISH": "publish", "RETAIN": "retain"}
"""Clauses that control when versions are published and dropped, with the plan's field of each; CONTINUE does not inherit
them."""

ROLES = {"LABEL": "labels", "LATE": "late", "WEIGHT": "weight", "TIME": "time", "GROUP": "group", "IGNORE": "ignore"}
"""Clauses that give columns a role, with the plan's field of each."""


def check_release(release: Condition | None, evaluated: bool, validated: bool, clauses: Clauses) -> None:
    """Refuse RELEASE WHEN without a clause that provides the metrics that it judges.

    Args:
        release: the condition that the training would have.

    Raises:
        StatementError: there is no EVALUATE EVERY, or no VALIDATE.
    """
    if release is None:
        return
    names = [str(leaf.value) for leaf in release.tree.leaves() if leaf.kind == "metric"]
    held_out = any(name.startswith(VALIDATION) for name in names)
    position = clauses["RELEASE"].position if "RELEASE" in clauses else None
    if held_out and not validated:
        raise StatementError("RELEASE WHEN needs VALIDATE ON: it judges metrics of the validation rows. Add it.", position)
    of_windows = {"examples", *metric_names(grouped=True)}.intersection(names)
    if not evaluated and (of_windows or not validated):
        either = "Add it, or judge validation.auc or the like" if validated else "Add it"
        raise StatementError(f"RELEASE WHEN needs EVALUATE EVERY: it judges the metrics of its windows. {either}.", position)


@contextmanager
def placing(given: Clauses, query: Passage | None) -> Iterator[None]:
    """Place errors in the script: at their subject, or inside the query; None: positions are the script's."""
    try:
        yield
    except StatementError as error:
        place = place_of(error.subject, given) if error.position is None and error.subject is not None else None
        raise error.at(place or (query.restated(error.position) if query else error.position)) from error.__cause__


def place_of(subject: Subject, given: Clauses) -> Position | None:
    """Return the position of a subject: of its option, else its part, else its clause; None where the statement has none of
    them."""
    clause = given.get(subject.clause)
    if clause is None:
        return None
    for use in uses_of(clause.value):
        if subject.part in (None, use.name.value.lower()):
            whole = clause if subject.part is None else use.name
            return use.options.get(subject.option or "", whole).position
    options = clause.value if isinstance(clause.value, Mapping) else {}
    return options.get(subject.option or "", clause).position if subject.part is None else None


def uses_of(value: Any) -> tuple[Given, ...]:
    """Return the parts that a clause uses."""
    return (value,) if isinstance(value, Given) else value if isinstance(value, tuple) and isinstance(value[0], Given) else ()


def algorithm(given: Given) -> Use:
    """Return the algorithm that USING names, its options checked."""
    return use(parts.ALGORITHM, given)


def without_labels(algorithm: Use, given: Clauses) -> dict[str, Any]:
    """Return the labels of an algorithm that learns without labels, as fields of a plan; nothing for others.

    Raises:
        StatementError: it learns from none, and LABEL names one; or from what was taken, and it names more than one.
    """
    from ...algorithms.base import Positive, Unlabelled  # JAX takes long to load, and few statements name an algorithm

    part = parts.ALGORITHM.find(algorithm.name, None)
    if not isinstance(part, Unlabelled):
        return {}
    if "LABEL" not in given:
        return {"labels": ()}
    if not isinstance(part, Positive):
        raise StatementError(
            f"{LABEL} has no effect: {algorithm.name} learns without labels. Leave it out.", given["LABEL"].position, LABEL
        )
    label, *more = given["LABEL"].value
    if more or "LATE" in given:
        raise StatementError(
            f"{LABEL} names the column whose 1 says that a row was taken, one for {algorithm.name}, and not LATE.",
            given["LABEL"].position,
            LABEL,
        )
    return {"labels": (), "late": False, "positive": label}


def operators(given: tuple[Given, ...]) -> tuple[Use, ...]:
    """Return the operators of OPERATORS, their options checked."""
    return tuple(use(parts.OPERATOR, operator) for operator in given)


def use(kind: parts.PartKind, given: Given) -> Use:
    part = kind.find(given.name.value, given.name.position)
    options = dict(part.read(given.options))
    values = {name: value.value for name, value in options.items()}
    return Use(part.name, values, kind.options(part, options), tuple(name.lower() for name in given.on))


def settings(given: Mapping[str, Value]) -> Settings:
    """Return the settings of WITH, checked and with defaults filled in."""
    settings = parse(Settings, given, Subject("WITH"))
    share, vectors = "pairs of slots: share = (history AS item)", "slots and vectors: vectors = (image IN images)"
    for subject, pairs, example in ((SHARE, settings.share, share), (VECTORS, settings.vectors, vectors)):
        if not all(isinstance(pair, tuple) and [*map(type, pair)] == [str, str] for pair in pairs):
            raise OptionError(f"{subject} expects {example}.", given[subject.option or ""].position, subject)
    if (place := given.get("checkpoint_path")) is not None and place.position is not None:
        check_place(str(place.value), "The place of checkpoint_path", place.position)
    return settings


def roles(given: Clauses) -> dict[str, Any]:
    """Return the roles of columns, the crosses and the evaluation that the clauses give, as fields of a plan."""
    fields = ROLES | JUDGED | PUBLISHED
    crosses = {"crosses": given_terms(given["CROSS"])} if "CROSS" in given else {}
    crosses |= {word.lower(): given[word].value for word in ("VECTORS", "ITEMS") if word in given}
    said = {fields[word]: clause.value for word, clause in given.items() if word in fields}
    return {**({"late": False} if "LABEL" in given else {}), **said, **crosses}
