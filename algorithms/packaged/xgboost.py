"""XGBoost: boosted trees, by the package of that name."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...platform.dependent import CATEGORIES, NUMBERS
from ...platform.errors import LostError, ModelError, OptionError, StatementError, Subject, TrainingError
from ...platform.options import Part, option
from ...platform.registry import AT_ONCE
from ...platform.system import needing
from ..base import Algorithm, Layout
from ..learner import Contributions, Learner, Matrix, PackageFile, Peers, Predict, RoundJudge
from ..losses import LOGLOSS, POISSON, SQUARED, check_positive_weight, make_quantile, quantile_option, softmax_of
from .learners import learned_by

if TYPE_CHECKING:
    from xgboost import Booster
    from xgboost.callback import TrainingCallback

SUBJECT = Subject("USING", "xgboost")
PEER_SECONDS = 600
GROWN_BY = "grown_by"  # an attribute of the trees: the version of xgboost
OBJECTIVES = {
    "logloss": "binary:logistic",
    "squared": "reg:squarederror",
    "quantile": "reg:quantileerror",
    "poisson": "count:poisson",
}


@dataclass(frozen=True)
class XgboostOptions:
    loss: str = option(
        "logloss",
        "what is minimised; squared takes any number as label; quantile, too, and predicts the quantile `at`; poisson takes "
        "counts and other numbers of at least 0",
        choices=tuple(OBJECTIVES),
    )
    at: float = quantile_option()
    rounds: int = option(100, "trees; more with a lower learning_rate and for long data", minimum=1, maximum=100_000)
    learning_rate: float = option(
        0.1,
        "share of each tree that is added; lower it, with more rounds",
        minimum=0,
        open_minimum=True,
        maximum=1,
    )
    max_depth: int = option(4, "levels of a tree; raise it for long data", minimum=1, maximum=64)
    min_child_weight: float = option(1.0, "least curvature in a leaf; raise it for noisy labels", minimum=0)
    subsample: float = option(
        0.7, "share of rows that a tree is grown from; lower it against overfitting", minimum=0, open_minimum=True, maximum=1
    )
    columns: float = option(
        0.5,
        "share of columns that a tree is grown from; lower it if many are alike",
        minimum=0,
        open_minimum=True,
        maximum=1,
    )
    l1: float = option(0.0, "L1 penalty of leaves; raise it for noisy labels", minimum=0)
    l2: float = option(10.0, "L2 penalty of leaves; raise it for noisy labels", minimum=0)
    positive_weight: float = option(
        1.0,
        "weight of examples whose label is 1, not if labels are other numbers; raise it if missing one costs more",
        minimum=0,
        open_minimum=True,
    )
    bins: int = option(
        256,
        "bins that values of a continuous slot are put into; more where close values differ",
        minimum=2,
        maximum=65_536,
        facts=(NUMBERS,),
    )
    categories: int = option(
        10_000,
        "values of a categorical slot that are kept apart, the most frequent; others count as missing; more for long data",
        minimum=1,
        maximum=65_536,
        facts=(CATEGORIES,),
    )


def xgboost(options: XgboostOptions, layout: Layout) -> Algorithm:
    """Grow boosted trees by the package xgboost (pip install 'xpsql[xgboost]').

    Categorical slots are xgboost's categories, and NULL is one of them. Continuous slots and elements of vectors are taken
    as they are: NULL is missing, and an infinite value is the largest float. A row of ML.WEIGHTS is a category; its weight
    is the category's number, from 1 on.

    All rows of the query are kept in memory, in the process that runs the statement. On Spark they are divided over the
    tasks, which learn together by sums of histograms, as xgboost.spark does. If a slot has more values than bins,
    histograms depend a little on how rows are divided, and so do the rows that `subsample` draws.

    VALIDATE judges each round as a pass. WITH (patience = n) stops after n rounds without gain, and keeps the best one.
    Several tasks grow all rounds before these are judged.

    CONTINUE is a warm start: it adds rounds on the new data, and does not learn existing trees again. The metrics of the
    training are on the rows learned from. With a label of classes, each round grows a tree for each class. A note names the
    slots that `categories` cuts. A version needs the xgboost that grew it, or a newer one.

    Source: Chen and Guestrin, "XGBoost: A Scalable Tree Boosting System", KDD 2016.

    Raises:
        StatementError: the package is not installed.
        OptionError: a multi-valued or weighted slot, or a positive_weight where labels are any numbers.
    """
    if importlib.util.find_spec("xgboost") is None:
        raise StatementError(needing(f"{SUBJECT} needs the package xgboost", "xgboost"), subject=SUBJECT)
    if layout.bags:
        raise OptionError(
            f"{SUBJECT} takes no arrays or maps, and {layout.bags[0]} is one: name it in IGNORE, or select its values or its "
            "size as columns.",
            subject=SUBJECT,
        )
    if layout.classes:
        loss = softmax_of(options.loss, options.positive_weight)
        return learned_by(XgboostLearner(options, {"objective": "multi:softprob", "num_class": layout.classes}), loss)
    losses = {"logloss": LOGLOSS, "squared": SQUARED, "quantile": make_quantile(options.at), "poisson": POISSON}
    loss = losses[options.loss]._replace(standardised=False)
    check_positive_weight(options.positive_weight, loss.classifier)
    more = {"quantile_alpha": options.at} if options.loss == "quantile" else {}
    return learned_by(XgboostLearner(options, {"objective": OBJECTIVES[options.loss], **more}), loss)


class XgboostLearner(Learner):
    """Trees as xgboost keeps them.

    Args:
        options: as given.
        objective: xgboost's parameters that say what is minimised.
    """

    def __init__(self, options: XgboostOptions, objective: Mapping[str, Any]) -> None:
        self._options, self._objective = options, objective
        self.categories = options.categories

    @contextmanager
    def gathering(self, count: int, host: str) -> Iterator[int]:
        """See Learner."""
        from xgboost.core import XGBoostError
        from xgboost.tracker import RabitTracker

        tracker = RabitTracker(n_workers=count, host_ip=host, sortby="task")
        tracker.start()
        try:
            yield int(tracker.worker_args()["dmlc_tracker_port"])
            with suppress(XGBoostError):  # all have learned; here they say goodbye
                tracker.wait_for(PEER_SECONDS)
        finally:
            with suppress(XGBoostError):  # of processes that never joined, which is reported where they are missing
                tracker.free()

    def fit(
        self,
        matrix: Matrix,
        seed: int,
        threads: int,
        before: bytes | None,
        peers: Peers | None,
        rounds: int | None,
        judge: RoundJudge | None,
    ) -> bytes:
        """See Learner."""
        import xgboost

        weight = matrix.weight * np.where(matrix.label > 0, self._options.positive_weight, 1)
        parameters = {**self._parameters(), "seed": seed, "nthread": threads}
        with together(peers):
            data = xgboost.DMatrix(matrix.values, matrix.label, weight=weight, **described(matrix), nthread=threads)
            grown = xgboost.train(
                parameters,
                data,
                self._options.rounds if rounds is None else rounds,
                xgb_model=None if before is None else booster_of(before),
                callbacks=None if judge is None else [stopping(judge)],
            )
            return saved(grown if judge is None else cut(grown, before, judge))

    def judged(self, model: bytes, before: bytes | None, judge: RoundJudge) -> bytes:
        """See Learner."""
        import xgboost

        grown, data = booster_of(model), xgboost.DMatrix(judge.matrix.values, **described(judge.matrix))
        for end in range(rounds_of(before) + 1, grown.num_boosted_rounds() + 1):
            if judge.after(grown.predict(data, iteration_range=(0, end))):
                break
        return saved(cut(grown, before, judge))

    def load(self, model: bytes) -> Predict:
        """See Learner."""
        import xgboost

        booster = booster_of(model)

        def predict(matrix: Matrix) -> Any:
            return booster.predict(xgboost.DMatrix(matrix.values, **described(matrix)))

        return predict

    def contributions(self, model: bytes) -> Contributions:
        """See Learner; by TreeSHAP, in log odds where labels are classes.

        Source: Lundberg et al., "From local explanations to global understanding with explainable AI for trees", Nature Machine
        Intelligence 2020.
        """
        import xgboost

        booster = booster_of(model)

        def contributions(matrix: Matrix) -> Any:
            return booster.predict(xgboost.DMatrix(matrix.values, **described(matrix)), pred_contribs=True)

        return contributions

    def importance(self, model: bytes) -> Mapping[str, float]:
        """See Learner; what the splits by a column have gained in all."""
        gains: Any = booster_of(model).get_score(importance_type="total_gain")
        return dict(gains)

    def portable(self, model: bytes) -> PackageFile:
        """See Learner; as XGBoost's JSON."""
        return PackageFile("model.xgboost.json", bytes(booster_of(model).save_raw("json")))

    def _parameters(self) -> dict[str, Any]:
        own = self._options
        return {
            **self._objective,
            "tree_method": "hist",
            "eta": own.learning_rate,
            "max_depth": own.max_depth,
            "min_child_weight": own.min_child_weight,
            "subsample": own.subsample,
            "colsample_bytree": own.columns,
            "alpha": own.l1,
            "lambda": own.l2,
            "max_bin": own.bins,
        }


def booster_of(model: bytes) -> Booster:
    """Return the trees of a version.

    Raises:
        ModelError: a newer xgboost has grown them, whose files this one may misread without an error.
    """
    import xgboost

    booster = xgboost.Booster(model_file=bytearray(model))
    grown, here = booster.attr(GROWN_BY), xgboost.__version__
    if grown is not None and release(grown) > release(here):
        raise ModelError(
            f"XGBoost {grown} grew these trees, and {here}, which is installed, may misread them. "
            f"Install xgboost {grown} or newer."
        )
    return booster


def saved(grown: Booster) -> bytes:
    """Return trees as a version keeps them."""
    import xgboost

    grown.set_attr(**{GROWN_BY: xgboost.__version__})
    return bytes(grown.save_raw("ubj"))


def rounds_of(model: bytes | None) -> int:
    return 0 if model is None else booster_of(model).num_boosted_rounds()


def cut(grown: Booster, before: bytes | None, judge: RoundJudge) -> Booster:
    """Return the rounds of a model before, and those after them that a judge keeps."""
    return grown[: rounds_of(before) + judge.kept]


def stopping(judge: RoundJudge) -> TrainingCallback:
    """Return the callback that shows each round to a judge, and stops when it says so."""
    import xgboost

    data = xgboost.DMatrix(judge.matrix.values, **described(judge.matrix))

    class Stopping(xgboost.callback.TrainingCallback):
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            return judge.after(model.predict(data))

    return Stopping()


def release(version: str) -> tuple[int, ...]:
    """Return the numbers of a version that stand for the format of its files: major and minor."""
    return tuple(map(int, version.split(".")[:2]))


@contextmanager
def together(peers: Peers | None) -> Iterator[None]:
    """Let xgboost sum its histograms over all peers while the block runs.

    Raises:
        TrainingError: without peers, of what xgboost says.
        LostError: of what xgboost says, which with options and data that were checked is that a peer has gone.
    """
    from xgboost import collective
    from xgboost.core import XGBoostError

    if peers is None:
        try:
            yield
        except XGBoostError as error:
            said = str(error).partition("\n")[0]
            raise TrainingError(
                f"XGBoost cannot learn from these examples; their WEIGHT must not be 0 throughout: {said}"
            ) from error
        return
    try:
        collective.init(
            dmlc_tracker_uri=peers.host,
            dmlc_tracker_port=peers.port,
            dmlc_task_id=f"{peers.number:06d}",
            dmlc_timeout=PEER_SECONDS,
        )
        yield
    except XGBoostError as error:
        raise LostError(f"XGBoost lost one of the workers that it learns with: {error}") from error
    finally:
        with suppress(XGBoostError):  # a peer that leaves out of order has learned all the same, or its loss is reported above
            collective.finalize()


def described(matrix: Matrix) -> dict[str, Any]:
    """Return the description of the columns for xgboost."""
    types = ["c"] * matrix.num_categorical + ["q"] * (len(matrix.names) - matrix.num_categorical)
    return {"feature_names": list(matrix.names), "feature_types": types, "enable_categorical": True}


XGBOOST = Part("xgboost", XgboostOptions, xgboost, AT_ONCE)
