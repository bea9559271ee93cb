"""EXPLAIN TRAIN: what a training would do, and its cost by a sample of its input, which is forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pyarrow as pa

from ...warehouse.files import VersionFiles
from ..cores import cores
from ..display import listed, plural, size_text
from ..engines.base import Engine, Scan, Staged
from ..errors import StatementError
from ..input.columns import Columns
from ..input.encoder import Encoder
from ..input.hold_out import HeldOut
from ..input.runs.event_order import REASON
from ..input.streams.base import StreamQuery
from ..options import events_read
from ..ps.compiled.table_programs import Programs
from ..ps.dense import size
from .clauses.column_roles import EDGE_SOURCE, EDGE_TARGET
from .clauses.evaluate import EVALUATE
from .clauses.settings import ALL, NONE, REST
from .clauses.validate import VALIDATE, Validate
from .clauses.weight import WEIGHT
from .clauses.weight import shown as weight_rows
from .compiled import prepare_jax
from .estimates import Cost, compact_text, estimated_bytes, held_bytes, row_bytes
from .held_rows import usual
from .metrics.remarks import SlotCounts, remarks, seen_at_first
from .metrics.windows import Schedule, without_windows
from .online.compute import compute_rows, event_rows
from .parallelism import Places, passes_of
from .plan import Plan
from .planning.targets import cost_of, duration, planned, rows_of, targeted
from .preparation.base import Mode, Preparation
from .preparation.stages import checked, prepared
from .preparation.vectors_run import described
from .prepared import Prepared
from .recipe import Recipe
from .segment import taken

if TYPE_CHECKING:
    from ...algorithms.base import Algorithm
    from ...warehouse.models import Models
    from ...warehouse.version import Version

Rows = list[tuple[str, str]]
CHECKPOINT_BYTES_PER_SECOND = 500e6
UNKNOWN = "known once the query has run"
JUDGED = "the beginning of the input"
SAMPLED = "about: by the share that filters leave of a sample"
BEGIN_SECONDS = 0.12
"""What it takes to begin a training and to commit its version, here."""
EXAMPLES_PER_SECOND = 300_000
"""What a worker takes of usual rows, where nobody measures."""


def explain(plan: Plan, engine: Engine, models: Models, fast: bool) -> pa.Table:
    """Describe a training: property and value, a row each; first what it takes and gives, then the details.

    Args:
        fast: no sample is learned from.

    Raises:
        StatementError, ModelError: whatever would stop the training before it starts.
    """
    prepare_jax()
    with TemporaryDirectory() as folder:
        return explained(plan, engine, models, fast, Path(folder))


def explained(plan: Plan, engine: Engine, models: Models, fast: bool, folder: Path) -> pa.Table:
    """See explain; `folder`: where items go."""
    parent = models.version(plan.model, plan.parent) if plan.parent is not None else None
    scan = engine.scan(plan.query) if plan.stream is None else scan_of(plan.stream, plan, engine, models, parent)
    if events_read(plan.algorithm.options):
        scan = Staged(scan.schema, REASON)
    notes: list[str] = []
    given = Preparation(Mode.EXPLAIN, plan, engine, engine.tasks, parent, scan, None, notes.append, quick=fast)
    given = checked(given)
    made = None if isinstance(scan, Staged) else prepared(given, VersionFiles(folder))
    columns, recipe = (given.columns, given.recipe) if made is None else (made.columns, made.recipe)
    summary, details = staged_rows(given, scan) if isinstance(scan, Staged) else ([], [])
    if made is not None:
        summary, details = input_rows(made, engine, fast)
    details += [*slot_rows(columns), *role_rows(columns, plan)]
    if given.taking is not None and given.taking.items is not None:
        details.append(("items", f"one a row by {given.taking.items.item}, of which rows of the query take the other columns"))
    details += vector_rows(columns, made)
    details += [(f"history {one.entry.name}", one.entry.text) for one in plan.histories]
    details += recipe_rows(recipe)
    tree = recipe.algorithm.tree
    if tree is not None and tree.rebuild and plan.clause(VALIDATE) is not None:
        what = f"{1 + tree.rebuild} at most, each of all passes; each but the first makes the tree anew"
        details.append(("rounds", f"{what}, and the best pass by recall on rows held out is kept"))
    if plan.settings.encrypt:
        encrypted = "nothing, in one process" if engine.tasks is None else "all connections between machines, by TLS"
        details.append(("encrypted", encrypted))
    notes += remarks(columns, None if made is None or columns.ends else seen(made), recipe.algorithm) if parent is None else []
    details += [("note", note) for note in notes]
    kind = "a new model" if parent is None else f"continues version {parent.number}"
    summary = [("model", f"{plan.model}, {kind}"), ("algorithm", plan.algorithm.name), *summary]
    rows = [*summary, *details]
    return listed(pa.table({"property": [name for name, _ in rows], "value": [value for _, value in rows]}), len(summary))


def vector_rows(columns: Columns, made: Prepared | None) -> Rows:
    """Describe vectors with ids; where they were read, with what becomes of them."""
    if made is not None and columns.sides and all(side.folder for side in columns.sides):
        return described(made)
    return [(f"vectors {side.name}", f"of {side.elements} floats, for {', '.join(side.slots)}") for side in columns.sides]


def recipe_rows(recipe: Recipe) -> Rows:
    """Describe what a training keeps: the tables, their rows, and dense parameters."""
    rows = []
    for programs in recipe.programs:
        spec = programs.spec
        rows.append((f"table {spec.name}", f"{counted('float', spec.dim)} per feature; operators: {programs.chain.name}"))
        rows.append((f"row of {spec.name}", row_text(programs)))
    return [
        *rows,
        *((f"dense {name}", dense_text(spec.shape, recipe.dense.columns[name])) for name, spec in recipe.dense.specs.items()),
    ]


def seen(prepared: Prepared) -> SlotCounts | None:
    """Return what the beginning of an input says of slots."""
    encoder = Encoder(prepared.columns, prepared.recipe.algorithm, prepared.plan.settings.seed, compact=False)
    return seen_at_first(prepared.scan, prepared.splits, prepared.columns, encoder)


def scan_of(query: StreamQuery, plan: Plan, engine: Engine, models: Models, parent: Version | None) -> Scan | Staged:
    """Return how what is new in a stream is read.

    Raises:
        StatementError: nothing is.
    """
    with taken(query, parent, engine, models.warehouse, plan.settings) as (stream, segment):
        if segment is None:
            raise StatementError(f"Nothing to learn has arrived in {stream.name}, so there is nothing to explain.")
        return segment.scan


def slot_rows(columns: Columns) -> Rows:
    shared = {slot.name: f", uses the rows of {slot.source}" for slot in columns.slots if slot.source != slot.name}
    crossed = {slot.name: f", crosses {', '.join(slot.members)}" for slot in columns.crosses}
    relations = shared | crossed
    return [(f"slot {s.name}", f"{s.kind} ({s.type}){relations.get(s.name, '')}") for s in columns.slots]


def role_rows(columns: Columns, plan: Plan) -> Rows:
    ends = [("source", plan.clause(EDGE_SOURCE)), ("target", plan.clause(EDGE_TARGET))]
    roles = [("label", ", ".join(columns.labels)), *ends, *weight_rows(plan.clause(WEIGHT)), ("time", columns.time)]
    if (classes := columns.classes) is not None:
        count = f"{len(classes.values)}: {classes.text}" if classes.known else "known once staged, by a query over the label"
        roles.append(("classes", count))
    roles += [("group", columns.group), ("ignored", ", ".join(columns.ignore))]
    return [(name, value) for name, value in roles if value]


def row_text(programs: Programs) -> str:
    kept = ", ".join(f"{name} float32[{dim}]" for name, dim in programs.dims.items())
    if programs.joins and programs.first is not None:
        return f"{kept}; {row_bytes(programs)} bytes, in the rows of {programs.first.spec.name}"
    return f"{kept}; count, updates, shows, clicks, last_seen, slot; {row_bytes(programs)} bytes with key and index"


def dense_text(shape: tuple[int, ...], columns: Sequence[str]) -> str:
    return f"float32{list(shape)}; kept by a shard as a whole: {', '.join(columns)}"


def staged_rows(given: Preparation, found: Staged) -> tuple[Rows, Rows]:
    """Describe an input that only a run of its query could show: in short, and the details."""
    plan = given.plan
    summary = [
        ("rows", UNKNOWN),
        ("passes", passes_text(plan, given.recipe.algorithm, None)),
        ("time", UNKNOWN),
        ("memory", UNKNOWN),
        ("stored", stored_text(plan, given.recipe, None)),
        ("batch size", str(plan.settings.batch_size or "by the number of rows")),
        *place_rows(given.places, plan),
        *([] if plan.settings.target is None else [("target", f"{plan.settings.target}: planned once staged")]),
    ]
    text = f"staged, as {found.reason}: the query runs once and is written as Parquet"
    return summary, [("input", text), *event_rows(given.schema, given.columns, given.recipe.algorithm, plan)]


def input_rows(prepared: Prepared, engine: Engine, fast: bool) -> tuple[Rows, Rows]:
    """Describe input, memory and time of a training that is read in place: in short, and the details."""
    cost = usual_cost(prepared) if fast else cost_of(prepared)
    made = None if prepared.plan.settings.target is None else planned(prepared, engine.tasks, cost)
    prepared = prepared if made is None else targeted(prepared, made)
    plan, places, algorithm = prepared.plan, prepared.places, prepared.recipe.algorithm
    workers = min(places.workers, cores()) if engine.tasks is None else places.workers
    seconds = BEGIN_SECONDS + cost.once + (cost.seconds * prepared.passes / workers if algorithm.serves else cost.seconds)
    validate = plan.clause(VALIDATE)
    read = prepared.scan, prepared.splits, prepared.columns, prepared.encoder
    compact = compact_text(*read, prepared.batch_size, algorithm.traits.user)
    plans = [] if made is None else rows_of(prepared, made)
    summary = [
        ("rows", rows_text(prepared)),
        ("passes", passes_text(plan, algorithm, prepared.counts.total)),
        ("time", f"about {time_text(seconds)}, {'as of usual rows' if fast else f'judged by {JUDGED}'}"),
        ("memory", memory_text(engine, cost)),
        ("stored", stored_text(plan, prepared.recipe, cost.features)),
        ("batch size", str(prepared.batch_size) if algorithm.serves else "all examples at once"),
        *place_rows(places, plan),
        *plans[:1],
    ]
    return summary, [
        ("input", prepared.scan.describe()),
        *plans[1:],
        ("checkpoints", checkpoint_text(plan, cost.size, seconds, places)),
        *compact_rows(plan, compact),
        *([] if fast else compute_rows(*read, algorithm, plan.settings.seed, prepared.batch_size)),
        *evaluation_rows(prepared.schedule),
        *([("validation", validation_text(validate, algorithm))] if validate is not None else []),
        *held_rows_of(prepared, seconds),
    ]


def time_text(seconds: float) -> str:
    """Return seconds as EXPLAIN shows them, long ones in the unit that suits them, too."""
    return f"{seconds:.2f} s" if seconds < 60 else f"{seconds:,.0f} s ({duration(seconds)})"


def memory_text(engine: Engine, cost: Cost) -> str:
    """Return what a training takes in memory: of this process, with what it has held so far, where that learns."""
    if engine.tasks is not None:
        return f"about {size_text(cost.size)} for the model, on all shards together"
    return f"about {size_text(held_bytes() + cost.size)} in this process, {size_text(cost.size)} of it for the model"


def stored_text(plan: Plan, recipe: Recipe, features: int | None) -> str:
    """Return what a version has: rows of features, and floats of layers.

    Args:
        features: None: not known yet.
    """
    if recipe.algorithm.learns.learner is not None:
        found = "" if features is None else f", about {counted('feature', features)}"
        return f"one file, as {plan.algorithm.name} writes it{found}"
    row, floats = sum(map(row_bytes, recipe.programs)), sum(map(size, recipe.dense.specs.values()))
    names = " and ".join(programs.spec.name for programs in recipe.programs)
    each = f"{row} bytes a feature" if features is None else f"about {counted('feature', features)}, {row} bytes each"
    return f"{each} in memory: {names}{f'; {floats:,} floats of layers' if floats else ''}"


def rows_text(prepared: Prepared) -> str:
    """Say how many rows are learned, and how that is known."""
    counts, validate = prepared.counts, prepared.plan.clause(VALIDATE)
    how = [] if counts.exact else [SAMPLED]
    how += [f"counted in {counts.seconds:.2f} s"] if counts.seconds else []
    how += ["without those held out"] if validate is not None and validate.share is not None else []
    return f"{counts.total:,} ({', '.join(how)})" if how else f"{counts.total:,}"


def passes_text(plan: Plan, algorithm: Algorithm, rows: int | None) -> str:
    """Say how often the rows are read, and by what it was decided.

    Args:
        rows: how many there are; None: not known yet.
    """
    by_rows = plan.settings.passes is None and passes_of(plan, algorithm, 1) > 1
    if by_rows and rows is None:
        return "by the number of rows"
    passes = passes_of(plan, algorithm, rows or 1)
    return f"{passes} (chosen for {rows:,} rows)" if by_rows else str(passes)


def validation_text(validate: Validate, algorithm: Algorithm) -> str:
    """Say which rows are held out, and when they are scored."""
    if algorithm.learns.learner is not None:
        return f"{validate.text}, after each round"
    if algorithm.learns.solve is None:
        return f"{validate.text}, after each pass"
    tried = len(algorithm.learns.path)
    return f"{validate.text}, " + (f"by each of {tried} penalties, of which the best is taken" if tried > 1 else "at the end")


def held_rows_of(prepared: Prepared, seconds: float) -> Rows:
    """Say how the rows held out are learned at the end, and how long that takes at most."""
    plan, scan = prepared.plan, prepared.scan
    if not isinstance(scan, HeldOut) or plan.clause(VALIDATE) is None:
        return []
    how, total, learned = plan.settings.held_out, sum(scan.rows), max(prepared.counts.total, 1)
    again = f"about {seconds * total / learned:.2f} s more at most"
    rest = f"about {seconds / prepared.passes * (total - learned) / learned:.2f} s more"
    texts = {
        ALL: f"all {total:,} rows are learned anew at the end, in as many passes as were best: {again}",
        REST: f"learned at the end, in one pass that continues the best one: {rest}",
        NONE: "not learned",
    }
    if how is None:
        others = {usual(prepared.recipe.algorithm, gained) for gained in (False, True)[: prepared.passes]}
        how = "; or, if a later pass is the best, ".join(texts[one] for one in (REST, ALL, NONE) if one in others)
        return [("rows held out", how)]
    return [("rows held out", texts[how])]


def usual_cost(prepared: Prepared) -> Cost:
    """Return what a training costs where its rows are usual ones."""
    features = prepared.features()
    return Cost(prepared.counts.total / EXAMPLES_PER_SECOND, features, estimated_bytes(prepared.recipe, features))


def compact_rows(plan: Plan, found: str | None) -> Rows:
    """Say what is computed once for neighbouring rows, and what their order means for windows."""
    if found is None:
        return []
    order = "; an example is predicted after others of its group were learned, so windows are not those of a log by time"
    return [("compact", found + (order if plan.clause(EVALUATE) is not None else ""))]


def evaluation_rows(schedule: Schedule | None) -> Rows:
    """Say how many windows an evaluation has."""
    if schedule is None:
        return []
    if not schedule.windows:
        return [("evaluation", without_windows(schedule))]
    size = schedule.evaluate
    return [("evaluation", f"at most {schedule.windows} windows a pass, of {size.on} batches after every {size.every}")]


def checkpoint_text(plan: Plan, size: int, seconds: float, places: Places) -> str:
    """Say how many checkpoints are expected, how large they are and what they cost; row sizes stand for files'."""
    every = plan.settings.checkpoint_seconds
    if not (every and places.shards):
        return "none"
    where = plan.settings.checkpoint_path or "the version's folder"
    each = size / CHECKPOINT_BYTES_PER_SECOND / places.shards
    return (
        f"every {every:g} s, about {seconds // every:.0f} expected, into {where}; a full one has about {size_text(size)} "
        f"and takes each shard about {each:.1f} s of a core; others have only changes"
    )


def counted(noun: str, count: int) -> str:
    return f"{count:,} {plural(noun, count)}"


def place_rows(places: Places, plan: Plan) -> Rows:
    return [("workers", f"{places.workers}, sync {plan.settings.sync}"), ("shards", str(places.shards))]
