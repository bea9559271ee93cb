"""The simulation of trainings keeps the laws of queues, and a plain one of the same training agrees with it."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.__main__ import RESULTS, document
from benchmarks.scale import changes, curves, validate
from benchmarks.scale.__main__ import PICTURE, steps
from benchmarks.scale.constants import Fitted, constants_of, refuse_load
from benchmarks.scale.machine import on_cores, stretched
from benchmarks.scale.model import Simulation, simulated
from benchmarks.scale.setting import Latency, Load, Setting, changed, drained, fifo
from tests.benchmarks.message_by_message import ends
from tests.cases import lengthy
from xpsql.platform.training.planning.forecast import RATES, UnitCosts, shard_seconds, worker_seconds

PROOFS = (
    "auto",
    "auto_made",
    "auto_peers",
    "gpu",
    "device_steps",
    "cores",
    "store",
    "graphs",
    "parameters",
    "frappe",
    "frappe_peer",
    "gowalla",
    "sequences",
    "sequence_logs",
    "sequence_peers",
)
ROOM, MOST_LINES, MOST_FILE_LINES = Path(curves.__file__).parent, 3000, 350
LOAD = Load(10**9, 1, 4.4e-6, 24_000, 4096, 1.0, 1, 0)
ONE = Setting(1, 1, 4096, LOAD, 40, turn=40, take=0.0, heartbeat=0.0)


def test_benchmarks_stay_small_and_the_simulator_is_a_room_of_its_own() -> None:
    files = sorted(ROOM.parent.rglob("*.py"))
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    others = {path: count for path, count in lines.items() if ROOM not in path.parents and path.stem not in PROOFS}
    assert sum(others.values()) <= MOST_LINES
    assert {path.name: count for path, count in lines.items() if ROOM in path.parents and count > MOST_FILE_LINES} == {}


@lengthy
@pytest.mark.parametrize("busy", [0.3, 0.6, 0.9])
def test_a_single_server_waits_as_the_formula_of_m_d_1_says(busy: float) -> None:
    arrivals = np.cumsum(np.random.default_rng(1).exponential(1 / busy, 400_000))
    free, waited = np.zeros(1), 0.0
    for arrival in arrivals:
        free = fifo(free, np.array([arrival]), 1.0)
        waited += float(free[0]) - arrival - 1.0
    assert waited / len(arrivals) == pytest.approx(busy / (2 * (1 - busy)), rel=0.06)


def test_one_server_is_done_with_all_of_its_customers_as_when_they_are_served_in_turn() -> None:
    arrivals, free = np.random.default_rng(2).random(50), 0.0
    for arrival in np.sort(arrivals):
        free = max(free, arrival) + 0.01
    assert drained(arrivals, 0.01) == pytest.approx(free)


def test_one_worker_and_one_shard_take_the_sum_of_what_they_do_where_nothing_goes_on_beside() -> None:
    found = simulated(changed(ONE, encode=0.0))
    alone = worker_seconds(LOAD, 4096, 1, RATES) + shard_seconds(LOAD, 4096, 1, RATES)
    assert 4096 / found.rate == pytest.approx(alone - RATES.message, rel=0.01)  # the push's answer comes beside the pull's


@pytest.mark.parametrize(
    ("workers", "shards", "sync"), [(1, 1, "asp"), (7, 3, "asp"), (5, 4, "ssp"), (6, 2, "bsp"), (4, 3, "hybrid")]
)
def test_every_batch_is_learned_once_and_pulled_once_whoever_waits_for_whom(workers: int, shards: int, sync: str) -> None:
    given = changed(ONE, workers=workers, shards=shards, sync=sync, batches=8 * workers, turn=3, sigma=0.3)
    found = simulated(given)
    assert (len(found.ends), len(found.waves)) == (given.batches, given.batches)
    assert found.rows == given.batches * 4096
    assert (found.waves[:, 1] > found.waves[:, 0]).all()


def test_shards_never_serve_more_than_they_can_and_workers_saturate_them() -> None:
    served = 4096 / shard_seconds(LOAD, 4096, 1, RATES)
    rates = [simulated(changed(ONE, workers=w, batches=40 * w)).rate for w in (1, 2, 4, 8, 16, 32, 64)]
    assert all(rate <= served * 1.001 for rate in rates)
    assert rates[-1] > 0.97 * served
    assert all(more > 0.99 * fewer for fewer, more in itertools.pairwise(rates)), "more workers are never slower"


def test_a_simulation_of_the_same_seed_is_the_same() -> None:
    given = changed(ONE, workers=6, shards=3, batches=60, latency=Latency(1e-4, 1e-3), spread=(0.5, 1.0, 1.5), failures=2000.0)
    one, other, third = simulated(given, 1), simulated(given, 1), simulated(given, 2)
    assert (one.ends == other.ends).all()
    assert one.seconds != third.seconds


@pytest.mark.parametrize(("workers", "shards"), [(1, 1), (1, 4), (2, 3), (5, 1), (12, 4)])
def test_a_plain_simulation_with_an_event_for_each_message_gives_the_same_times(workers: int, shards: int) -> None:
    given = changed(ONE, workers=workers, shards=shards, batches=10 * workers, turn=10, encode=0.0, latency=Latency(1e-4))
    found, plain = simulated(given), ends(given)
    start = 2 * given.latency.median  # workers first ask for a split here, and have it there
    assert np.median(np.abs(found.ends - start - plain) / np.array(plain)) < 0.005
    assert found.seconds - start == pytest.approx(plain[-1], rel=0.02)


def test_a_worker_is_at_most_slack_steps_ahead_of_the_slowest() -> None:
    given = changed(ONE, workers=4, batches=400, turn=100, sync="ssp", slack=2)
    slow = Simulation(given)
    slow._worker_speed[0] = 0.1
    free = Simulation(changed(given, sync="asp"))
    free._worker_speed[0] = 0.1
    assert slow.run().ends[200] > 3 * free.run().ends[200]


def test_steps_together_take_the_slowest_worker() -> None:
    given = changed(ONE, workers=4, batches=80, turn=20, sync="bsp")
    alike, one_slow = Simulation(given), Simulation(given)
    one_slow._worker_speed[3] = 0.25
    assert one_slow.run().rate < 0.4 * alike.run().rate


def test_pulls_ahead_hide_late_answers() -> None:
    late = changed(ONE, batches=200, turn=200, workers=2, late=0.04)
    rates = [simulated(changed(late, ahead=ahead)).rate for ahead in (0, 1, 4)]
    assert rates[1] > 1.7 * rates[0]
    assert rates[2] > 1.05 * rates[1]


def test_a_slow_shard_holds_up_all_and_fewer_keys_or_a_relay_relieve_it() -> None:
    base = changed(ONE, workers=64, shards=8, batches=64 * 10, turn=10)
    slow = changed(base, speeds=((3, 0.25),))
    moved = changed(slow, keys=changes.without_slices(8, 3, 0.25))
    alike, held, relieved = (simulated(one).rate for one in (base, slow, moved))
    assert held < 0.35 * alike
    assert relieved > 1.3 * held
    assert changes.Relayed(changed(slow, latency=Latency(1e-4))).run().rate > held


def test_relays_learn_every_batch_and_relieve_shards_of_messages() -> None:
    many = changed(ONE, workers=512, shards=64, batches=512 * 4, turn=4)
    found = changes.Relayed(many).run()
    assert (len(found.ends), len(found.waves)) == (many.batches, many.batches)
    assert found.rate > 1.5 * simulated(many).rate


def test_checkpoints_failures_and_a_busy_driver_cost_time() -> None:
    given = changed(ONE, workers=8, shards=2, batches=1600, encode=0.0)
    plain = simulated(given).seconds
    assert simulated(changed(given, every=1.0, standing=0.05, writing=0.5)).seconds > 1.02 * plain
    lost = simulated(changed(given, failures=8_640.0, restart=1.0, redone=1.0))
    assert lost.seconds > 1.5 * plain
    assert lost.rows > given.batches * 4096
    assert simulated(changed(given, take=0.05)).seconds > 1.2 * plain


def test_more_slices_make_shards_of_a_number_that_does_not_divide_them_alike() -> None:
    few, many = curves.parts_of(800), curves.parts_of(800, changes.SLICES)
    assert sum(few) == pytest.approx(1)
    assert max(few) * 800 == pytest.approx(1.5625)
    assert max(many) * 800 == pytest.approx(1.0, abs=0.002)


def test_time_is_stretched_where_more_threads_work_than_there_are_cores() -> None:
    moments, real = stretched(np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 2.0], [3.0, 4.0]]), 2)
    assert np.interp([1.0, 2.0, 3.0, 4.0], moments, real) == pytest.approx([1.5, 2.5, 3.5, 4.5])


def test_tasks_that_share_cores_learn_as_much_as_the_cores_can() -> None:
    for workers, shards in ((2, 2), (8, 8)):
        given = changed(ONE, workers=workers, shards=shards, batches=60 * workers, turn=60, beside=True, split=True)
        each = worker_seconds(LOAD, 4096, shards, RATES) + shards * shard_seconds(LOAD, 4096, shards, RATES)
        assert on_cores(given, 2, 0.0).rate == pytest.approx(2 * 4096 / each, rel=0.06)


def test_late_answers_are_late_by_the_clock_of_those_who_wait() -> None:
    given = changed(ONE, workers=2, batches=80, turn=40, late=0.5, beside=True, split=True)
    assert np.median(on_cores(given, 2, 0.0).waves) == pytest.approx(0.5, rel=0.02)


def test_constants_are_found_again_in_what_they_make() -> None:
    runs = []
    for batch in (16, 256, 4096):
        for shards in (1, 4):
            keys = 80 * batch**0.65
            calls, rest = 2 * shards * 50e-6 + keys * 9e-9, shards * 200e-6 + keys * 4e-9
            pulls, pushes = shards * 30e-6 + keys * 20e-9, shards * 60e-6 + keys * 50e-9
            runs.append(Fitted(shards, batch, keys, calls, 400e-6 + batch * 1e-6, batch * 0.4e-6, pulls, pushes, rest))
    found = constants_of(runs)
    wanted = {"worker, a message": 50e-6, "worker, a key": 9e-9, "shard, a pull": 130e-6, "shard, a push": 160e-6}
    wanted |= {"shard, a pulled key": 22e-9, "shard, a pushed key": 52e-9}
    wanted |= {"worker, a row": 1e-6, "keys, power of the batch": 0.65}
    assert {name: found[name] for name in wanted} == pytest.approx(wanted, rel=1e-3)


def test_a_machine_where_others_work_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (1.5, 1.0, 1.0))
    with pytest.raises(SystemExit, match=r"load of this machine is 1\.5"):
        refuse_load(forced=False)
    refuse_load(forced=True)


def test_points_of_the_validation_are_many_and_each_has_a_name_of_its_own() -> None:
    texts = [point.text for point in validate.points()]
    assert len(set(texts)) == len(texts) >= 24


def test_an_error_beyond_what_is_accepted_is_a_miss() -> None:
    from benchmarks.scale.processes import Asked, Found, Taken

    point = validate.Point("xftrl", Asked(1, 1, 100))
    waves = [(0.0, 0.010)] * 10
    taken = Found([Taken([float(n) for n in range(11)], waves, 1.0, 11, 1.0, 0.0, 0.0)], [(0.0, 0.0, 0.0)])
    said = {f"{point.text}: rows/s": 130.0, f"{point.text}: wave, p50": 11.0, f"{point.text}: wave, p99": 11.0}
    verdicts = {figure.what: figure.verdict for figure in validate.compared(said, [(point, taken)]) if figure.target}
    assert [verdicts[f"{point.text}: {kind}, error"] for kind in validate.KINDS] == ["miss", "pass", "pass"]
    assert verdicts["largest error of rows/s"] == "miss"


@lengthy
def test_a_quick_run_takes_every_step_that_starts_no_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps(("curves", "changes"), True, tmp_path, tmp_path, tmp_path / "picture.svg")
    found = json.loads((tmp_path / "scale_curves.json").read_text(encoding="utf-8"))
    assert (tmp_path / "picture.svg").read_text(encoding="utf-8") == curves.picture(found)
    assert "as it is" in capsys.readouterr().out


def test_the_page_has_the_picture_of_the_results() -> None:
    found = json.loads((RESULTS / "scale_curves.json").read_text(encoding="utf-8"))
    assert PICTURE.read_text(encoding="utf-8") == curves.picture(found)


def test_constants_of_a_document_are_seconds(tmp_path: Path) -> None:
    from benchmarks import Figure
    from benchmarks.scale.constants import constants_in

    rows = [Figure("xftrl: worker, a message", 55.0, "us"), Figure("xftrl: worker, a key", 8.0, "ns")]
    found = constants_in(document("scale_constants", rows, "python"))
    assert found.values == pytest.approx({"xftrl: worker, a message": 55e-6, "xftrl: worker, a key": 8e-9})
    assert isinstance(RATES, UnitCosts)
