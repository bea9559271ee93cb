"""The clauses of TRAIN and CONTINUE, between the model's name and AS, in any order: read, placed and checked.

What a clause is, its record in `platform/training/clauses/` says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .. import parts
from ..engines.spark_sql.passage import Passage
from ..engines.targets import check_place
from ..errors import OptionError, Position, StatementError, Subject
from ..input.roles import SHARE, VECTORS
from ..options import Value, parse
from ..registry import NEEDED, OPTIONAL, TAKEN
from ..training.clauses import CLAUSES
from ..training.clauses.base import AnyClause, Values
from ..training.clauses.evaluate import EVALUATE
from ..training.clauses.label import LABEL, Labels
from ..training.clauses.release import RELEASE
from ..training.clauses.settings import Settings
from ..training.clauses.using import Given
from ..training.clauses.validate import VALIDATE
from ..training.metrics import metric_names
from ..training.metrics.gate import DRIFT_MAX, OF_SLOT, VALIDATION
from ..training.plan import Use
from .cursor import Cursor

Clauses = Mapping[str, Value]
"""Clause -> the reader's result and the position of the clause."""


def grammar() -> str:
    """Return the grammar of all clauses but USING."""
    others = [f"[{clause} {clause.grammar}]" for clause in CLAUSES if clause.name != "USING"]
    return "\n  ".join(others) + "\nAS query"


GRAMMAR = grammar()


def clause_named(word: str) -> AnyClause:
    """Return the clause that begins with a word of CLAUSES."""
    found = CLAUSES.find(word)
    assert found is not None
    return found


def read_clauses(cursor: Cursor) -> Clauses:
    """Read clauses up to AS, which is read too.

    Raises:
        StatementError: a word that is not a clause, or a clause given twice.
    """
    clauses: dict[str, Value] = {}
    while not cursor.accept("AS"):
        word = next((word for word in CLAUSES.names if cursor.peek(word)), None)
        if word is None:
            raise cursor.expected("a clause or AS query", (*CLAUSES.names, "AS"))
        if word in clauses:
            raise cursor.error(f"The clause {word} is given twice.")
        first = cursor.index
        cursor.expect(word)
        value = clause_named(word).read(cursor)
        clauses[word] = Value(value, cursor.span(first))
    return clauses


def values_of(given: Clauses) -> dict[str, object]:
    """Return the values that clauses have in a plan."""
    found = ((clause_named(word), one.value) for word, one in given.items())
    return {clause.name: clause.value(read) for clause, read in found if clause.value is not None}


def check_release(values: Values, given: Clauses) -> None:
    """Refuse RELEASE WHEN without a clause that provides the metrics that it judges.

    Args:
        values: of the training, inherited ones included.

    Raises:
        StatementError: there is no EVALUATE EVERY, or no VALIDATE.
    """
    release, validated = RELEASE.of(values), VALIDATE.of(values) is not None
    if release is None:
        return
    own = (*OF_SLOT, DRIFT_MAX)
    names = [str(leaf.value) for leaf in release.tree.leaves() if leaf.kind == "metric" or leaf.value in own]
    held_out = any(name.startswith(VALIDATION) for name in names)
    of_rows = bool(names) and all(name in own for name in names)
    position = given[RELEASE.name].position if RELEASE.name in given else None
    if held_out and not validated:
        raise StatementError("RELEASE WHEN needs VALIDATE ON: it judges metrics of the validation rows. Add it.", position)
    of_windows = {"examples", *metric_names(grouped=True)}.intersection(names)
    if EVALUATE.of(values) is None and not of_rows and (of_windows or not validated):
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
        if subject.part is None or subject.part.lower() == use.name.value.lower():
            whole = clause if subject.part is None else use.name
            return use.options.get(subject.option or "", whole).position
    options = clause.value if isinstance(clause.value, Mapping) else {}
    return options.get(subject.option or "", clause).position if subject.part is None else None


def uses_of(value: Any) -> tuple[Given, ...]:
    """Return the parts that a clause uses."""
    value = getattr(value, "uses", value)
    return (value,) if isinstance(value, Given) else value if isinstance(value, tuple) and isinstance(value[0], Given) else ()


def algorithm(given: Given) -> Use:
    """Return the algorithm that USING names, its options checked."""
    return use(parts.ALGORITHM, given)


def labelled(algorithm: Use, values: Values, given: Clauses) -> Values:
    """Return the values of clauses with the labels that an algorithm learns from.

    Raises:
        StatementError: it learns from none, and LABEL names one; or from what was taken, and it names more than one.
    """
    takes = parts.ALGORITHM.find(algorithm.name, None).takes.labels
    if takes == NEEDED or (takes == OPTIONAL and LABEL.name in given):
        return values
    if LABEL.name not in given:
        return {LABEL.name: Labels(()), **values}
    position, subject = given[LABEL.name].position, LABEL.subject
    if takes != TAKEN:
        raise StatementError(f"{LABEL} has no effect: {algorithm.name} learns without labels. Leave it out.", position, subject)
    labels = LABEL.of(values)
    label, *more = labels.columns
    if more or labels.late:
        raise StatementError(
            f"{LABEL} names the column whose 1 says that a row was taken, one for {algorithm.name}, and not LATE.",
            position,
            subject,
        )
    return {**values, LABEL.name: Labels((), positive=label)}


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
