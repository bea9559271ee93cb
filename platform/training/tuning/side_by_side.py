"""Candidates of TUNE that learn side by side: which can, and the one training of them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from ....algorithms.population import ALIKE, POPULATION, TOGETHER, PopulationOptions
from ... import parts
from ...quoting import quoted
from ..clauses.label import LABEL
from ..clauses.validate import VALIDATE
from ..plan import Plan, Use
from .space import Candidate


def can_learn_together(plan: Plan, candidates: Sequence[Candidate], schema: pa.Schema) -> bool:
    """Return whether candidates can learn side by side: their parameters are rows, of one label that is a number."""
    differing = {name for one in candidates for name in one.options}
    labels = [name.lower() for name in plan.clause(LABEL).columns]
    label = next((field for field in schema if [field.name.lower()] == labels), None)
    return (
        plan.algorithm.name in TOGETHER
        and not differing & {*ALIKE}
        and plan.settings.task == "auto"
        and plan.settings.patience is None
        and not plan.settings.vectors
        and label is not None
        and not pa.types.is_string(label.type)
        and not any(use.on for use in plan.operators)
    )


def together(plan: Plan, use: Use, options: Sequence[Any], labels: Sequence[str]) -> Plan:
    """Return the plan of candidates side by side, each with a copy of the label; of one alone its own."""
    if not labels:
        return replace(plan, algorithm=use)
    label = quoted(labels[0])
    copies = ", ".join(f"{label} AS {quoted(name)}" for name in labels[1:])

    def copied(query: str) -> str:
        return f"SELECT *, {copies} FROM ({query})"

    validate = plan.clause(VALIDATE)
    if validate is not None and validate.query is not None:
        validate = replace(validate, query=copied(validate.query))
    population = Use(use.name, {}, PopulationOptions(parts.ALGORITHM.find(use.name, None), tuple(options)), part=POPULATION)
    plan = replace(plan, algorithm=population, query=copied(plan.query)).having(VALIDATE, validate)
    return plan.having(LABEL, replace(plan.clause(LABEL), columns=tuple(labels)))
