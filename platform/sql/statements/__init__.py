"""Our statements, one file each. Every file makes one or more `Statement`; STATEMENTS lists them all."""

from __future__ import annotations

from ..base import Statement
from .continue_model import CONTINUE, EXPLAIN_CONTINUE
from .listing import DESCRIBE_ALGORITHM, DESCRIBE_OPERATOR, DESCRIBE_TRAIN, SHOW_ALGORITHMS, SHOW_OPERATORS
from .resume import RESUME
from .train import EXPLAIN_TRAIN, TRAIN

STATEMENTS: tuple[Statement, ...] = (
    TRAIN,
    CONTINUE,
    RESUME,
    EXPLAIN_TRAIN,
    EXPLAIN_CONTINUE,
    SHOW_ALGORITHMS,
    SHOW_OPERATORS,
    DESCRIBE_ALGORITHM,
    DESCRIBE_OPERATOR,
    DESCRIBE_TRAIN,
)
