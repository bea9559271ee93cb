"""ML.EVALUATE of a model without labels: the mean of what its training minimises."""

from __future__ import annotations

import numpy as np

from ...algorithms.base import Algorithm
from ..input.batches import Ladders
from ..input.columns import columns_in
from ..input.encoder import Encoder
from ..input.positives import Taking
from ..input.scaling import moments_in, scale
from ..input.splits import chunk_rows
from ..ps.compiled.ladder import Ladder
from ..ps.messages import BatchId
from ..training.clauses.label import LABEL
from ..training.metrics.metrics import Metrics, Targets
from ..training.online.planting import tree_of
from ..training.online.step import chosen, inputs_of, loss_step
from .scorer import BATCH_SIZES, Request
from .weights import Weights


def losses_of(request: Request, algorithm: Algorithm) -> Metrics:
    """Return the metrics of a model without labels on the rows of a query, in this process; the loss is `mae`.

    Random draws are a function of the model's seed and of the rows. Where they have the label of a model that learned from what
    was taken, those are measured that were.
    """
    version, size, scan = request.version, BATCH_SIZES[-1], request.scan
    if (label := LABEL.kept(version.manifest).positive) is not None and label.lower() in {
        name.lower() for name in scan.schema.names
    }:
        scan = Taking(label, None).rows(scan)
    step, ladders = loss_step(algorithm), Ladders(Ladder(), Ladder())
    columns = columns_in(version)
    tree = None if algorithm.tree is None else tree_of(version)
    encoder = Encoder(columns, algorithm, version.manifest.seed, False, tree)
    weights, moments = Weights(version, 0, 1), moments_in(version.manifest, columns)
    metrics = Metrics(Targets.of((), algorithm.measured, grouped=False).traits)
    for number, split in enumerate(request.splits):
        which = BatchId(split=number)
        for table in scan.read(split, list(request.inputs.values()), chunk_rows(size)):
            chunk = encoder.unlabelled(table.rename_columns(list(request.inputs)))
            for batch in encoder.batches(chunk, size, which, ladders, 0):
                pulled, dense = weights.pull(batch.keys, batch.size), scale(batch.dense, moments, len(batch.weight))
                batch = chosen(algorithm, batch, pulled)
                found = step({**pulled.weights, **pulled.dense}, inputs_of(batch, dense, None))
                values = np.asarray(found)[: batch.examples]
                metrics.add(np.zeros(batch.examples, np.float32), values if values.shape[1] > 1 else values[:, 0])
                which = batch.id._replace(batch=batch.id.batch + 1)
    return metrics
