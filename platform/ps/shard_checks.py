"""Validation of pulls and pushes against a shard, before anything is applied.

So no request makes the shard take more memory than the message's length and the tables account for, or leaves it half changed.
The checks take the same few microseconds for any number of keys.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import TrainingError
from .compiled.ladder import most_padded
from .messages import BatchId, Keys, OutputGradients, Push
from .networks.network_messages import Codes, OutputsAsked
from .networks.runs import NetworkRuns, Networks, ShardNetwork
from .shard import Shard
from .transport.checks import COUNT, WORD, check_names, check_shape, check_vector, check_within


def check_pull(keys: Keys, size: int) -> None:
    """Require one-dimensional keys, and a size that a ladder pads that many keys to.

    Raises:
        TrainingError: they do not fit.
    """
    n = check_vector("keys", keys)
    check_within(f"the padded size of {n} keys", size, range(n, most_padded(n) + 1))


def check_batch(batch: BatchId) -> None:
    """Require numbers of a batch that programs can draw from.

    Raises:
        TrainingError: one is out of range.
    """
    for name, number in zip(BatchId._fields, batch, strict=True):
        check_within(f"{name} of a batch", number, COUNT if name == "before" else WORD)


def check_codes(name: str, codes: Codes, network: ShardNetwork) -> int:
    """Require codes of vectors, ascending; return how many they are.

    Raises:
        TrainingError: they are others.
    """
    n = check_vector(f"codes of {name}", codes)
    if n:
        check_within(f"the first code of {name}", int(codes[0]), range(1, network.count))
        check_within(f"the last code of {name}", int(codes[-1]), range(1, network.count))
        if not (codes[1:] > codes[:-1]).all():
            raise TrainingError(f"Expected codes of {name} in ascending order.")
    return n


def check_asked(asked: OutputsAsked, networks: Networks) -> None:
    """Require a request for outputs of all networks.

    Raises:
        TrainingError: it is another one.
    """
    check_names("the vectors asked for", asked.codes, networks, networks)
    for name, codes in asked.codes.items():
        check_codes(name, codes, networks[name])


def check_outputs(outputs: Mapping[str, OutputGradients], networks: Networks) -> None:
    """Require gradients of the outputs of all networks.

    Raises:
        TrainingError: they are others.
    """
    check_names("the vectors of gradients", outputs, networks, networks)
    for name, (codes, gradients, examples) in outputs.items():
        check_within(f"examples of {name}", examples, WORD)
        check_shape(f"gradients of {name}", gradients, (check_codes(name, codes, networks[name]), networks[name].dim))


class PushChecks:
    """Checks that a push fits a shard.

    Args:
        shard: whose tables and dense parameters it is for; they are there, empty or not.
        networks: that it runs; None: none.
    """

    def __init__(self, shard: Shard, networks: NetworkRuns | None = None) -> None:
        self._shard = shard
        self._networks: Networks = {} if networks is None else networks.networks
        programs = [table.programs for table in shard.tables.values()]
        self._dims = {name: one.spec.dim for rows in programs for name, one in rows.tables.items()}
        self._pulled = [name for rows in programs for name in rows.needs_pulled]
        self._shapes = shard.dense.shapes

    def check(self, push: Push) -> None:
        """Require a push that fits.

        Raises:
            TrainingError: it does not; nothing of it is applied.
        """
        touched, first = push.touched, next(iter(self._dims))
        n = check_vector("keys", touched.keys)
        for name in ("slots", "counts", "clicks"):
            check_shape(name, getattr(touched, name), (n,))
        check_within("time_seconds", touched.time_seconds, WORD)
        check_batch(touched.batch)
        check_within("examples", touched.examples, WORD)
        check_within("positives", touched.positives, WORD)
        check_names("the tables of gradients", push.gradients, self._dims, self._dims)
        check_names("the tables of weights", push.weights, self._pulled, self._dims)
        check_names("the tables of updates", push.updates, (), self._shard.tables)
        size = len(push.gradients[first]) if push.gradients[first].ndim else 0
        check_within(f"the rows of gradients of {n} keys", size, range(n, most_padded(n) + 1))
        for what, by_table in (("gradients", push.gradients), ("weights", push.weights)):
            for name, rows in by_table.items():
                check_shape(f"{what} of {name}", rows, (size, self._dims[name]))
        for name, counts in push.updates.items():
            check_shape(f"updates of {name}", counts, (n,))
        if push.outputs or self._networks:
            check_outputs(push.outputs, self._networks)
        self._check_rest(push)

    def _check_rest(self, push: Push) -> None:
        """Check dense parameters and statistics of continuous slots; those for other shards are ignored later."""
        for name, gradient in push.dense.items():
            if name in self._shapes:
                check_shape(f"the gradient of {name}", gradient, self._shapes[name])
        dense = self._shard.dense
        check_names("dense parameters as pulled", push.dense_weights, push.dense.keys() & dense.pulled, push.dense)
        check_names("updates of dense parameters", push.dense_updates, push.dense.keys() & dense.dated, push.dense)
        for name, pulled in push.dense_weights.items():
            if name in self._shapes:
                check_shape(f"the values of {name}", pulled, self._shapes[name])
        if num_slots := len(self._shard.moments.count):
            for name, values in zip(push.moments._fields, push.moments, strict=True):
                check_shape(f"{name} of continuous slots", values, (num_slots,))
