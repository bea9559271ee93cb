"""Learning rates that fall to 0 over the last updates of a training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpsql
from tests.cases import costly, costly_after_first, lengthy
from tests.training.log import log, write
from tests.training.processes import ProcessTasks
from xpsql.platform.errors import StatementError
from xpsql.platform.operators.step_rates import StepRates
from xpsql.platform.progress import SilentReporter

ROWS = 1000
WEIGHTS = "SELECT * FROM ML.WEIGHTS(MODEL {}) ORDER BY ALL"


@pytest.fixture(params=["here", "on tasks"])
def session(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        if request.param == "on tasks":
            monkeypatch.setattr(session.engine, "tasks", ProcessTasks(4), raising=False)
        yield session


def test_rates_fall_over_the_last_updates_of_all_passes() -> None:
    rates = StepRates((), 0.25, 2, (0, 3, 10))
    assert [rates.at(0, 0, 0), rates.at(1, 0, 2), rates.at(1, 1, 2)] == [1, 1, 1]  # updates 0, 12 and 15 of 20
    assert [rates.at(1, 1, batch) for batch in (3, 4, 6)] == pytest.approx([0.8, 0.6, 0.2])
    assert rates.at(1, 1, 9) == 0  # more than a sample told
    assert StepRates((0.1,), 0.5, 1, (0, 4)).at(0, 0, 3) == pytest.approx(0.05)


@lengthy
@costly_after_first
@pytest.mark.parametrize("using", ["xftrl (alpha = 0.5)", "xnn (dim = 2, hidden = (4))"])
def test_the_last_rows_move_a_model_less_and_the_first_ones_as_ever(session: Any, tmp_path: Path, using: str) -> None:
    query = f"SELECT label, user, item FROM parquet.`{write(log(ROWS), tmp_path / 'log.parquet')}`"

    def weights(name: str, settings: str, rows: str) -> dict[Any, Any]:
        session.sql(f"TRAIN MODEL {name} USING {using} WITH (workers = 1, batch_size = 10 {settings}) AS {query} {rows}")
        found = session.sql(WEIGHTS.format(name)).arrow().to_pylist()
        return {(row.get("table"), row["key"]): np.atleast_1d(row.get("weights") or row["weight"]) for row in found}

    half, whole = weights("half", "", f"LIMIT {ROWS // 2}"), weights("whole", "", "")
    cooled = weights("cooled", ", cooldown = 0.5", "")
    moved = {id(to): sum(float(np.abs(to[key] - half[key]).sum()) for key in half) for to in (whole, cooled)}
    assert 0 < moved[id(cooled)] < 0.8 * moved[id(whole)]
    assert session.models.version("cooled").manifest.learned.examples == ROWS


def test_a_stream_which_goes_on_has_no_last_updates(tmp_path: Path) -> None:
    folder = tmp_path / "clicks"
    folder.mkdir()
    write(log(100), folder / "1.parquet")
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        stream = f"SELECT label, user FROM STREAM read_files('{folder}')"
        statement = f"TRAIN MODEL m USING xftrl WITH (cooldown = 0.1, until = 'available') AS {stream}"
        with pytest.raises(StatementError, match=r"cooldown = 0\.1 is a share of the rows of a query, and a stream has no end"):
            session.sql(statement)


@costly
def test_continue_goes_on_at_the_full_rates_and_without_what_needs_rows_held_out(tmp_path: Path) -> None:
    query = f"SELECT label, user FROM parquet.`{write(log(400), tmp_path / 'log.parquet')}`"
    settings = "workers = 1, cooldown = 0.2, passes = 3, patience = 2, plateau = 0.5, held_out = 'none'"
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        session.sql(f"TRAIN MODEL m USING xftrl VALIDATE ON 0.2 WITH ({settings}) AS {query}")
        session.sql(f"CONTINUE MODEL m VALIDATE ON 0.2 AS {query}")
        assert session.models.version("m").manifest.settings["plateau"] == 0.5
        session.sql(f"TRAIN OR REPLACE MODEL n USING xftrl WITH (workers = 1, cooldown = 0.2) AS {query}")
        session.sql(f"CONTINUE MODEL n AS {query}")
        assert session.models.version("n").manifest.settings["cooldown"] is None
