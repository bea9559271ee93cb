"""REPRODUCE MODEL: a version made again in a scratch folder, and compared with what it is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version as version_of
from typing import TYPE_CHECKING

import pyarrow as pa

from ...warehouse.durable import link_tree
from ...warehouse.folders import COMMITTED
from ...warehouse.manifest import FILE
from ...warehouse.models import Models
from ...warehouse.scratch import scratch
from ..engines.base import Engine
from ..errors import ModelError, TrainingError
from ..training.clauses.release import RELEASE
from ..training.plan import Plan
from ..training.provenance.environment import environment
from ..training.provenance.sources import ROWS, sources_of
from ..training.start import train
from .compared import RUNS, Compared, compared, spread

if TYPE_CHECKING:
    from ...warehouse.entries import SourceEntry
    from ...warehouse.manifest import Manifest
    from ...warehouse.version import Version
    from ..progress import Reporter

SCHEMA = pa.schema(
    [("kind", pa.string()), ("name", pa.string()), ("expected", pa.string()), ("found", pa.string()), ("equal", pa.bool_())]
)


def reproduce(
    version: Version,
    plan_of: Callable[[Manifest], Plan],
    engine: Engine,
    models: Models,
    reporter: Reporter,
    keep: Callable[[Version], None] | None = None,
    whole: bool = False,
) -> pa.Table:
    """Train a version again, and return what was compared, row by row; the last one says how equal it is.

    Args:
        plan_of: returns the plan of a training, from its manifest.
        keep: takes what was made, also if it differs, before that is removed.
        whole: train its ancestors again, too, from the first, instead of going on from its parent as that is.

    Raises:
        StatementError, ModelError: it cannot be made again.
        TrainingError: it differs; its notes say which of what it was made from has changed.
    """
    line = lineage(version, models) if whole else [version]
    for one in line:
        check(one, models)
    plans = [plan_of(one.manifest) for one in line]
    before = [fact for one, plan in zip(line, plans, strict=True) for fact in facts_now(one, plan, engine, version)]
    for fact in before:  # first, so that a difference has a cause
        if not fact.equal:
            reporter.note(f"The {fact.kind} {fact.name} is another one: {fact.expected} then, {fact.found} now.")
    free = any(p.settings.sync != "bsp" and one.manifest.sizes.workers > 1 for p, one in zip(plans, line, strict=True))
    pins = [pinned(plan, one.manifest) for plan, one in zip(plans, line, strict=True)]
    with scratch(models.warehouse) as folder:
        runs = []
        for run in range(RUNS if free else 1):
            copies = Models(folder / str(run))
            if not whole:
                with_ancestors(version, models, copies)
            runs.append(trained_again(pins, whole, engine, copies, reporter))
        made = [run[-1] for run in runs]
        before += rows_again(line, runs[0])
        if keep is not None:
            keep(made[0])
        changed = [fact for fact in before if not fact.equal]
        if free:
            found, result = spread(version.manifest, made), f"within the spread of {RUNS} runs"
        else:
            found, result = compared_line(line, runs[0], [fact for fact in changed if fact.kind == "environment"])
    differs = [fact for fact in found if not fact.equal]
    if differs:
        raise not_equal(version, differs, changed)
    last = Compared("result", f"{version.manifest.model} v{version.number}", None, result, True)
    return pa.Table.from_pylist([one._asdict() for one in (*before, *found, last)], SCHEMA)


def lineage(version: Version, models: Models) -> list[Version]:
    """Return a version and its ancestors, the first one first.

    Raises:
        ModelError: one is gone, see check.
    """
    line = [version]
    while (parent := line[0].manifest.parent) is not None:
        check(line[0], models)
        line.insert(0, models.find(version.manifest.model, parent))
    return line


def facts_now(one: Version, plan: Plan, engine: Engine, of: Version) -> Iterator[Compared]:
    """Compare what a version was made from then and now; ancestors of the one that is wanted are named."""
    for fact in (*sources(one.manifest, plan, engine), *environments(one.manifest)):
        yield named(fact, one, of)


def named(fact: Compared, one: Version, of: Version) -> Compared:
    return fact if one.number == of.number else fact._replace(name=f"{fact.name} of v{one.number}")


def trained_again(pins: Sequence[Plan], whole: bool, engine: Engine, copies: Models, reporter: Reporter) -> list[Version]:
    """Train plans, where whole each on the version of the one before, and return their versions."""
    made: list[Version] = []
    for plan in pins:
        own = dataclasses.replace(plan, parent=made[-1].number if made else None) if whole else plan
        train(own, engine, copies, reporter)
        made.append(max(copies.versions(plan.model), key=lambda version: version.number))
    return made


def compared_line(line: Sequence[Version], made: Sequence[Version], elsewhere: list[Compared]) -> tuple[list[Compared], str]:
    """Compare versions with those made again; of ancestors it says the result, or the first that differs and how."""
    parents = list[Compared]()
    for one, other in zip(line[:-1], made[:-1], strict=True):
        found, result = compared(one, other, elsewhere)
        if differs := [fact for fact in found if not fact.equal]:
            where = f", of its ancestor v{one.number}"
            return [fact._replace(found=f"{fact.found}{where}") for fact in differs], ""
        parents.append(Compared("parent", f"{one.manifest.model} v{one.number}", None, result, True))
    found, result = compared(line[-1], made[-1], elsewhere)
    return [*parents, *found], result


def check(version: Version, models: Models) -> None:
    """Refuse versions that no statement makes again.

    Raises:
        ModelError: says why, and what to do.
    """
    manifest, name = version.manifest, f"Version {version.number} of {version.manifest.model}"
    if not manifest.learned.examples or manifest.learned.origin.merged:
        made_of = f"its parent, version {manifest.parent}" if manifest.parent else "the versions that it was made of"
        raise ModelError(f"{name} was not made by a training. REPRODUCE {made_of}.")
    if manifest.stream.name is not None:
        raise ModelError(
            f"{name} learned from the stream {manifest.stream.name}, whose messages are read once. Keep what arrives in a "
            "table, and TRAIN on that, to make versions again."
        )
    if version.is_delta:
        raise ModelError(f"{name} has only the rows that it changed. REPRODUCE a version that has all rows.")
    if manifest.parent is not None:
        try:
            models.find(manifest.model, manifest.parent)
        except ModelError as error:
            raise ModelError(
                f"{name} continues version {manifest.parent}, which no longer exists: keep ancestors as long as you want to "
                "make a version again."
            ) from error


def pinned(plan: Plan, manifest: Manifest) -> Plan:
    """Return the plan with what rules decided by cores, without a gate or a name."""
    sizes, settings = manifest.sizes, dataclasses.replace(plan.settings, once=None)
    if sizes.shards:
        settings = dataclasses.replace(
            settings, batch_size=sizes.batch_size, shards=sizes.shards, workers=sizes.workers, target=None, price=None
        )
    return dataclasses.replace(plan, settings=settings, replace=False).having(RELEASE, None)


def with_ancestors(version: Version, models: Models, copies: Models) -> None:
    """Give the version that one goes on from, and what that is read from, a second place."""
    manifest = version.manifest
    if manifest.parent is None:
        return
    for one in models.versions(manifest.model):
        if one.number <= manifest.parent and one.manifest.status in COMMITTED:
            to = copies.folder / one.folder.parent.name / one.folder.name
            to.mkdir(parents=True)
            (to / FILE).write_bytes((one.folder / FILE).read_bytes())
            for path in one.folder.iterdir():
                if path.is_dir():
                    link_tree(path, to / path.name)


def sources(manifest: Manifest, plan: Plan, engine: Engine) -> Iterator[Compared]:
    """Compare what the queries read then with what they would read now."""
    now = {(one.kind, one.name): one for one in sources_of(plan, engine)}
    for source in manifest.sources:
        if source.kind == ROWS:  # known once the query ran again
            continue
        found = now.get((source.kind, source.name))
        expected, digest = described(source), None if found is None else described(found)
        yield Compared("source", source.name, expected, digest or "gone", expected == digest)


def rows_again(line: Sequence[Version], made: Sequence[Version]) -> list[Compared]:
    """Compare the rows that queries gave then with those that they gave now, where they could not be read in place."""
    facts = list[Compared]()
    for one, other in zip(line, made, strict=True):
        then, now = (
            {source.name: source.digest for source in each.manifest.sources if source.kind == ROWS} for each in (one, other)
        )
        found = [Compared(ROWS, name, digest, now.get(name), digest == now.get(name)) for name, digest in then.items()]
        facts += [named(fact, one, line[-1]) for fact in found]
    return facts


def described(source: SourceEntry) -> str:
    """Return what tells a source from another of its name."""
    return source.digest or source.snapshot or "known only by name"


def environments(manifest: Manifest) -> Iterator[Compared]:
    """Compare packages, builds and the processor then with those now."""
    here = {"xpsql": version_of("xpsql"), **environment()}
    for name, expected in manifest.environment.items():
        yield Compared("environment", name, expected, here.get(name), expected == here.get(name))


def not_equal(version: Version, differs: list[Compared], changed: list[Compared]) -> TrainingError:
    """Return the error of a version that came out otherwise."""
    first = differs[0]
    what = "; ".join(f"{one.name}: {one.found}, expected {one.expected}" for one in differs[:3])
    error = TrainingError(
        f"Version {version.number} of {version.manifest.model} cannot be made again as it was: "
        f"{first.found if first.kind == 'rows' else what}."
    )
    for one in changed:
        error.add_note(f"The {one.kind} {one.name} has changed: {one.expected} then, {one.found} now.")
    if not changed:
        error.add_note("What it was made from is the same as far as is known: does its query depend on time, chance or order?")
    return error
