"""ML.OFF_POLICY: what a version would have earned on requests that a service decided, one row per candidate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...warehouse.entries import RowGroup
from ..engines.base import Engine, Scan, Staged, staged
from ..errors import DataError, StatementError, suggestion
from ..input.columns import columns_from
from ..scoring.prediction import request_of, scored
from ..scoring.rows import rows_of
from ..training.recipe import algorithm_of
from .estimators import ESTIMATORS, Decided, Doubles, Estimate, effective_rows, estimates
from .policies import Policy, scores_of

if TYPE_CHECKING:
    from ...warehouse.version import Version
    from ..progress import Reporter

SEED = 7
ENOUGH = 100
"""Effective rows below which nothing is estimated."""
REQUEST, CHOSEN, PROPENSITY = "REQUEST", "CHOSEN", "PROPENSITY"
REWARD, ACTION, GROUP = "REWARD", "ACTION", "GROUP"
LOGGED = {REQUEST: "served_request", CHOSEN: "served_chosen", PROPENSITY: "served_propensity"}
"""The columns of a log of xpsql serve --explore."""
SCHEMA = pa.schema(
    [
        ("estimator", pa.string()),
        *((name, pa.float64()) for name in ("value", "low", "high", "logged", "gain", "gain_low", "gain_high")),
        ("requests", pa.int64()),
        ("groups", pa.int64()),
        ("effective_rows", pa.float64()),
        ("max_weight", pa.float64()),
        ("unsupported", pa.float64()),
    ]
)


class DecisionLog(NamedTuple):
    """The candidates of a log, request by request.

    Attributes:
        starts: int64[requests], where the candidates of each begin.
        chosen: int64[requests], which candidate was shown.
        reward, expected, scores, propensity: float64[candidates]; a propensity that the log does not know is NaN.
        groups: int64[requests]; empty without GROUP.
    """

    starts: NDArray[np.int64]
    chosen: NDArray[np.int64]
    reward: Doubles
    expected: Doubles
    scores: Doubles
    propensity: Doubles
    groups: NDArray[np.int64]


class OffPolicy:
    """A version's policy on a log of decisions, checked and to be estimated.

    Args:
        columns: of the log, by keyword; those that are missing have the names of a log of xpsql serve.
        clip: the largest weight.
        overlap: rows that the version learned from are allowed.

    Raises:
        StatementError: the query cannot run, lacks a column, or reads files that the version learned from.
    """

    def __init__(
        self,
        version: Version,
        engine: Engine,
        query: str,
        columns: Mapping[str, str],
        policy: Policy,
        clip: float,
        overlap: bool,
    ) -> None:
        self._version, self._engine, self._policy, self._clip = version, engine, policy, clip
        rows = rows_of(version, engine, query)
        self._query, self._found, self._inputs = rows.query, rows.found, rows.inputs
        labels, self._algorithm = columns_from(version.manifest).labels, algorithm_of(version.manifest)
        if self._algorithm.measured not in ("classes", "numbers"):
            raise StatementError(
                f"ML.OFF_POLICY needs a model of labels of 0 and 1, or of numbers; {version.manifest.model} has none."
            )
        wanted = {**LOGGED, REWARD: labels[0], **columns}
        own = {name.lower(): name for name in rows.schema.names}
        for keyword, name in wanted.items():
            if name.lower() not in own:
                raise StatementError(
                    f"ML.OFF_POLICY needs a row for each candidate with {keyword}, and the query returns no column {name}. "
                    f"Name another: {keyword} column.{suggestion(name, rows.schema.names)}"
                )
        self._columns = {keyword: own[name.lower()] for keyword, name in wanted.items()}
        lowered = [label.lower() for label in labels]
        self._place = lowered.index(wanted[REWARD].lower()) if wanted[REWARD].lower() in lowered else 0
        if not isinstance(rows.found, Staged) and not overlap:
            refuse_learned(version, rows.found)

    def measure(self, folder: Path, reporter: Reporter) -> pa.Table:
        """Score the candidates and return a row for each estimator.

        Args:
            folder: see Evaluation.measure.

        Raises:
            DataError: there are no rows; a request has no chosen candidate or several, or what was shown has no reward or
                propensity.
        """
        candidates = candidates_of(self._read(folder, reporter), self._columns, self._algorithm.classifier)
        policy = self._policy.propensities(candidates.scores, candidates.starts)
        decided = decided_by(candidates, policy)
        weight = np.minimum(decided.weight, self._clip)
        effective = effective_rows(weight)
        found: Mapping[str, Estimate | None] = dict.fromkeys(ESTIMATORS)
        if effective >= ENOUGH:
            found = estimates(decided, self._clip, candidates.groups, SEED)
        else:
            reporter.note(
                f"The weights of {len(weight):,} requests are worth as much as {effective:.0f} rows, and {ENOUGH} at least are "
                "needed for an estimate: log more requests, explore more, or judge a policy that is nearer to the one that "
                "decided."
            )
        shared = {
            "logged": float(decided.reward.mean()),
            "requests": len(weight),
            "groups": len(np.unique(candidates.groups)) if len(candidates.groups) else None,
            "effective_rows": effective,
            "max_weight": float(decided.weight.max()),
            "unsupported": unsupported(candidates, policy),
        }
        rows = [{"estimator": name, **shared, **shown(one)} for name, one in found.items()]
        return pa.Table.from_pylist(rows, SCHEMA)

    def _read(self, folder: Path, reporter: Reporter) -> pa.Table:
        """Return the columns of the log, and `predicted`, of every candidate."""
        scan = staged(self._engine, self._query, self._found, folder / "input")
        carried = list(dict.fromkeys(self._columns.values()))
        request = request_of(self._version, scan, self._inputs, carried)
        parts, done = [], 0
        reporter.start(f"ML.OFF_POLICY of {self._version.manifest.model} v{self._version.number}", None)
        try:
            for one in scored(request, self._engine.tasks, folder, reporter):
                predicted = pa.array(one.predictions[:, self._place].astype(np.float64))
                columns = {keyword: one.rows.column(name) for keyword, name in self._columns.items()}
                parts.append(pa.table({**columns, "predicted": predicted}))
                done += len(predicted)
                reporter.update(done, {})
        finally:
            reporter.finish("")
        if not done:
            raise DataError("ML.OFF_POLICY needs rows of requests that were decided, and the query returns none.")
        return pa.concat_tables([part.unify_dictionaries() for part in parts], promote_options="permissive")


def shown(estimate: Estimate | None) -> dict[str, float | None]:
    """Return the columns of an estimate; none are known where there is none."""
    if estimate is None:
        return {}
    value, gain = estimate
    named = {"value": value.first, "low": value.low, "high": value.high}
    return {**named, "gain": gain.difference, "gain_low": gain.low, "gain_high": gain.high}


def refuse_learned(version: Version, scan: Scan) -> None:
    """Refuse to read files that a version learned from.

    Raises:
        StatementError: it would.
    """
    learned = {split.path for split in version.manifest.splits if isinstance(split, RowGroup)}
    both = sorted(learned & {split.path for split in scan.splits() if isinstance(split, RowGroup)})
    if both:
        raise StatementError(
            f"{version.manifest.model} v{version.number} learned from {both[0]}, which the query reads: it would be judged by "
            "what it has seen, and look better than it is. Give requests that came later, or write WITH (overlap = true)."
        )


def candidates_of(rows: pa.Table, names: Mapping[str, str], classifier: bool) -> DecisionLog:
    """Return the candidates of a log in order of their requests.

    Args:
        rows: a column for each keyword, and `predicted`.
        names: what the log calls them, for messages.

    Raises:
        DataError: see OffPolicy.measure.
    """
    requests = codes(rows.column(REQUEST), names[REQUEST])
    order = np.argsort(requests, kind="stable")
    requests = requests[order]
    starts = np.flatnonzero(np.diff(requests, prepend=-1))
    ids = rows.column(REQUEST).take(order)

    def request(at: int) -> str:
        return f"the request {ids[int(at)].as_py()!r}"

    taken = flags(rows.column(CHOSEN), names[CHOSEN])[order]
    counts = np.add.reduceat(taken.astype(np.int64), starts)
    if (counts != 1).any():
        at = int(np.argmax(counts != 1))
        raise DataError(
            f"{names[CHOSEN]} must be true in one row of each request; {request(starts[at])} has {counts[at]}. Give all "
            "candidates of a request, each once: a join may have repeated them."
        )
    chosen = np.flatnonzero(taken)
    reward, propensity, predicted = (floats(rows.column(name))[order] for name in (REWARD, PROPENSITY, "predicted"))
    for values, keyword, good, wanted in (
        (reward, REWARD, np.isfinite(reward[chosen]), "a finite number of what was shown; write coalesce(..., 0)"),
        (
            propensity,
            PROPENSITY,
            (propensity[chosen] > 0) & (propensity[chosen] <= 1),
            "above 0 and at most 1 of what was shown",
        ),
    ):
        if not good.all():
            at = int(chosen[np.argmin(good)])
            raise DataError(f"{names[keyword]} must be {wanted}; {request(at)} has {values[at]}.")
    if ACTION in names:
        check_actions(codes(rows.column(ACTION), names[ACTION])[order], requests, names[ACTION], request)
    groups = np.empty(0, np.int64)
    if GROUP in names:
        groups = np.unique(codes(rows.column(GROUP), names[GROUP])[order][starts], return_inverse=True)[1]
    return DecisionLog(starts, chosen, reward, predicted, scores_of(predicted, classifier), propensity, groups)


def check_actions(actions: NDArray[np.int64], requests: NDArray[np.int64], name: str, request: Callable[[int], str]) -> None:
    """Refuse an action that comes twice in a request.

    Raises:
        DataError: it does.
    """
    order = np.lexsort((actions, requests))
    same = (np.diff(actions[order]) == 0) & (np.diff(requests[order]) == 0)
    if same.any():
        said = request(int(order[np.argmax(same)]))
        raise DataError(f"{name} comes twice in {said}: give each candidate once. A join may have repeated it.")


def decided_by(candidates: DecisionLog, policy: Doubles) -> Decided:
    """Return the requests for the estimators, under a policy's probabilities of candidates."""
    chosen = candidates.chosen
    return Decided(
        candidates.reward[chosen],
        policy[chosen] / candidates.propensity[chosen],
        candidates.expected[chosen],
        np.add.reduceat(policy * candidates.expected, candidates.starts),
    )


def unsupported(candidates: DecisionLog, policy: Doubles) -> float | None:
    """Return the share of decisions of a policy that the log could not have made; None where it does not know."""
    if np.isnan(candidates.propensity).any():
        return None
    return float((policy * (candidates.propensity <= 0)).sum() / len(candidates.starts))


def codes(column: pa.ChunkedArray, name: str) -> NDArray[np.int64]:
    """Return a number for each distinct value.

    Raises:
        DataError: one is NULL.
    """
    if column.null_count:
        raise DataError(
            f"{name} is NULL in {column.null_count:,} rows. Filter them out: such requests were not decided by a policy."
        )
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    encoded = column.combine_chunks().dictionary_encode()
    found: NDArray[np.int64] = encoded.indices.to_numpy().astype(np.int64)
    return found


def flags(column: pa.ChunkedArray, name: str) -> NDArray[np.bool_]:
    """Return booleans, or numbers of 0 and 1.

    Raises:
        DataError: a value is neither.
    """
    values = floats(column)
    if not ((values == 0) | (values == 1)).all():
        raise DataError(f"{name} must be true or false, or 1 and 0.")
    found: NDArray[np.bool_] = values == 1
    return found


def floats(column: pa.ChunkedArray) -> Doubles:
    """Return numbers, NaN for NULL."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    return np.asarray(column.cast(pa.float64()).to_numpy(), np.float64)
