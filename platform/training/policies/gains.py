"""What the model of a training would earn on rows held out that a service decided: `validation.gain` of RELEASE WHEN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ...errors import StatementError
from ...input.slot_types import require_number
from ..clauses.release import RELEASE
from ..clauses.validate import VALIDATE
from ..metrics.validations import GainOnLog
from .decision_log import CHOSEN, ENOUGH, LOGGED, PROPENSITY, REWARD, SEED, candidates_of, decided_by
from .estimators import Doubles, effective_rows, estimates
from .policies import Policy

if TYPE_CHECKING:
    from ....warehouse.entries import Split
    from ...engines.base import Scan

CLIP = 20.0
"""The largest weight."""
ESTIMATOR = "dr"
GREEDY = Policy("greedy")


def logged_in(schema: pa.Schema) -> dict[str, str]:
    """Return the columns of decisions by keyword, as a log of xpsql serve calls them, in the spelling of a schema.

    Raises:
        StatementError: one is missing, or has texts for numbers.
    """
    own = {name.lower(): name for name in schema.names}
    for name in LOGGED.values():
        if name not in own:
            raise StatementError(
                f"{RELEASE} WHEN names validation.gain, and {VALIDATE} ON (query) returns no column {name}: it needs a row for "
                f"each candidate of requests that were decided, with {', '.join(LOGGED.values())}, as xpsql serve --explore "
                "logs them. Select yours AS these.",
                subject=VALIDATE.subject,
            )
    for keyword in (CHOSEN, PROPENSITY):
        require_number(schema.field(own[LOGGED[keyword]]), VALIDATE.subject)
    return {keyword: own[name] for keyword, name in LOGGED.items()}


class Gains:
    """Candidates of requests, which one was shown, and what it earned.

    Args:
        splits: of the scan, in the order in which their rows are predicted.
        reward: the label.

    Raises:
        DataError: they are no log of decisions.
    """

    def __init__(self, scan: Scan, splits: Sequence[Split], reward: str, classifier: bool, chunk_rows: int) -> None:
        self._names, self._classifier = {**logged_in(scan.schema), REWARD: reward}, classifier
        columns = list(dict.fromkeys(self._names.values()))
        tables = [table for split in splits for table in scan.read(split, columns, chunk_rows)]
        rows = pa.concat_tables(tables, promote_options="permissive")
        self._rows = pa.table({keyword: rows.column(name) for keyword, name in self._names.items()}).unify_dictionaries()
        self.gain(np.full(rows.num_rows, 0.5))

    def gain(self, predicted: Doubles) -> GainOnLog:
        """Return what choosing the candidate of the highest prediction would earn beyond what the log earned a request."""
        rows = self._rows.append_column("predicted", pa.array(predicted))
        candidates = candidates_of(rows, self._names, self._classifier)
        decided = decided_by(candidates, GREEDY.propensities(candidates.scores, candidates.starts))
        effective = effective_rows(np.minimum(decided.weight, CLIP))
        if effective < ENOUGH:
            return GainOnLog(None, None, None, effective)
        found = estimates(decided, CLIP, candidates.groups, SEED)[ESTIMATOR].gain
        return GainOnLog(found.difference, found.low, found.high, effective)


def too_few(gain: GainOnLog) -> str:
    """Return why a gain is not known, and what to do."""
    return (
        f"the weights of the requests tell as much as {gain.effective_rows:.0f} rows, and {ENOUGH} at least are needed: hold "
        "out more, or explore more"
    )
