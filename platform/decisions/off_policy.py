"""ML.OFF_POLICY: what a version would have earned on requests that a service decided, one row per candidate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ...warehouse.entries import RowGroup
from ..engines.base import Engine, Scan, Staged
from ..engines.staging import staged
from ..errors import DataError, StatementError, Subject, suggestion
from ..input.columns import columns_from
from ..input.slot_types import require_number
from ..scoring.prediction import request_of, scored
from ..scoring.rows import rows_of
from ..training.policies.decision_log import ENOUGH, LOGGED, NUMBERS, REWARD, SEED, candidates_of, decided_by, unsupported
from ..training.policies.estimators import ESTIMATORS, Estimate, effective_rows, estimates
from ..training.policies.policies import Policy
from ..training.recipe import algorithm_of

if TYPE_CHECKING:
    from ...warehouse.version import Version
    from ..progress import Reporter

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


class OffPolicy:
    """A version's policy on a log of decisions, checked and to be estimated.

    Args:
        columns: of the log, by keyword; those that are missing have the names of a log of xpsql serve.
        clip: the largest weight.
        overlap: rows that the version learned from are allowed.

    Raises:
        StatementError: the query cannot run, lacks a column, has texts for numbers, or reads files that the version learned
            from.
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
        if not labels or not self._algorithm.values:
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
        for keyword in NUMBERS:
            require_number(rows.schema.field(self._columns[keyword]), Subject(keyword))
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
