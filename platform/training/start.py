"""The start of a training: the engine analyses its query while JAX is loaded; each takes some tenths of a second."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow as pa

from ..engines.base import Engine
from ..stacks import roomy
from .clauses.publish import PUBLISH
from .plan import Plan
from .trial import NO_TRIAL, Trial

if TYPE_CHECKING:
    from ...warehouse.models import Models
    from ..progress import Reporter


def train(plan: Plan, engine: Engine, models: Models, reporter: Reporter, trial: Trial = NO_TRIAL) -> pa.Table:
    """Run a training statement; returns the result of train.train."""
    if plan.stream is not None:
        from .streaming import train_stream

        return train_stream(plan, plan.stream, engine, models, reporter)
    with ThreadPoolExecutor(1, thread_name_prefix="xpsql-scan") as pool:
        found = pool.submit(roomy(engine.scan), plan.query)
        from . import train

        return train.train(plan, found.result(), engine, models, reporter, None, trial=trial)


def resume(plan: Plan, engine: Engine, models: Models, reporter: Reporter) -> pa.Table:
    """Resume an interrupted training; returns the result of train.resume or staying.reside_again."""
    if plan.clause(PUBLISH) is not None:
        from .resident.staying import reside_again

        return reside_again(plan, engine, models, reporter)
    from . import train

    return train.resume(plan, engine, models, reporter)
