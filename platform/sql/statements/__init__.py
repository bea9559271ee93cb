"""Our statements, one file each. Every file makes one or more `Statement`; STATEMENTS lists them all."""

from __future__ import annotations

from ..base import Statement
from .alter_model import ALTER_MODEL
from .check_model import CHECK_MODEL
from .continue_model import CONTINUE, EXPLAIN_CONTINUE
from .describe_model import DESCRIBE_MODEL
from .drop_model import DROP_MODEL
from .export_model import EXPORT_MODEL
from .listing import DESCRIBE_ALGORITHM, DESCRIBE_OPERATOR, DESCRIBE_TRAIN, SHOW_ALGORITHMS, SHOW_OPERATORS
from .resume import RESUME
from .show_models import SHOW_MODELS
from .show_train_model import SHOW_TRAIN_MODEL
from .show_versions import SHOW_VERSIONS
from .shrink_model import SHRINK_MODEL
from .stop_model import STOP_MODEL
from .train import EXPLAIN_TRAIN, TRAIN

STATEMENTS: tuple[Statement, ...] = (
    TRAIN,
    CONTINUE,
    RESUME,
    STOP_MODEL,
    EXPLAIN_TRAIN,
    EXPLAIN_CONTINUE,
    SHOW_ALGORITHMS,
    SHOW_OPERATORS,
    DESCRIBE_ALGORITHM,
    DESCRIBE_OPERATOR,
    DESCRIBE_TRAIN,
    SHOW_MODELS,
    SHOW_VERSIONS,
    DESCRIBE_MODEL,
    SHOW_TRAIN_MODEL,
    CHECK_MODEL,
    ALTER_MODEL,
    DROP_MODEL,
    SHRINK_MODEL,
    EXPORT_MODEL,
)
