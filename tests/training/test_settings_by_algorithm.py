"""Settings that an algorithm has no use for: each beside an algorithm of each kind is taken, or refused with the remedy,
by TRAIN and EXPLAIN alike."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

import xpsql
from tests.cases import costly
from xpsql.platform.errors import StatementError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.training.clauses.settings import Settings

KINDS = {"xftrl": "log", "owlqn": "log", "xgboost": "log", "word2vec": "words", "pagerank": "edges"}
"""An algorithm that learns batch by batch, one by a solver, one of a package, one without labels, a vertex program: what each
learns from."""
ONLINE, LABELLED, ALL = ("xftrl", "word2vec"), ("xftrl", "owlqn", "xgboost"), tuple(KINDS)
TAKEN: dict[str, tuple[str, ...]] = {
    "batch_size = 32": ONLINE,
    "passes = 2": ONLINE,
    "patience = 1, passes = 2": ("xftrl",),
    "patience_by = 'auc', patience = 1, passes = 2": ("xftrl",),
    "plateau = 0.1, patience = 2, passes = 2": ("xftrl",),
    "cooldown = 0.1": ONLINE,
    "negatives_kept = 0.5": LABELLED,
    "drift_to = 7": ("xftrl",),
    "held_out = 'none'": ("xftrl", "owlqn", "xgboost"),
    "workers = 2": ALL,
    "shards = 2": ONLINE,
    "target = '2 hours'": ONLINE,
    "price = 1, target = '2 hours'": ONLINE,
    "sync = 'bsp'": ONLINE,
    "slack = 2, sync = 'ssp'": ONLINE,
    "read_ahead = 2": ONLINE,
    "checkpoint_seconds = 1": (*ONLINE, "pagerank"),
    "checkpoint_path = '/tmp/checkpoints'": (*ONLINE, "pagerank"),
    "device = 'cpu'": ONLINE,
    "rows_on = 'device'": ONLINE,
    "base_rate = 0.3": ("xftrl",),
    "encrypt = true": ALL,
    "once = 'monday'": ALL,
    "until = 'available'": (),
    "data_loss = 'continue'": (),
    "delay = '1 minute'": (),
    "fit_rows = 2": (),
    "refit = true": (),
    "seed = 1": ALL,
    "nulls = 'absent'": ALL,
    "hashed = (number)": LABELLED,
    "raw = (number)": LABELLED,
    "compact = 'off'": ("xftrl",),
    "task = 'multiclass'": ("xftrl", "xgboost"),
    "share = (user AS item)": LABELLED,
    "missing_items = 'error'": (),
    "vectors = (item IN images)": (),
    "vectors_hidden = (4)": (),
    "vectors_run = 'workers'": (),
}
"""Who takes a setting, beside what it needs; what is of streams, ITEMS, VECTORS or TRANSFORM nobody without them."""
REFUSED = [(given, algorithm) for given, taken in TAKEN.items() for algorithm in KINDS if algorithm not in taken]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    pytest.importorskip("xgboost")
    with xpsql.connect(tmp_path_factory.mktemp("warehouse"), reporter=SilentReporter()) as session:
        rows = "concat('u', id % 9) AS user, concat('i', id % 5) AS item, id AS number FROM range(300)"
        session.sql(f"CREATE TABLE log AS SELECT CAST(id % 2 AS INT) AS label, {rows}")
        session.sql("CREATE TABLE words AS SELECT array(concat('u', id % 9), concat('u', id % 4)) AS words FROM range(300)")
        session.sql("CREATE TABLE edges AS SELECT id % 9 AS src, id % 4 AS dst FROM range(300)")
        yield session


def training(given: str, algorithm: str) -> str:
    rows = KINDS[algorithm]
    named = {"log": "LABEL label ", "edges": "SOURCE src TARGET dst "}
    clauses = named.get(rows, "") + ("VALIDATE ON 0.2 " if given.startswith(("patience", "plateau", "held")) else "")
    clauses += "RELEASE WHEN drift.max < 1 " if given.startswith("drift") and algorithm == "xftrl" else ""
    return f"TRAIN OR REPLACE MODEL m USING {algorithm} {clauses}WITH ({given}) AS SELECT * FROM {rows}"


def test_every_setting_is_tried() -> None:
    assert [given.partition(" ")[0] for given in TAKEN] == list(dict.fromkeys(given.partition(" ")[0] for given in TAKEN))
    assert {given.partition(" ")[0] for given in TAKEN} == {field.name for field in dataclasses.fields(Settings)}


def test_a_setting_that_an_algorithm_has_no_use_for_is_refused_with_its_place_and_the_remedy(session: xpsql.Session) -> None:
    for given, algorithm in REFUSED:
        said = set()
        for explain in ("EXPLAIN ", ""):
            with pytest.raises(StatementError) as raised:
                session.sql(explain + training(given, algorithm))
            assert raised.value.position is not None, (given, algorithm)
            said.add(raised.value.told)
        assert len(said) == 1, "EXPLAIN says what TRAIN says"
    assert "m" not in session.models.names()


@costly
def test_a_setting_that_an_algorithm_reads_is_taken(session: xpsql.Session) -> None:
    for given, taken in TAKEN.items():
        for algorithm in taken:
            session.sql(f"EXPLAIN {training(given, algorithm)}")


@costly
def test_batches_of_what_learns_at_once_are_those_of_an_operator_that_counts(session: xpsql.Session) -> None:
    session.sql("CREATE TABLE timed AS SELECT *, timestamp_seconds(number) AS time FROM log")
    for algorithm in ("owlqn", "xgboost"):
        session.sql(
            f"TRAIN OR REPLACE MODEL m USING {algorithm} LABEL label TIME time OPERATORS (auto_session) WITH (batch_size = 50) "
            "AS SELECT * FROM timed"
        )
        assert session.models.version("m").manifest.sizes.batch_size == 50
