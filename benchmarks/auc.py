"""Print the AUC of predictions, one a line, of the rows of a Parquet file.

python -m benchmarks.auc FILE PREDICTIONS
"""

from __future__ import annotations

import sys

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray


def auc(labels: NDArray[np.bool_], scores: NDArray[np.float64]) -> float:
    """Return the area under the ROC curve; ties count one half."""
    _, group, sizes = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(sizes) - (sizes - 1) / 2)[group]
    positives = int(labels.sum())
    return float((ranks[labels].sum() - positives * (positives + 1) / 2) / (positives * (len(labels) - positives)))


if __name__ == "__main__":
    print(auc(pq.read_table(sys.argv[1], columns=["label"])["label"].to_numpy() == 1, np.loadtxt(sys.argv[2])))
