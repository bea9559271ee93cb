"""A training by another package: the query's rows become a matrix, here or in several tasks, and the package's model a file."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from ....warehouse.package import write_package
from ...cores import cores
from ...engines.tasks import Tasks
from ...errors import LostError
from ...ps.messages import Description
from ...ps.moments import no_moments
from ...ps.transport.over_sockets import SOCKETS
from ..checkpoints.recovery import Recoveries, begun_again
from ..metrics.metrics import Tally
from ..metrics.passes import PassTally
from ..monitor import Monitor
from ..prepared import Prepared
from ..row_files.saved import SavedShards
from ..solved.examples import KeyedFeatures
from ..solved.rates import OfferedColumns
from ..solved.solve import Columns, found_in, rows_of, stored_rows, write
from .examples import Numbers, PackageExamples, learner_of, model_before
from .judging import judge_of
from .matrix import TABLE

if TYPE_CHECKING:
    from ....warehouse.draft import Draft


def learn_here(prepared: Prepared, draft: Draft, monitor: Monitor) -> SavedShards:
    """Number the categories, let the package learn, and write both.

    Raises:
        DataError: see Examples.
    """
    examples, before = PackageExamples(prepared, range(len(prepared.splits))), stored_rows(prepared, TABLE)
    numbers = numbered(examples.features, before, most := learner_of(prepared).categories)
    tell_cut(examples.features, numbers, most, prepared, monitor)
    judge = judge_of(prepared, examples.features, numbers, examples.examples, monitor)
    model, found = examples.learn(numbers, prepared.plan.settings.workers or cores(), None, judge)
    if judge is not None:
        judge.end()
    return kept(prepared, draft, monitor, examples.features, examples.kept, numbers, model, [found])


def learn_on(tasks: Tasks, prepared: Prepared, draft: Draft, monitor: Monitor) -> SavedShards:
    """Learn on an engine's tasks: each has some of the examples, and the package's processes learn together.

    When one is lost, the training begins again.

    Raises:
        XpsqlError: of the first task that failed.
    """
    return begun_again(functools.partial(learn_once, tasks, prepared, draft, monitor), monitor)


def learn_once(tasks: Tasks, prepared: Prepared, draft: Draft, monitor: Monitor, recoveries: Recoveries) -> SavedShards:
    """Learn from the beginning.

    Raises:
        LostError: a task is lost.
        XpsqlError: see learn_on.
    """
    from ..tasks.cluster import cluster  # the transport takes a tenth of a second to load
    from ..tasks.job import job_of
    from .rounds import LearnerRendezvous, learn_part

    learner, count, before = learner_of(prepared), prepared.places.workers, stored_rows(prepared, TABLE)
    name, encrypt = f"{prepared.plan.model} v{draft.number}", prepared.plan.settings.encrypt
    company, left = LearnerRendezvous(count), lambda role, number: None
    with cluster(tasks, name, prepared.places, company.collective.handlers, left, None, encrypt, SOCKETS) as on:
        job = job_of(prepared, draft, on.contact, draft.manifest.epoch, "", None)
        with on.working(functools.partial(learn_part, job), count, f"xpsql: train {name}") as over:
            features = company.features(over)
            recoveries.over()
            numbers = numbered(features, before, learner.categories)
            tell_cut(features, numbers, learner.categories, prepared, monitor)
            model, measured = company.learned(numbers, over)
            with contextlib.suppress(LostError):  # nobody needs the workers any more
                company.collective.end(over)
    if (judge := judge_of(prepared, features, numbers, sum(tallies[0].examples for tallies in measured), monitor)) is not None:
        model = learner.judged(model, model_before(prepared), judge)
        judge.end()
    return kept(prepared, draft, monitor, features, company.kept, numbers, model, measured)


def kept(
    prepared: Prepared,
    draft: Draft,
    monitor: Monitor,
    features: KeyedFeatures,
    offered: OfferedColumns,
    numbers: Numbers,
    model: bytes,
    measured: Iterable[tuple[Tally, ...]],
) -> SavedShards:
    """Write a model, the numbers of categories, and what operators keep of all of them."""
    for tallies in measured:
        monitor.passes.take([PassTally(0, tallies)])
    write_package(draft.package, model)
    before, known = stored_rows(prepared, TABLE), (numbers > 0) | bool(offered.columns)
    rows = rows_of(features.only(known), numbers[known][:, None].astype(np.float64), before)
    saved = write(draft, offered.beside(rows))
    now, scaled = int(features.last_seen.max(initial=0)), len(prepared.columns.scaled)
    return SavedShards(saved, Description(saved.rows, 0, now, {}, no_moments(scaled), saved.min_weight, saved.max_weight))


def tell_cut(features: KeyedFeatures, numbers: Numbers, most: int, prepared: Prepared, monitor: Monitor) -> None:
    """Report the slots of which some values have no number."""
    names = prepared.columns.slot_names
    for slot in np.unique(features.slots[numbers == 0]):
        own = features.slots == slot
        cut, counts = own & (numbers == 0), features.counts
        share = counts[cut].sum() / max(counts[own].sum(), 1)
        monitor.note(
            f"{names[int(slot)]} has {np.count_nonzero(own):,} values, of which categories = {most:,} keeps the most frequent "
            f"apart: the others, {share:.0%} of the slot's occurrences, count as missing. "
            "Raise categories where each has many rows, or use xftrl or xnn, which learn each value."
        )


def numbered(features: KeyedFeatures, before: Columns, most: int) -> Numbers:
    """Return the number of each feature among its slot's categories, from 1 on; 0 for those beyond `most`.

    The more frequent comes first, among equals the lesser key. Categories that a version before has keep their numbers.
    """
    numbers = np.zeros(len(features.keys), np.float32)
    known, place = found_in(before["key"], features.keys)
    if known.any():
        numbers[known] = before["w"][place[known], 0]
    for slot in np.unique(features.slots):
        taken = 0
        if len(before["key"]):
            taken = int(before["w"][before["slot"] == slot, 0].max(initial=0))
        new = np.flatnonzero((features.slots == slot) & ~known)
        order = new[np.argsort(-features.counts[new], kind="stable")][: max(0, most - taken)]
        numbers[order] = np.arange(taken + 1, taken + 1 + len(order))
    return numbers
