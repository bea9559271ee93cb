"""WITH (target = ...): what is chosen, what EXPLAIN and TRAIN say of it, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import xpsql
from benchmarks.scale.model import simulated
from benchmarks.scale.processes import given_of
from benchmarks.scale.setting import Latency, Setting
from tests.cases import costly, lengthy
from tests.training.log import log, write
from tests.training.processes import ProcessTasks
from xpsql.platform.errors import OptionError, StatementError, Subject
from xpsql.platform.progress import SilentReporter
from xpsql.platform.training.estimates import Cost
from xpsql.platform.training.parallelism import Places
from xpsql.platform.training.planning.forecast import (
    CLUSTER,
    RATES,
    Load,
    TrainingWay,
    accurate,
    best,
    choice,
    choices,
    imbalance,
    rows_a_second,
    shard_seconds,
    worker_seconds,
)
from xpsql.platform.training.planning.targets import planned
from xpsql.platform.training.recipe import recipe_of

LOAD = Load(200_000_000, 1, 4.4e-6, 24_000, 4096, 0.7, 1, 10**10)
GRID = (1, 2, 4, 8, 16, 32, 64)


class Noting(SilentReporter):
    """Keeps notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write(log(12_000), tmp_path / "log.parquet", row_group_rows=2_000)


def explained(session: xpsql.Session, data: Path, settings: str, using: str = "xftrl", fast: str = "FAST ") -> dict[str, str]:
    statement = f"EXPLAIN {fast}TRAIN MODEL m USING {using} IGNORE (ts) WITH ({settings}) AS SELECT * FROM parquet.`{data}`"
    return dict(zip(*session.sql(statement).arrow().to_pydict().values(), strict=True))


def test_formulas_of_a_batch_are_those_of_the_page_on_scaling() -> None:
    load = LOAD._replace(keys=24_000, power=1.0)
    seconds = {shards: 1000 * worker_seconds(load, 4096, shards, RATES) for shards in (1, 10, 100)}
    assert seconds == pytest.approx({1: 18.3, 10: 19.3, 100: 29.2}, rel=0.01)
    assert 1000 * shard_seconds(load, 4096, 1, RATES) == pytest.approx(2.0, rel=0.05)
    assert imbalance(800) == pytest.approx(1.5625)


@pytest.mark.parametrize(
    ("workers", "shards", "batch"), [(1, 1, 4096), (9, 1, 4096), (40, 4, 4096), (106, 100, 4096), (20, 2, 16384)]
)
def test_the_formulas_say_what_the_simulation_says(workers: int, shards: int, batch: int) -> None:
    given = Setting(workers, shards, batch, LOAD, 20 * workers, turn=20, latency=Latency(50e-6, 1e-3))
    assert rows_a_second(LOAD, batch, Places(shards, workers)) == pytest.approx(simulated(given).rate, rel=0.15)


@lengthy
@pytest.mark.parametrize("seconds", [100.0, 200.0, 400.0])
def test_what_is_chosen_takes_at_most_15_percent_more_than_the_best_of_a_grid_that_is_simulated(seconds: float) -> None:
    chosen = best(choices(LOAD, GRID, GRID, (4096,)), seconds)
    assert chosen is not None

    def core_hours(found: TrainingWay) -> tuple[float, float]:
        shards, workers = found.places
        given = Setting(workers, shards, 4096, LOAD, 12 * workers, turn=12, latency=Latency(50e-6, 1e-3))
        took = CLUSTER.start + LOAD.rows / simulated(given).rate
        return took, sum(found.places) * took

    taken = [core_hours(choice(LOAD, 4096, Places(shards, workers))) for workers in GRID for shards in GRID]
    least = min(hours for took, hours in taken if took <= seconds)
    own, hours = core_hours(chosen)
    assert own <= 1.15 * seconds
    assert hours <= 1.15 * least


def test_more_time_never_takes_more_core_hours() -> None:
    found = choices(LOAD, GRID, GRID, (4096, 16384))
    hours = [one.core_hours for seconds in (60, 120, 300, 1200) if (one := best(found, seconds)) is not None]
    assert len(hours) >= 3
    assert hours == sorted(hours, reverse=True)


def test_shards_have_the_memory_for_their_rows_and_accuracy_limits_what_is_under_way() -> None:
    large = LOAD._replace(size=3 * 64 * 10**9)
    assert {one.places.shards for one in choices(large, (1,), GRID, (4096,))} == {4, 8, 16, 32, 64}
    assert accurate(choice(LOAD._replace(rows=61 * 4 * 4096), 4096, Places(1, 4)))
    assert not accurate(choice(LOAD._replace(rows=61 * 4 * 4096 - 1), 4096, Places(1, 4)))
    assert accurate(choice(LOAD._replace(rows=4096), 4096, Places(1, 1)))


def test_steps_together_take_longer_than_steps_apart() -> None:
    apart, together = (rows_a_second(LOAD, 4096, Places(64, 64), together=one) for one in (False, True))
    assert together < 0.85 * apart


@lengthy
def test_explain_shows_the_way_that_train_takes(data: Path, tmp_path: Path) -> None:
    reporter = Noting()
    with xpsql.connect(tmp_path / "warehouse", reporter=reporter) as session:
        said = explained(session, data, "target = '1 hour', price = 0.04", fast="")
        session.sql(
            f"TRAIN MODEL m USING xftrl IGNORE (ts) WITH (target = '1 hour', price = 0.04) AS SELECT * FROM parquet.`{data}`"
        )
        manifest = session.models.version("m", 1).manifest
    places = f"{manifest.sizes.workers} worker, {manifest.sizes.shards} shard, batch_size {manifest.sizes.batch_size}"
    assert said["target"] == f"1 hour: {places}, sync asp"
    assert (said["workers"], said["shards"]) == ("1, sync asp", "1")
    assert said["plan: 1 worker"].startswith(f"{places.removeprefix('1 worker, ')}: ")
    assert "core hours" in said["plan: 1 worker"]
    assert "price" in said["plan: 1 worker"]
    (note,) = (note for note in reporter.notes if "target" in note)
    assert note.startswith(f"For WITH target = '1 hour': {places}; about ")


def test_what_the_statement_gives_is_taken(data: Path, tmp_path: Path) -> None:
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        said = explained(session, data, "target = '1 hour', workers = 1, shards = 2, batch_size = 128")
    assert said["target"] == "1 hour: 1 worker, 2 shards, batch_size 128, sync asp"
    assert said["plan: 1 worker"].startswith("2 shards, batch_size 128: ")
    assert "price" not in said["plan: 1 worker"]


def test_on_an_engine_with_tasks_more_workers_are_in_time_sooner(data: Path, tmp_path: Path) -> None:
    settings = "target = '100 seconds', batch_size = 16"
    statement = f"TRAIN MODEL m USING xftrl IGNORE (ts) WITH ({settings}) AS SELECT * FROM parquet.`{data}`"
    with given_of(statement, tmp_path) as given:
        prepared = given.with_recipe(recipe_of(given.plan, given.columns), None, None)
        cost = Cost(240.0, 10_000, 10**6)
        made = planned(prepared, ProcessTasks(40), cost)
        assert 1 < made.chosen.places.workers <= 6
        assert made.chosen.seconds <= 100
        assert [one.places.workers for one in made.others] == [1, 2, 3, 4, 6]
        with pytest.raises(StatementError, match=r"The nearest takes about .* would do\. Take more processes") as refused:
            planned(prepared, ProcessTasks(2), cost)
    assert refused.value.subject == Subject("WITH", option="target")


def test_a_target_that_no_way_meets_is_refused_with_the_nearest(data: Path, tmp_path: Path) -> None:
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        with pytest.raises(StatementError, match=r"takes 0.01 seconds or less\. The nearest takes about .* 1 shard") as refused:
            explained(session, data, "target = '0.01 seconds'")
        assert refused.value.position is not None
        assert session.sql("SHOW MODELS").arrow().num_rows == 0


def test_a_target_of_a_query_that_is_staged_is_planned_by_train(data: Path, tmp_path: Path) -> None:
    reporter = Noting()
    with xpsql.connect(tmp_path / "warehouse", reporter=reporter) as session:
        of = f"MODEL m USING xftrl IGNORE (ts) WITH (target = '1 hour') AS SELECT * FROM parquet.`{data}` ORDER BY ts"
        said = dict(zip(*session.sql(f"EXPLAIN TRAIN {of}").arrow().to_pydict().values(), strict=True))
        session.sql(f"TRAIN {of}")
    assert said["target"] == "1 hour: planned once staged"
    assert any(note.startswith("For WITH target = '1 hour': 1 worker") for note in reporter.notes)


@costly
def test_what_continues_has_the_target_of_its_version(data: Path, tmp_path: Path) -> None:
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        of = f"USING xftrl IGNORE (ts) WITH (target = '1 hour') AS SELECT * FROM parquet.`{data}`"
        session.sql(f"TRAIN MODEL m {of}")
        session.sql(f"CONTINUE MODEL m AS SELECT * FROM parquet.`{data}`")
        first, second = (session.models.version("m", number).manifest for number in (1, 2))
    assert (first.settings["target"], second.settings["target"]) == ("1 hour", "1 hour")
    assert second.sizes.workers == first.sizes.workers


@pytest.mark.parametrize(
    ("using", "settings", "words"),
    [
        ("owlqn", "target = '1 hour'", "learns from all rows at once"),
        ("xftrl", "target = 'soon'", "expects a positive number and a unit"),
        ("xftrl", "price = 0.04", "target"),
    ],
)
def test_a_target_without_a_meaning_is_refused(data: Path, tmp_path: Path, using: str, settings: str, words: str) -> None:
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        with pytest.raises((OptionError, StatementError), match=words) as refused:
            explained(session, data, settings, using)
        assert refused.value.position is not None
