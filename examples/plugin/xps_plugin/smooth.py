"""The operator smooth."""

from dataclasses import dataclass

from xpsql.platform.operators.base import Column, Operator, TableSpec
from xpsql.platform.options import Part, option


@dataclass(frozen=True)
class SmoothOptions:
    keep: float = option(0.5, "share of the running mean kept per update", minimum=0, maximum=1, open_maximum=True)


def smooth(options: SmoothOptions, table: TableSpec) -> Operator:
    """Replace a gradient by a running mean of the row's gradients: m <- keep m + (1 - keep) g; g <- m.

    Source: Polyak, "Some methods of speeding up the convergence of iteration methods", 1964.
    """

    def before(gradients, rows, context):
        mean = options.keep * rows["smooth_mean"] + (1 - options.keep) * gradients
        return mean, {**rows, "smooth_mean": mean}

    return Operator({"smooth_mean": Column(table.dim)}, before, name="smooth")


SMOOTH = Part("smooth", SmoothOptions, smooth)
