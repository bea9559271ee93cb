"""Rates that drop after a pass without gain: steps, rounds, what the version is, interruptions, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.cases import costly, costly_after_first, lengthy, slow_elsewhere
from tests.training.processes import ProcessTasks
from xpsql.platform.errors import StatementError
from xpsql.platform.operators.adagrad import AdagradOptions, adagrad
from xpsql.platform.operators.adam import AdamOptions, adam
from xpsql.platform.operators.base import Operator, TableSpec, push
from xpsql.platform.operators.chains import chain
from xpsql.platform.operators.ftrl import FtrlOptions, ftrl
from xpsql.platform.operators.paced import paced
from xpsql.platform.operators.step_rates import StepRates
from xpsql.platform.progress import SilentReporter
from xpsql.testing.operators import context, new_rows

ROWS = 2000
WEIGHTS = "SELECT * FROM ML.WEIGHTS(MODEL {}) ORDER BY ALL"
PLATEAU = "batch_size = 50, workers = 1, passes = 12, patience = 3, plateau = 0.1"
USING = ("xftrl (alpha = 1.5)", "xnn (dim = 3, hidden = (4), normalise = batch_norm, vector_learning_rate = 0.5)")
TABLE = TableSpec("weights", 2)
OPTIMIZERS = (ftrl(FtrlOptions(l2=0.5), TABLE), adagrad(AdagradOptions(), TABLE), adam(AdamOptions(), TABLE))


class Heard(SilentReporter):
    """Keeps notes, and interrupts the training at the one that begins so."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.interrupts: str | None = None

    def note(self, message: str) -> None:
        self.notes.append(message)
        self._interrupt(message)

    def start(self, title: str, total: int | None) -> None:
        self._interrupt(title)

    def _interrupt(self, message: str) -> None:
        if self.interrupts is not None and self.interrupts in message:
            self.interrupts = None
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def query(tmp_path_factory: pytest.TempPathFactory) -> str:
    random = np.random.default_rng(5)
    item, user = random.integers(0, 30, ROWS), random.integers(0, 600, ROWS)
    score = np.linspace(-2, 2, 30)[item] + random.normal(size=600)[user]
    label = (random.random(ROWS) < 1 / (1 + np.exp(-score))).astype(np.int64)
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    pq.write_table(pa.table({"user": user.astype("U"), "item": item.astype("U"), "label": label}), path, row_group_size=500)
    return f"SELECT * FROM parquet.`{path}`"


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture(params=["here", "on tasks"])
def session(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heard: Heard) -> Any:
    with xpsql.connect(tmp_path / "warehouse", reporter=heard) as session:
        if request.param == "on tasks":
            monkeypatch.setattr(session.engine, "tasks", ProcessTasks(4), raising=False)
        yield session


def after(optimizer: Operator, rates: tuple[float, ...]) -> tuple[list[np.ndarray[Any, Any]], Any]:
    """Return the weights of three rows before and after each of some updates, and what the rows keep in the end."""
    one, random = chain(paced(optimizer)), np.random.default_rng(3)
    rows = {name: jnp.asarray(values) for name, values in new_rows(one, np.arange(3, dtype=np.uint64)).items()}
    seen, now = [np.asarray(one.read(rows, context(3))["w"])], context(3)._replace(pulled=jnp.zeros((3, 2)))
    for rate in rates:
        gradients = jnp.asarray(random.normal(size=(3, 2)), jnp.float32)
        rows = {**rows, **push(one, rows, gradients, now._replace(rate=jnp.float32(rate)))[0]}
        seen.append(np.asarray(one.read(rows, now)["w"]))
    return seen, rows


@lengthy
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda optimizer: optimizer.name)
def test_a_step_is_multiplied_by_the_rate_and_at_1_is_the_optimizers_own(optimizer: Operator) -> None:
    whole, _ = after(optimizer, (1, 1))
    slower, _ = after(optimizer, (1, 0.25))
    np.testing.assert_allclose(slower[2] - slower[1], 0.25 * (whole[2] - whole[1]), rtol=1e-4, atol=1e-6)
    plain = chain(optimizer)
    own, same = (
        push(one, after(optimizer, (1, 1))[1], jnp.ones((3, 2)), context(3))[0] for one in (plain, chain(paced(optimizer)))
    )
    for name, values in own.items():
        np.testing.assert_allclose(same[name], values, rtol=1e-6)


def test_a_rate_is_that_of_its_pass_and_the_last_of_all_later_ones() -> None:
    assert [StepRates((1.0, 0.1)).at(number) for number in range(3)] == [1.0, 0.1, 0.1]
    assert StepRates().at(5) == 1.0


def trained(session: xpsql.Session, name: str, using: str, query: str, more: str = "") -> Any:
    session.sql(f"TRAIN MODEL {name} USING {using} VALIDATE ON 0.2 WITH ({PLATEAU}{more}) AS {query}")
    return session.models.version(name).manifest


@lengthy
@costly_after_first
@pytest.mark.parametrize("using", USING)
def test_the_version_is_the_best_pass_of_rounds_that_begin_with_the_best_before(
    session: xpsql.Session, heard: Heard, query: str, using: str
) -> None:
    manifest = trained(session, "m", using, query, ", held_out = 'none'")
    info = session.sql("SELECT logloss FROM ML.TRAINING_INFO(MODEL m) WHERE validation ORDER BY pass").arrow()
    losses = info["logloss"].to_pylist()
    assert manifest.validation["logloss"] == min(losses)
    assert manifest.learned.best_pass == int(np.argmin(losses))
    assert len(losses) < 12
    rounds, drops = manifest.learned.rounds, [note for note in heard.notes if "gained nothing" in note]
    assert len(rounds) == len(drops) + 1 == 1 + sum("at 0." in note for note in drops)
    assert sum(one.passes for one in rounds) == len(losses)
    assert "at 0.1 of the learning rates" in drops[0]
    described = dict(zip(*session.sql("DESCRIBE MODEL m").arrow().to_pydict().values(), strict=False))
    assert "at 0.1 of the learning rates" in described["round 2"]
    first = rounds[0].best_pass
    settings = f"batch_size = 50, workers = 1, passes = {first + 1}, held_out = 'none'"
    session.sql(f"TRAIN MODEL plain USING {using} VALIDATE ON 0.2 WITH ({settings}) AS {query}")
    lines = session.sql("SELECT logloss FROM ML.TRAINING_INFO(MODEL plain) WHERE validation ORDER BY pass").arrow()
    assert lines["logloss"].to_pylist() == pytest.approx(losses[: first + 1], rel=1e-6)  # until it drops, one without


@lengthy
@slow_elsewhere
def test_all_rows_are_learned_anew_at_the_rates_of_the_passes_that_the_best_is_made_of(
    session: xpsql.Session, query: str
) -> None:
    manifest = trained(session, "m", USING[0], query, ", held_out = 'all'")
    assert manifest.learned.held_out == "all"
    passes = manifest.learned.examples / ROWS
    assert passes == int(passes) <= (manifest.learned.best_pass or 0) + 1


@costly
@pytest.mark.parametrize("at", ["gained nothing", "with the rows held out"])
def test_a_training_that_is_interrupted_goes_on_to_the_same_version(
    session: xpsql.Session, heard: Heard, query: str, at: str
) -> None:
    trained(session, "whole", USING[0], query)
    heard.interrupts = at
    with pytest.raises(KeyboardInterrupt):
        trained(session, "m", USING[0], query)
    session.sql("RESUME MODEL m")
    found, wanted = (session.sql(WEIGHTS.format(name)).arrow().to_pylist() for name in ("m", "whole"))
    assert found == wanted
    assert session.models.version("m").manifest.learned.rounds == session.models.version("whole").manifest.learned.rounds


@pytest.mark.parametrize(
    ("using", "clauses", "more", "why"),
    [
        ("xftrl", "VALIDATE ON 0.2", "passes = 4, plateau = 0.1", "patience"),
        ("xftrl", "VALIDATE ON 0.2", "passes = 4, patience = 1, plateau = 0.1", "Set patience above 1"),
        ("xftrl", "VALIDATE ON 0.2", "passes = 4, patience = 2, plateau = 1", "plateau"),
        ("owlqn", "VALIDATE ON 0.2", "patience = 2, plateau = 0.1", "has no effect"),
    ],
)
def test_a_plateau_without_effect_is_refused(
    session: xpsql.Session, query: str, using: str, clauses: str, more: str, why: str
) -> None:
    with pytest.raises(StatementError, match=why):
        session.sql(f"TRAIN MODEL m USING {using} {clauses} WITH ({more}) AS {query}")
