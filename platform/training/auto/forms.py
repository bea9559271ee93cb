"""Forms of a statement that USING auto tries: what differs between them, and what each costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ... import parts
from ...engines.spark_sql.hparams import HparamCandidates, HparamRange
from ..metrics.validations import HIGHER
from ..tuning.space import Dimension

if TYPE_CHECKING:
    from ..plan import Plan

Given = tuple[tuple[str, Any], ...]

COSTS: Mapping[str, float] = {
    "xftrl": 1,
    "linear_regression": 1,
    "fm": 2,
    "ffm": 8,
    "xnn": 4,
    "deepfm": 4,
    "wide_deep": 4,
    "dcn": 5,
    "final": 6,
    "din": 4.5,
    "owlqn": 2,
    "xgboost": 4,
}
"""What a training costs beside xftrl's, about; a number that no clock decides, so that a search by trials repeats."""
FAMILIES = ("owlqn", "fm", "ffm", "xnn", "dcn", "final", "din", "xgboost")
"""What is tried where the statement does not say."""
RATES = 1.3
"""What recent click rates cost beside a training without."""
LINEAR = ("xftrl", "linear_regression")
AT_ONCE = ("owlqn", "xgboost")
"""What learns all rows at once."""
SEVERAL_PASSES, UPDATES = 20, 40
"""How many passes networks learn in at most, and about how many updates each pass has at least."""
BATCHES = (128, 4096)
"""The least and the most examples of such an update."""
RECIPE_L2 = 200 / 4096
"""The penalty on vectors in several passes, of the mean over an update's examples."""
NORMALISED: Given = (("wide", False), ("normalise", "batch_norm"), ("dropout", 0.2), ("init_scale", 0.0001))
RECIPES: Mapping[str, Given] = dict.fromkeys(("xnn", "deepfm", "dcn"), NORMALISED)
"""The options of networks that learn in several passes."""
RATE = HparamRange(0.02, 0.5)
DIMS = HparamCandidates((4, 8, 16))
OF_FACTORS = {"alpha": Dimension(RATE, False), "vector_alpha": Dimension(RATE, False), "dim": Dimension(DIMS, True)}
OF_NETWORKS = {
    "vector_learning_rate": Dimension(HparamRange(0.01, 0.2), False),
    "learning_rate": Dimension(HparamRange(0.0003, 0.01), False),
    "dim": Dimension(HparamCandidates((8, 16, 32)), True),
}
OF_LINEAR = {
    "alpha": Dimension(RATE, False),
    "l1": Dimension(HparamCandidates((0, 0.1, 1)), False),
    "l2": Dimension(HparamCandidates((0, 0.3, 3)), False),
}
SPACES: Mapping[str, Mapping[str, Dimension]] = {
    "xftrl": OF_LINEAR,
    "fm": OF_FACTORS,
    "ffm": OF_FACTORS,
    **dict.fromkeys(("xnn", "deepfm", "wide_deep", "dcn", "final", "din"), OF_NETWORKS),
    "xgboost": {
        "rounds": Dimension(HparamCandidates((100, 300)), True),
        "learning_rate": Dimension(HparamRange(0.03, 0.2), False),
        "max_depth": Dimension(HparamCandidates((3, 4, 6, 8)), True),
    },
}
"""The options that are worth a night, and what is tried of each."""


class StatementForm(NamedTuple):
    """A statement of the search.

    Attributes:
        algorithm, options: what USING says.
        settings: what WITH says beside the user's.
        cross: what CROSS says, the slots of each.
        ignore: columns that IGNORE names beside the user's.
        binned: numbers that are also categories, by their quantiles.
        rates: OPERATORS (auto_session) makes recent click rates of features into inputs.
        operators: what else OPERATORS says.
        history: arrays of what a user had, and the slot of what is offered, whose values they have.
    """

    algorithm: str
    options: Given = ()
    settings: Given = ()
    cross: tuple[tuple[str, ...], ...] = ()
    ignore: tuple[str, ...] = ()
    binned: tuple[str, ...] = ()
    rates: bool = False
    history: tuple[tuple[str, str], ...] = ()
    operators: tuple[str, ...] = ()

    @property
    def cost(self) -> float:
        """What it costs beside a training of xftrl."""
        passes = int(dict(self.settings).get("passes", 1))
        beside = (1 + 0.05 * (len(self.cross) + len(self.binned))) * (RATES if self.rates else 1)
        return COSTS.get(self.algorithm, 4) * passes * beside

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """What differs, as ML.TRIAL_INFO shows it."""
        return dict(self.options) | dict(self.settings)


class FormWriter(Protocol):
    """Writes forms as statements, and plans them."""

    def write(self, form: StatementForm) -> str:
        """Return the statement of a form, which trains it alone."""
        ...

    def plan(self, form: StatementForm, query: str) -> Plan:
        """Return its plan, of rows that are where a query says.

        Raises:
            StatementError: the form cannot be trained.
        """
        ...


def space_of(form: StatementForm) -> Mapping[str, Dimension] | None:
    """Return the options of a form that are tried; None where there are none. OPERATORS have taken the place of some."""
    space = SPACES.get(form.algorithm)
    if space is None or not form.operators:
        return space
    return {name: dimension for name, dimension in space.items() if name != "vector_learning_rate"}


def batch_of(rows: int) -> int:
    """Return how many examples an update of several passes has."""
    least, most = BATCHES
    return min(max(1 << (rows // UPDATES).bit_length() >> 1, least), most)


def recipe(form: StatementForm, metric: str, batch: int) -> StatementForm:
    """Return a network with its defaults as it learns in several passes, judged by a metric.

    Args:
        batch: examples of an update.
    """
    judges = (("patience_by", metric),) if metric in HIGHER else ()
    steps = (("passes", SEVERAL_PASSES), ("batch_size", batch), ("patience", 2), *judges, ("plateau", 0.1))
    penalty = f"adam (whole = true, l2 = {RECIPE_L2 * batch:g}) ON vectors"
    return form._replace(options=(*form.options, *RECIPES[form.algorithm]), settings=steps, operators=(penalty,))


def with_loss(name: str, numbers: bool) -> StatementForm | None:
    """Return an algorithm with its defaults for a kind of label; None where it cannot learn that."""
    if not numbers:
        return None if name == "linear_regression" else StatementForm(name)
    if name in LINEAR:
        return StatementForm("linear_regression") if name == "linear_regression" else None
    known = {field.name for field in fields(parts.ALGORITHM.find(name, None).options)}
    return StatementForm(name, (("loss", "squared"),)) if "loss" in known else None
