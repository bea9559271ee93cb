"""ML.AB_TEST: arms of an experiment against its control, by one aggregate query over units."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from ..engines.base import Engine
from ..errors import DataError, StatementError, Subject, suggestion
from ..input.slot_types import require_number
from ..quoting import quoted

if TYPE_CHECKING:
    from ..progress import Reporter

ALPHA = 0.05
MISMATCH = 0.001
"""Below it the sizes of arms are not what was planned, and nothing else can be believed."""
NUMBERS = (
    "mean",
    "lift",
    "low",
    "high",
    "lift_relative",
    "relative_low",
    "relative_high",
    "p_value",
    "variance_reduction",
    "srm_p",
)
SCHEMA = pa.schema([("variant", pa.string()), ("units", pa.int64()), *((name, pa.float64()) for name in NUMBERS)])
PAIRS = ("yy", "dd", "xx", "yd", "xy", "xd")
PEEKING = (
    "The intervals hold for one look at a planned number of units: who looks again and again, and stops at the first p_value "
    "below 0.05, finds differences where there are none."
)


class ExperimentColumns(NamedTuple):
    """The columns of an experiment; `per` is the denominator of a ratio, `covariate` was known before it."""

    variant: str
    unit: str
    metric: str
    per: str | None
    covariate: str | None


@dataclass(frozen=True)
class ArmMoments:
    """What is known of an arm's units: means, variances and covariances of metric y, denominator d and covariate x."""

    units: int
    y: float
    d: float
    x: float
    yy: float
    dd: float
    xx: float
    yd: float
    xy: float
    xd: float


@dataclass(frozen=True)
class Arm:
    """An arm: its mean, and what one unit adds to it: its variance, the covariate's, and their covariance.

    The mean of a ratio is linearised: a unit adds (y - R d) / mean(d), by the delta method.

    Source: Deng, Knoblich and Lu, "Applying the Delta Method in Metric Analytics", KDD 2018.
    """

    units: int
    mean: float
    variance: float
    x: float
    xx: float
    xz: float

    @classmethod
    def of(cls, moments: ArmMoments) -> Arm:
        """Return an arm of its moments; the denominator is 1 where the metric is none of a ratio."""
        m = moments
        ratio = m.y / m.d
        variance = (m.yy - 2 * ratio * m.yd + ratio**2 * m.dd) / m.d**2
        return cls(m.units, ratio, max(variance, 0.0), m.x, m.xx, (m.xy - ratio * m.xd) / m.d)

    def adjusted(self, theta: float, x: float) -> Arm:
        """Return it less what the covariate says of it: CUPED.

        Source: Deng, Xu, Kohavi and Walker, "Improving the Sensitivity of Online Controlled Experiments by Utilizing
        Pre-Experiment Data", WSDM 2013.

        Args:
            x: the mean of the covariate over all arms.
        """
        variance = self.variance + theta**2 * self.xx - 2 * theta * self.xz
        return Arm(self.units, self.mean - theta * (self.x - x), max(variance, 0.0), self.x, self.xx, 0.0)

    @property
    def squared_error(self) -> float:
        return self.variance / self.units


class Experiment:
    """An experiment, checked and to be measured.

    Args:
        control: the arm that others are compared with.
        split: the planned share of each arm, in lower case; None: all alike.

    Raises:
        StatementError: the query cannot run or lacks a column, or what is measured is no number.
    """

    def __init__(
        self, engine: Engine, query: str, columns: ExperimentColumns, control: str, split: Mapping[str, float] | None
    ) -> None:
        schema = engine.schema(query)
        fields = {field.name.lower(): field for field in schema}
        for name in filter(None, columns):
            if name.lower() not in fields:
                raise StatementError(f"The query returns no column {name}.{suggestion(name, schema.names)}")
        for word, number in (("METRIC", columns.metric), ("METRIC", columns.per), ("COVARIATE", columns.covariate)):
            if number is not None:
                require_number(fields[number.lower()], Subject(word))
        self._engine, self._query, self._columns, self._control, self._split = engine, query, columns, control, split

    def measure(self, reporter: Reporter) -> pa.Table:
        """Return a row for each arm, the control first.

        Raises:
            DataError: there are no rows, or one arm; a unit is in several arms or none, an arm has less than two units, the
                control is no arm, or a metric is no finite number.
        """
        moments = self._moments()
        if not moments:
            raise DataError("ML.AB_TEST needs rows of an experiment, and the query returns none.")
        if self._control not in moments:
            raise DataError(f"CONTROL names {self._control!r}, which is not an arm. There are {', '.join(map(repr, moments))}.")
        if len(moments) == 1:
            raise DataError(
                f"ML.AB_TEST compares two arms or more, and {self._columns.variant} is {self._control!r} in all rows. Name the "
                "column of the arms as VARIANT, and check what the query leaves out."
            )
        arms = {name: Arm.of(one) for name, one in moments.items()}
        srm = mismatch([arm.units for arm in arms.values()], self._planned(list(arms)))
        if srm < MISMATCH:
            said = ", ".join(f"{name} {arm.units:,}" for name, arm in arms.items())
            reporter.note(
                f"The arms do not have the sizes that were planned ({said}; p = {srm:.2g}): units were lost or added "
                "in one of them. Do not trust any difference below until you know why."
            )
        reporter.note(PEEKING)
        rows = compared(arms, self._control)
        return pa.Table.from_pylist([{**row, "srm_p": srm} for row in rows], SCHEMA)

    def _planned(self, arms: Sequence[str]) -> list[float]:
        if self._split is None:
            return [1 / len(arms)] * len(arms)
        if {name.lower() for name in arms} != self._split.keys():
            raise DataError(f"SPLIT plans the arms {', '.join(self._split)}; there are {', '.join(arms)}.")
        whole = math.fsum(self._split.values())
        return [self._split[name.lower()] / whole for name in arms]

    def _moments(self) -> dict[str, ArmMoments]:
        found = self._engine.reader(moments_sql(self._query, self._columns)).read_all().to_pylist()
        mixed = sum(row["units"] for row in found if row["variant"] is None or row["mixed"])
        if mixed:
            raise DataError(
                f"{mixed:,} units are in several arms, or in none: {self._columns.variant} or {self._columns.unit} is NULL or "
                "changes. Find out why before you compare, or filter these units out in the query."
            )
        arms = {}
        for row in sorted(found, key=lambda row: (row["variant"] != self._control, row["variant"])):
            name = row["variant"]
            if row["units"] < 2:
                raise DataError(f"Arm {name!r} has {row['units']} unit, and two at least are needed.")
            if self._columns.covariate is None or row["x"] is None:
                row |= {"x": 0.0, "xx": 0.0, "xy": 0.0, "xd": 0.0}
            values = {key: float(row[key]) for key in (*"ydx", *PAIRS)}
            if not all(map(math.isfinite, values.values())) or values["d"] == 0:
                raise DataError(f"Arm {name!r} has a metric or covariate that is not a finite number, or a denominator of 0.")
            arms[name] = ArmMoments(units=row["units"], **values)
        return arms


def moments_sql(query: str, columns: ExperimentColumns) -> str:
    """Return the query of the moments of each arm: rows of a unit are added up first, and a covariate of a unit that has none
    is the mean of all."""
    variant, unit, metric = (quoted(name) for name in (columns.variant, columns.unit, columns.metric))
    per = "1.0" if columns.per is None else f"coalesce(sum(CAST({quoted(columns.per)} AS DOUBLE)), 0.0)"
    x = "CAST(NULL AS DOUBLE)" if columns.covariate is None else f"avg(CAST({quoted(columns.covariate)} AS DOUBLE))"
    moments = ", ".join(f"covar_samp({pair[0]}, {pair[1]}) AS {pair}" for pair in PAIRS)
    return (
        f"WITH xpsql_units AS (SELECT {unit} AS unit, min({variant}) AS variant, "
        f"{unit} IS NULL OR min({variant}) <> max({variant}) OR count({variant}) < count(*) AS mixed, "
        f"coalesce(sum(CAST({metric} AS DOUBLE)), 0.0) AS y, CAST({per} AS DOUBLE) AS d, {x} AS x "
        f"FROM ({query}) GROUP BY {unit}), "
        "xpsql_filled AS (SELECT variant, mixed, y, d, coalesce(x, avg(x) OVER ()) AS x FROM xpsql_units) "
        "SELECT CAST(variant AS STRING) AS variant, mixed, count(*) AS units, avg(y) AS y, avg(d) AS d, avg(x) AS x, "
        f"{moments} FROM xpsql_filled GROUP BY variant, mixed"
    )


def compared(arms: Mapping[str, Arm], control: str) -> list[dict[str, float | str | int | None]]:
    """Return each arm against the control, which comes first."""
    units = sum(arm.units for arm in arms.values())
    within = sum((arm.units - 1) * arm.xx for arm in arms.values())
    theta = sum((arm.units - 1) * arm.xz for arm in arms.values()) / within if within > 0 else 0.0
    x = sum(arm.units * arm.x for arm in arms.values()) / units
    together = theta**2 * within / max(units - len(arms), 1) / units  # the error of x, which all adjusted means have in common
    base = arms[control].adjusted(theta, x)
    rows: list[dict[str, float | str | int | None]] = [{"variant": control, "units": base.units, "mean": arms[control].mean}]
    for name, arm in arms.items():
        if name == control:
            continue
        other = arm.adjusted(theta, x)
        raw = arm.squared_error + arms[control].squared_error
        squared = other.squared_error + base.squared_error
        lift, freedom = other.mean - base.mean, welch(other, base)
        t = critical(freedom)
        low, high = relative(other, base, together, t)
        rows.append(
            {
                "variant": name,
                "units": arm.units,
                "mean": arm.mean,
                "lift": lift,
                "low": lift - t * math.sqrt(squared),
                "high": lift + t * math.sqrt(squared),
                "lift_relative": lift / base.mean if base.mean else None,
                "relative_low": low,
                "relative_high": high,
                "p_value": p_value(lift, squared, freedom),
                "variance_reduction": 1 - squared / raw if raw > 0 else None,
            }
        )
    return rows


def welch(one: Arm, other: Arm) -> float:
    """Return the degrees of freedom of a difference of means.

    Source: Welch, "The generalization of Student's problem when several different population variances are involved",
    Biometrika 1947.
    """
    under = one.squared_error**2 / (one.units - 1) + other.squared_error**2 / (other.units - 1)
    return (one.squared_error + other.squared_error) ** 2 / under if under > 0 else math.inf


def critical(freedom: float) -> float:
    """Return the quantile of Student's distribution that bounds an interval of 1 - ALPHA."""
    from scipy.special import ndtri, stdtrit

    return float(ndtri(1 - ALPHA / 2) if math.isinf(freedom) else stdtrit(freedom, 1 - ALPHA / 2))


def p_value(lift: float, squared: float, freedom: float) -> float | None:
    from scipy.special import stdtr

    if squared <= 0:
        return None
    return float(2 * stdtr(freedom, -abs(lift) / math.sqrt(squared)))


def relative(other: Arm, base: Arm, together: float, t: float) -> tuple[float | None, float | None]:
    """Return the interval of a relative lift; None where the control's mean may be 0.

    Source: Fieller, "Some problems in interval estimation", Journal of the Royal Statistical Society B 1954.

    Args:
        together: the covariance of the two means.
    """
    mine, theirs = other.squared_error + together, base.squared_error + together
    a = base.mean**2 - t**2 * theirs
    if a <= 0:
        return None, None
    b = other.mean * base.mean - t**2 * together
    c = other.mean**2 - t**2 * mine
    root = math.sqrt(max(b**2 - a * c, 0.0))
    low, high = sorted(((b - root) / a - 1, (b + root) / a - 1))
    return low, high


def mismatch(units: Sequence[int], planned: Sequence[float]) -> float:
    """Return the probability that arms differ so much from their planned sizes by chance: Pearson's chi-square test."""
    from scipy.special import chdtrc

    whole = sum(units)
    distance = sum((one - whole * share) ** 2 / (whole * share) for one, share in zip(units, planned, strict=True))
    return float(chdtrc(len(units) - 1, distance)) if len(units) > 1 else 1.0
