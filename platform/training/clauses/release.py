"""The conditions of RELEASE WHEN: comparisons of metrics, combined by AND, OR and NOT.

condition  = conjunction {OR conjunction}
conjunction = test {AND test}
test       = NOT test | ( condition ) | sum (< | <= | > | >= | = | <> | !=) sum | sum [NOT] BETWEEN sum AND sum
sum        = product {(+ | -) product};   product = term {(* | /) term}
term       = number | - term | [PREVIOUS .] metric | ( sum );   metric = [VALIDATION . | RAW .] name [( label )]
           | {FIELD_CE | FIELD_RCE} ( column ) | {DRIFT | NULL_SHARE | NEW_SHARE} ( slot ) | DRIFT . MAX
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...engines.spark_sql.cursor import Cursor
from ...errors import StatementError, suggestion
from ..metrics import metric_names
from ..metrics.gate import DRIFT, DRIFT_MAX, GAINS, NULL_SHARE, OF_FIELD, OF_RAW, OF_SLOT, RAW, VALIDATION, Condition, Node
from .base import Clause, always, of_type, same

SIGNS = (("<", "="), (">", "="), ("<", ">"), ("!", "="), ("<",), (">",), ("=",))
OF_TRAINING = ("examples", "features", "violations", "max_weight", "min_weight", "max_abs_weight", "examples_per_second")
"""Numbers that can be judged beside the metrics of labels."""


def read_condition(cursor: Cursor) -> Condition:
    """Read a condition.

    Raises:
        StatementError: it is not a condition, or names an unknown metric.
    """
    first = cursor.index
    tree = condition(cursor)
    return Condition(cursor.span(first).text, tree)


def condition(cursor: Cursor) -> Node:
    parts = [conjunction(cursor)]
    while cursor.accept("OR"):
        parts.append(conjunction(cursor))
    return parts[0] if len(parts) == 1 else Node("or", parts=tuple(parts))


def conjunction(cursor: Cursor) -> Node:
    parts = [test(cursor)]
    while cursor.accept("AND"):
        parts.append(test(cursor))
    return parts[0] if len(parts) == 1 else Node("and", parts=tuple(parts))


def test(cursor: Cursor) -> Node:
    if cursor.accept("NOT"):
        return Node("not", parts=(test(cursor),))
    if cursor.peek("(") and not opens_sum(cursor):
        cursor.expect("(")
        inner = condition(cursor)
        cursor.expect(")")
        return inner
    left = total(cursor)
    turned = cursor.accept("NOT", "BETWEEN")
    if turned or cursor.accept("BETWEEN"):
        low = total(cursor)
        cursor.expect("AND")
        between = Node("and", parts=(Node(">=", parts=(left, low)), Node("<=", parts=(left, total(cursor)))))
        return Node("not", parts=(between,)) if turned else between
    signs = next((signs for signs in SIGNS if cursor.accept(*signs)), None)
    if signs is None:
        raise cursor.expected("a comparison (<, <=, >, >=, =, <>, BETWEEN)")
    sign = "<>" if signs == ("!", "=") else "".join(signs)
    return Node(sign, parts=(left, total(cursor)))


def opens_sum(cursor: Cursor) -> bool:
    """Return whether the parenthesis here holds a sum: what follows its end compares or computes."""
    after = cursor.closing() + 1
    symbols = {"<", ">", "=", "!", "+", "-", "*", "/", "BETWEEN", "NOT"}
    return after < len(cursor.tokens) and cursor.tokens[after].text.upper() in symbols


def total(cursor: Cursor) -> Node:
    found = product(cursor)
    while (sign := sign_of(cursor, "+", "-")) is not None:
        found = Node(sign, parts=(found, product(cursor)))
    return found


def product(cursor: Cursor) -> Node:
    found = term(cursor)
    while (sign := sign_of(cursor, "*", "/")) is not None:
        found = Node(sign, parts=(found, term(cursor)))
    return found


def sign_of(cursor: Cursor, *signs: str) -> str | None:
    return next((sign for sign in signs if cursor.accept(sign)), None)


def term(cursor: Cursor) -> Node:
    if cursor.accept("-"):
        return Node("-", parts=(Node("number", 0.0), term(cursor)))
    if cursor.accept("("):
        found = total(cursor)
        cursor.expect(")")
        return found
    if cursor.next_kind == "number":
        return Node("number", float(cursor.number()))
    if cursor.accept("previous", "."):
        return metric(cursor, "previous")
    return metric(cursor, "metric")


def metric(cursor: Cursor, kind: str) -> Node:
    first, measured = cursor.index, metric_names(grouped=True)
    if cursor.accept(RAW[:-1], "."):
        return raw(cursor, kind)
    if kind == "metric" and cursor.accept(*DRIFT_MAX.partition(".")):
        return Node("previous", DRIFT_MAX)
    if kind == "metric" and cursor.accept(DRIFT, "."):
        raise cursor.expected("max, as in drift.max, or a slot, as in drift(user)")
    validation = cursor.accept("validation", ".")
    of_rows = OF_SLOT if kind == "metric" else ()
    others = ("examples", *GAINS) if validation else (*OF_TRAINING, *OF_FIELD, *of_rows)
    name = cursor.identifier("a metric").lower()
    if name not in (*measured, *others):
        cursor.index = first
        raise cursor.error(f"There is no metric {name!r}.{suggestion(name, (*measured, *others))}")
    called = f"{VALIDATION}{name}" if validation else name
    if name in OF_SLOT:
        return Node("metric" if name == NULL_SHARE else "previous", name, label=named_in(cursor, "a slot"))
    if name in OF_FIELD:
        return Node(kind, called, label=named_in(cursor, "the column of EVALUATE's BY"))
    if not cursor.peek("("):
        return Node(kind, called)
    if name not in measured:
        raise cursor.error(f"{name} does not belong to a label. Write {name} without a label.")
    return Node(kind, called, label=named_in(cursor, "a label"))


def raw(cursor: Cursor, kind: str) -> Node:
    """Read a metric of predictions before they are calibrated, after the prefix."""
    name = cursor.identifier("a metric").lower()
    if name not in OF_RAW:
        cursor.index -= 1
        raise cursor.error(f"Of predictions before they are calibrated there are {' and '.join(OF_RAW)}, not {name!r}.")
    return Node(kind, f"{RAW}{name}", label=named_in(cursor, "a label") if cursor.peek("(") else None)


def named_in(cursor: Cursor, what: str) -> str:
    """Read a name in parentheses."""
    cursor.expect("(")
    name = cursor.identifier(what)
    cursor.expect(")")
    return name


def read(cursor: Cursor) -> Condition | None:
    cursor.expect("WHEN")
    return read_condition(cursor)


def text(condition: Condition | None) -> str | None:
    return None if condition is None else condition.text


def of_text(value: Any) -> Condition:
    """Return the condition that a manifest keeps.

    Raises:
        ValueError: it is none.
    """
    try:
        cursor = Cursor.of(of_type(str)(value))
        found = read_condition(cursor)
        cursor.done()
    except StatementError as error:
        raise ValueError(error.message) from error
    return found


def shown(condition: Condition | None) -> Iterator[tuple[str, str | None]]:
    yield "release when", text(condition)


RELEASE = Clause(
    "RELEASE",
    "WHEN condition",
    "The release gate, which decides whether a version may be served: a condition on the metrics over all windows of the "
    "first pass, such as `auc > 0.7 AND pcopc BETWEEN 0.9 AND 1.1`, and on the metrics of the served version, `auc > "
    "previous.auc`. If it is false, the version is `held` and the statement fails. `auc` is the first label's, `auc(buy)` "
    "the one of label `buy`, `validation.auc` the one of VALIDATE's rows; `validation.gain_low` the "
    "least that the model would earn on them, if VALIDATE's query gives requests that a service decided "
    "([decisions.md](decisions.md)); `raw.pcopc` and `raw.ece` are of predictions "
    "before CALIBRATE, of all rows of the first pass; `field_ce(c)` and `field_rce(c)` of the values of EVALUATE's column; "
    "`drift.max`, `drift(slot)`, `new_share(slot)` and `null_share(slot)` compare the rows learned with those of the served "
    f"version ([monitoring.md](monitoring.md)). Metrics: {', '.join((*metric_names(grouped=True), *OF_TRAINING))}.",
    read,
    None,
    same,
    text,
    of_text,
    always,
    shown,
)
