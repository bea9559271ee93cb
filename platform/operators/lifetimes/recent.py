"""Shows and clicks of each row that fade with time: what a feature has been worth lately."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp

from ...errors import Subject
from ...options import Part, option
from ..base import Column, Context, Operator, Rows, TableSpec
from ..duration import duration_seconds
from .feature_value import RECENT_CLICKS, RECENT_SHOWS


@dataclass(frozen=True)
class RecentOptions:
    """Options of recent."""

    half_life: str = option("7 days", "TIME after which a show or click counts half")


def recent(options: RecentOptions, table: TableSpec) -> Operator:
    """Halve shows and clicks per half_life of TIME; utility and information then use these.

    It changes no weight. admit, expire, ML.WEIGHTS and SHRINK MODEL use what it keeps. It adds 8 bytes to a row.

    Source: exponential forgetting as in Gama et al., "A Survey on Concept Drift Adaptation", ACM Computing Surveys 2014,
    section 3.1.
    """
    half_life_seconds = duration_seconds(options.half_life, Subject("OPERATORS", "recent", "half_life"))

    def read(rows: Rows, context: Context) -> Rows:
        factor = jnp.exp2(-context.age_seconds / half_life_seconds)[:, None]
        return {**rows, **{name: rows[name] * factor for name in (RECENT_SHOWS, RECENT_CLICKS)}}

    def after(old: Rows, new: Rows, context: Context) -> Rows:
        pushed = {RECENT_SHOWS: context.shows, RECENT_CLICKS: context.clicks}
        return {**new, **{name: old[name] + count[:, None].astype(jnp.float32) for name, count in pushed.items()}}

    columns = {RECENT_SHOWS: Column(1, merge="sum"), RECENT_CLICKS: Column(1, merge="sum")}
    return Operator(columns, after=after, read=read, name="recent", needs_time=True, counts=True)


RECENT = Part("recent", RecentOptions, recent)
