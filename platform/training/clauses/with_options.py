"""WITH: settings of the training. Its value is the plan's settings, and a manifest keeps them as such."""

from __future__ import annotations

from ...engines.spark_sql.cursor import Cursor
from .base import Clause

WITH = Clause("WITH", "(option = value, ...)", "Settings of the training, below.", Cursor.options, None)
