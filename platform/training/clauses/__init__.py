"""Clauses of TRAIN and CONTINUE: a record each, from which all else derives. A clause is a file and a line in CLAUSES."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...registry import Registry

if TYPE_CHECKING:
    from .base import AnyClause

CLAUSES: Registry[AnyClause] = Registry(
    __name__,
    {
        "USING": "using.USING",
        "LABEL": "label.LABEL",
        "SOURCE": "column_roles.EDGE_SOURCE",
        "TARGET": "column_roles.EDGE_TARGET",
        "WEIGHT": "weight.WEIGHT",
        "TIME": "column_roles.TIME",
        "GROUP": "column_roles.GROUP",
        "IGNORE": "column_roles.IGNORE",
        "CROSS": "cross.CROSS",
        "VECTORS": "vectors.VECTORS",
        "ITEMS": "items.ITEMS",
        "TRANSFORM": "transform.TRANSFORM",
        "OPERATORS": "using.OPERATORS",
        "APPLY": "apply.APPLY",
        "EVALUATE": "evaluate.EVALUATE",
        "CALIBRATE": "calibrate.CALIBRATE",
        "TUNE": "tune.TUNE",
        "BUDGET": "budget.BUDGET",
        "VALIDATE": "validate.VALIDATE",
        "RELEASE": "release.RELEASE",
        "PUBLISH": "publish.PUBLISH",
        "RETAIN": "publish.RETAIN",
        "WITH": "with_options.WITH",
    },
)
