"""Plain numpy versions of the operators, row by row in float64, written from their formulas alone.

Weights and memory are kept apart here: an operator returns what w, z and n should be, and `Ftrl` says what it then keeps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpsql.platform.errors import Subject
from xpsql.platform.operators.auto_session import AutoSessionOptions
from xpsql.platform.operators.decay import DecayOptions
from xpsql.platform.operators.delay_compensation import DelayCompensationOptions
from xpsql.platform.operators.duration import duration_seconds
from xpsql.platform.operators.ftrl import FtrlOptions
from xpsql.platform.operators.gradient_average import GradientAverageOptions
from xpsql.platform.operators.regularize import RegularizeOptions
from xpsql.platform.operators.safety import SafetyOptions
from xpsql.platform.operators.staleness_discount import StalenessDiscountOptions

DURATION = Subject("OPERATORS", option="half_life")

Vector = NDArray[np.float64]


@dataclass
class Row:
    """One row: FTRL's z and n, the weights, the flags of the push under way, and decayed shows and clicks, [2, 3]."""

    z: Vector
    n: Vector
    w: Vector
    flags: set[str] = field(default_factory=set)
    session: Vector = field(default_factory=lambda: np.zeros((2, 3)))

    def copy(self) -> Row:
        return Row(self.z.copy(), self.n.copy(), self.w.copy(), set(self.flags), self.session.copy())


@dataclass(frozen=True)
class Event:
    """What a push says of one row; `seen` is the row's count with this push."""

    gradient: Vector
    count: int
    seen: int
    staleness: int
    pulled: Vector
    age_seconds: float
    clicks: int


class Ftrl:
    def __init__(self, options: FtrlOptions) -> None:
        self.options = options

    def weight(self, z: float, n: float) -> float:
        o = self.options
        if abs(z) <= o.l1:
            return 0.0
        return -(z - math.copysign(o.l1, z)) / ((o.beta + n**o.power) / o.alpha + o.l2)

    def z_for(self, w: float, n: float, z: float) -> float:
        o = self.options
        if w == 0:
            return min(max(z, -o.l1), o.l1)
        return -w * ((o.beta + n**o.power) / o.alpha + o.l2) - math.copysign(o.l1, w)

    def start(self, w: Vector) -> Row:
        z = np.array([self.z_for(weight, 0.0, 0.0) for weight in w])
        return Row(z, np.zeros_like(w), np.array([self.weight(value, 0.0) for value in z]))

    def step(self, row: Row, gradient: Vector) -> Row:
        n = row.n + gradient**2
        z = row.z + gradient - (n**self.options.power - row.n**self.options.power) / self.options.alpha * row.w
        return replace(row, z=z, n=n, w=self.weights(z, n))

    def weights(self, z: Vector, n: Vector) -> Vector:
        return np.array([self.weight(a, b) for a, b in zip(z, n, strict=True)])

    def agree(self, before: Row, after: Row) -> Row:
        moved = before.w != after.w
        solved = np.array([self.z_for(w, n, z) for w, n, z in zip(after.w, after.n, after.z, strict=True)])
        z = np.where(moved, solved, after.z)
        return replace(after, z=z, w=np.where(moved, after.w, self.weights(z, after.n)))


class Neutral:
    def __init__(self, options: Any) -> None:
        self.options = options

    def read(self, row: Row, event: Event) -> Row:
        return row

    def before(self, gradient: Vector, row: Row, event: Event) -> Vector:
        return gradient

    def after(self, old: Row, new: Row, event: Event) -> Row:
        return new


class GradientAverage(Neutral):
    options: GradientAverageOptions

    def before(self, gradient: Vector, row: Row, event: Event) -> Vector:
        c = event.count if self.options.by == "push" else event.seen
        return gradient / {"none": 1, "count": c, "sqrt": math.sqrt(c), "log": 1 + math.log(c)}[self.options.mode]


class StalenessDiscount(Neutral):
    options: StalenessDiscountOptions

    def before(self, gradient: Vector, row: Row, event: Event) -> Vector:
        s, o = event.staleness, self.options
        factors = {
            "inverse": 1 / (1 + o.rate * s),
            "exponential": math.exp(-o.rate * s),
            "threshold": float(s <= o.limit),
            "polynomial": (1 + s) ** -o.power,
        }
        return gradient * factors[o.mode]


class DelayCompensation(Neutral):
    options: DelayCompensationOptions

    def before(self, gradient: Vector, row: Row, event: Event) -> Vector:
        return gradient + self.options.lambda_ * gradient**2 * (row.w - event.pulled)


class Safety(Neutral):
    options: SafetyOptions

    def judge(self, row: Row, beyond: bool, broken: bool) -> None:
        if beyond or broken:
            row.flags.add("violations")
            if broken or self.options.on_violation != "clip":
                row.flags.add("refused")
            if self.options.on_violation == "fail":
                row.flags.add("failed")

    def before(self, gradient: Vector, row: Row, event: Event) -> Vector:
        limit = self.options.max_gradient or math.inf
        broken = not np.isfinite(gradient).all()
        self.judge(row, bool((np.abs(gradient) > limit).any()), broken)
        return np.zeros_like(gradient) if "refused" in row.flags else np.clip(gradient, -limit, limit)

    def after(self, old: Row, new: Row, event: Event) -> Row:
        update, weight = self.options.max_update or math.inf, self.options.max_weight or math.inf
        w = np.clip(np.clip(new.w, old.w - update, old.w + update), -weight, weight)
        self.judge(new, bool((abs(w - new.w) > 1e-6 * abs(new.w)).any()), False)
        return replace(old.copy() if "refused" in new.flags else replace(new, w=w), flags=new.flags)


class Regularize(Neutral):
    options: RegularizeOptions

    def after(self, old: Row, new: Row, event: Event) -> Row:
        o = self.options
        s = next((strength for bound, strength in o.by_frequency if event.seen <= bound), o.strength)
        norm = math.sqrt(sum(new.w**2))
        by_penalty = {
            "l1": np.sign(new.w) * np.maximum(abs(new.w) - s, 0),
            "l2": new.w / (1 + s),
            "elastic": np.sign(new.w) * np.maximum(abs(new.w) - o.l1_ratio * s, 0) / (1 + (1 - o.l1_ratio) * s),
            "group": new.w * (max(1 - s / norm, 0) if norm > 0 else 0),
        }
        return replace(new, w=by_penalty[o.penalty])


class Decay(Neutral):
    options: DecayOptions

    def read(self, row: Row, event: Event) -> Row:
        if self.options.half_life is None:
            return row
        factor = 0.5 ** (event.age_seconds / duration_seconds(self.options.half_life, DURATION))
        z, n, w = (factor if name in self.options.halves else 1.0 for name in "znw")
        return replace(row, z=row.z * z, n=row.n * n, w=row.w * w)

    def after(self, old: Row, new: Row, event: Event) -> Row:
        return replace(new, z=new.z * self.options.z, n=new.n * self.options.n, w=new.w * self.options.w)


class AutoSession(Neutral):
    """Shows one after the other, as if each example were a push, each with an equal share of the clicks."""

    options: AutoSessionOptions

    def half_lives(self) -> list[tuple[float, str]]:
        texts = (self.options.short, self.options.mid, self.options.long)
        return [(float(number), unit) for number, unit in (text.split() for text in texts)]

    def read(self, row: Row, event: Event) -> Row:
        session = row.session.copy()
        for horizon, (number, unit) in enumerate(self.half_lives()):
            if unit != "examples":
                session[:, horizon] *= 0.5 ** (event.age_seconds / duration_seconds(f"{number} {unit}", DURATION))
        return replace(row, session=session)

    def after(self, old: Row, new: Row, event: Event) -> Row:
        session = new.session.copy()
        for horizon, (number, unit) in enumerate(self.half_lives()):
            for _ in range(event.count):
                session[:, horizon] *= 0.5 ** (1 / number) if unit == "examples" else 1
                session[:, horizon] += (1, event.clicks / event.count)
        return replace(new, session=session)

    def offer(self, row: Row, base_rate: float) -> Vector:
        lifts, rate = [], base_rate
        for horizon in (2, 1, 0):
            shows, clicks = row.session[:, horizon]
            rate = (clicks + self.options.prior * rate) / (shows + self.options.prior)
            lifts.append(math.log(rate / (1 - rate)) - math.log(base_rate / (1 - base_rate)))
        return np.array(lifts[::-1])


NUMPY = {
    "gradient_average": GradientAverage,
    "staleness_discount": StalenessDiscount,
    "delay_compensation": DelayCompensation,
    "safety": Safety,
    "regularize": Regularize,
    "decay": Decay,
    "auto_session": AutoSession,
}


def numpy_push(operators: list[Neutral], ftrl: Ftrl, row: Row, event: Event) -> Row:
    """Push one event to one row, by the definition of a push in the contract."""
    row = replace(row, w=ftrl.weights(row.z, row.n), flags=set())
    for operator in operators:
        row = ftrl.agree(row, operator.read(row, event))
    old, gradient = row.copy(), event.gradient
    for operator in operators:
        gradient = operator.before(gradient, row, event)
    new = ftrl.step(row, gradient)
    counting = [operator for operator in operators if isinstance(operator, AutoSession)]
    for operator in (*(o for o in reversed(operators) if o not in counting), *counting):
        new = ftrl.agree(new, operator.after(old, new.copy(), event))
    return new
