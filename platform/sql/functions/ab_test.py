"""ML.AB_TEST: the arms of an experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ...errors import StatementError
from ..base import Call, Keyword, Pending, TableFunction, column_of

if TYPE_CHECKING:
    from ..context import StatementContext
    from ..cursor import Cursor


def read_metric(cursor: Cursor) -> tuple[str, str | None]:
    metric = column_of(cursor)
    return metric, column_of(cursor) if cursor.accept("/") else None


def read_split(cursor: Cursor) -> dict[str, float]:
    """Read the planned share of each arm."""
    shares: dict[str, float] = {}
    for name, value in cursor.options().items():
        if isinstance(value.value, bool) or not isinstance(value.value, int | float) or value.value <= 0:
            raise StatementError("SPLIT expects the planned share of each arm, such as (a = 0.9, b = 0.1).", value.position)
        shares[name] = float(value.value)
    return shares


def run(context: StatementContext, call: Call) -> Pending:
    from ...decisions.ab_test import SCHEMA, Experiment, ExperimentColumns

    data, said = call.data, call.keywords
    assert data is not None  # required by the grammar
    metric, per = said["METRIC"]
    columns = ExperimentColumns(said["VARIANT"], said["UNIT"], metric, per, said.get("COVARIATE"))
    with data.locating():
        experiment = Experiment(context.engine, data.text, columns, str(said["CONTROL"]), said.get("SPLIT"))

    def measure() -> pa.Table:
        with data.locating():
            return experiment.measure(context.reporter)

    return Pending(SCHEMA, measure)


AB_TEST = TableFunction(
    "AB_TEST",
    "ML.AB_TEST(TABLE t | (query), VARIANT column, UNIT column, METRIC column [/ column], CONTROL arm [, COVARIATE column] "
    "[, SPLIT (arm = share, ...)])",
    "The arms of an experiment against its CONTROL, by units (users) whose rows are added up: variant, units, mean, lift with "
    "low and high, lift_relative with relative_low and relative_high, each of 95 %, p_value, variance_reduction, and srm_p, "
    "the probability that the arms' sizes differ so much by chance from SPLIT, or from equal ones. COVARIATE is a value "
    "of a unit from before the experiment, never from after: CUPED removes what it explains.",
    "required",
    (),
    run,
    model="none",
    keywords=(
        Keyword("VARIANT", column_of, required=True),
        Keyword("UNIT", column_of, required=True),
        Keyword("METRIC", read_metric, required=True),
        Keyword("CONTROL", lambda cursor: cursor.value(), required=True),
        Keyword("COVARIATE", column_of),
        Keyword("SPLIT", read_split),
    ),
)
