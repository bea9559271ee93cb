"""The value of a feature: definitions of its utility and its information.

    utility      ln(shows + 1) * size: how much a feature moves predictions, times how often, damped. `size` is |w|; of a
                 vector, its Euclidean norm.
    information  shows * KL(p || base), in nats: how far the feature's click rate p = (clicks + base) / (shows + 1), smoothed by
                 one example of the base rate, is from the base rate of all examples.
                 Source: S. Kullback, R. A. Leibler, On Information and Sufficiency, 1951.

Shows and clicks are the row's; where the operator `recent` keeps decayed ones, they are used. Admission and expiry
compute them on arrays, ML.WEIGHTS and SHRINK MODEL as SQL; both from the formulas below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

N = TypeVar("N", bound=Any)

RECENT_SHOWS, RECENT_CLICKS = "recent_shows", "recent_clicks"  # columns of the operator `recent`


def utility(shows: N, size: N, ln: Callable[[N], N]) -> N:
    """Return the utility, of arrays or as SQL."""
    found: N = ln(shows + 1.0) * size
    return found


def information(shows: N, clicks: N, base: N, ln: Callable[[N], N]) -> N:
    """Return the information, of arrays or as SQL; `base` lies strictly between 0 and 1."""
    clicked, passed = (clicks + base) / (shows + 1.0), (shows - clicks + (1.0 - base)) / (shows + 1.0)
    found: N = shows * (clicked * ln(clicked / base) + passed * ln(passed / (1.0 - base)))
    return found


class Sql(NamedTuple):
    """An expression of Spark SQL, of type DOUBLE, that formulas can be computed with."""

    text: str

    def __add__(self, other: Any) -> Sql:
        return self._with("+", other)

    def __sub__(self, other: Any) -> Sql:
        return self._with("-", other)

    def __rsub__(self, other: Any) -> Sql:
        return as_sql(other)._with("-", self)

    def __mul__(self, other: Any) -> Sql:
        return self._with("*", other)

    def __truediv__(self, other: Any) -> Sql:
        return self._with("/", other)

    def _with(self, sign: str, other: Any) -> Sql:
        return Sql(f"({self.text} {sign} {as_sql(other).text})")


def as_sql(value: Any) -> Sql:
    """Return a number as SQL; SQL as it is."""
    return value if isinstance(value, Sql) else Sql(f"{float(value)!r}D")


def sql_ln(value: Sql) -> Sql:
    """Return the natural logarithm."""
    return Sql(f"ln({value.text})")
