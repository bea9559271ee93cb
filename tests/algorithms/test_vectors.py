"""VECTORS: what is learned of vectors with ids holds for ids that no example had."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from pyspark.sql import SparkSession

import xpsql
from tests.cases import costly, costly_after_first
from xpsql.algorithms.blocks.bags import BagRows
from xpsql.algorithms.inputs import Inputs, Layout, SideSlots, SideVectors
from xpsql.algorithms.networks.wide_deep import WIDE_DEEP
from xpsql.algorithms.side_vectors import with_sides
from xpsql.platform.errors import DataError, StatementError
from xpsql.platform.input.columns import columns_from
from xpsql.platform.input.side.table import FIRST, LACKING, NONE, SideRows, SideTable
from xpsql.platform.input.side.versions import located
from xpsql.platform.progress import SilentReporter

PICTURES, KNOWN, ELEMENTS = 300, 200, 6
PICS = "VECTORS pics AS (SELECT id, vector FROM pics)"
BOUND = "share = (clicked AS image), vectors = (image IN pics, clicked IN pics)"
USING = "wide_deep (dim = 4, hidden = (16), learning_rate = 0.01)"
COLUMNS = "label, image, clicked"


def pictures(path: Path) -> NDArray[np.float32]:
    """Write the vectors of pictures but the last ones, and return all."""
    vectors = np.random.default_rng(1).normal(size=(PICTURES + 20, ELEMENTS)).astype(np.float32)
    there = vectors[:PICTURES]
    arrays = pa.FixedSizeListArray.from_arrays(pa.array(there.reshape(-1)), ELEMENTS).cast(pa.list_(pa.float32()))
    pq.write_table(pa.table({"id": [f"p{i}" for i in range(PICTURES)], "vector": arrays}), path)
    return vectors


def examples(vectors: NDArray[np.float32], rows: int, pick: range, seed: int) -> pa.Table:
    """Return clicks on pictures whose first element is of one sign, and those seen before, which tell nothing."""
    random = np.random.default_rng(seed)
    image, clicked = random.integers(pick.start, pick.stop, rows), random.integers(pick.start, pick.stop, (rows, 2))
    return pa.table(
        {
            "label": (vectors[image, 0] > 0).astype(np.int8),
            "image": [f"p{i}" for i in image],
            "clicked": [[f"p{i}" for i in one] for one in clicked],
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pictures, examples of the first of them, of others, and of some that have no vector."""
    folder = tmp_path_factory.mktemp("pictures")
    vectors = pictures(folder / "pics.parquet")
    for name, pick in (("log", range(KNOWN)), ("new", range(KNOWN, PICTURES)), ("lacking", range(PICTURES, PICTURES + 20))):
        pq.write_table(examples(vectors, 4000 if name == "log" else 500, pick, pick.start), folder / f"{name}.parquet")
    return folder


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[xpsql.Session]:
    """A session with a model `m` of two versions; the second continues it."""
    with xpsql.connect(folder / "warehouse", reporter=SilentReporter()) as session:
        tables(session, folder)
        session.sql(f"TRAIN MODEL m USING {USING} {PICS} WITH ({BOUND}, passes = 3) AS SELECT {COLUMNS} FROM log")
        session.sql(f"CONTINUE MODEL m AS SELECT {COLUMNS} FROM log")
        yield session


def tables(session: xpsql.Session, folder: Path) -> None:
    for name in ("pics", "log", "new", "lacking"):
        session.sql(f"CREATE TEMPORARY VIEW {name} AS SELECT * FROM parquet.`{folder / name}.parquet`")


def auc(session: xpsql.Session, version: int, more: str = "", rows: str = "new") -> float:
    found = session.sql(f"SELECT auc FROM ML.EVALUATE(MODEL m VERSION {version}, TABLE {rows}{more})").arrow()
    return float(found["auc"][0].as_py())


@costly
def test_pictures_that_no_example_had_are_distinguished_by_their_vectors(session: xpsql.Session) -> None:
    assert auc(session, 1) > 0.9
    with_ids_alone = f"TRAIN MODEL ids USING {USING} WITH (share = (clicked AS image)) AS SELECT {COLUMNS} FROM log"
    session.sql(with_ids_alone)
    found = session.sql("SELECT auc FROM ML.EVALUATE(MODEL ids, TABLE new)").arrow()["auc"][0].as_py()
    assert abs(found - 0.5) < 0.1


def test_continue_goes_on_with_the_vectors_of_its_version(session: xpsql.Session, folder: Path) -> None:
    assert auc(session, 2) > 0.9
    one, two = (folder / "warehouse" / "models" / "m" / f"v{number}" / "vectors" / "pics" for number in (1, 2))
    assert [p.read_bytes() for p in sorted(one.iterdir())] == [p.read_bytes() for p in sorted(two.iterdir())]
    checked = session.sql("CHECK MODEL m").arrow().to_pylist()
    assert [row["state"] for row in checked if row["file"].startswith("vectors/")] == ["whole"] * 6


def test_a_statement_may_give_other_vectors(session: xpsql.Session) -> None:
    turned = ", VECTORS pics AS (SELECT id, transform(vector, x -> -x) FROM pics)"
    assert auc(session, 1, turned) < 0.1
    assert auc(session, 1) > 0.9
    of_others = ", VECTORS pics AS (SELECT replace(id, 'p', 'x'), vector FROM pics)"
    lacking = session.sql(f"SELECT predicted_label FROM ML.PREDICT(MODEL m, TABLE lacking{of_others})").arrow()
    none = session.sql("SELECT predicted_label FROM ML.PREDICT(MODEL m, TABLE lacking)").arrow()
    assert lacking.equals(none)  # pictures without rows and vectors are all alike
    assert len(set(none["predicted_label"].to_pylist())) == 1


@costly
def test_spark_learns_and_scores_the_same(session: xpsql.Session, folder: Path, spark: SparkSession, tmp_path: Path) -> None:
    with xpsql.connect(tmp_path / "warehouse", spark, SilentReporter()) as other:
        tables(other, folder)
        train = f"TRAIN MODEL m USING {USING} {PICS} WITH ({BOUND}, workers = 1, shards = 1, passes = 3) AS "
        other.sql(f"{train} SELECT {COLUMNS} FROM log")
        query = "SELECT predicted_label FROM ML.PREDICT(MODEL m VERSION 1, TABLE new)"
        here, there = (one.sql(query).arrow()["predicted_label"].to_numpy() for one in (session, other))
    np.testing.assert_allclose(np.sort(there), np.sort(here), rtol=1e-4, atol=1e-6)


@costly
def test_exports_carry_what_the_network_makes_of_vectors_and_a_delta_has_all_of_them(
    session: xpsql.Session, tmp_path: Path
) -> None:
    pytest.importorskip("jax2onnx", reason="the packages of the extra onnx")
    nothing = "SELECT 1 AS label, CAST(NULL AS STRING) AS image, array('p1', NULL) AS clicked"
    both = f"{nothing} UNION ALL SELECT {COLUMNS} FROM new UNION ALL SELECT {COLUMNS} FROM lacking"
    parity = f"WITH (parity = '{both.replace(chr(39), 2 * chr(39))}')"
    session.sql(f"EXPORT MODEL m VERSION 1 TO '{tmp_path}/1' FORMAT serving {parity}")
    session.sql(f"EXPORT MODEL m VERSION 2 TO '{tmp_path}/2' FORMAT serving DELTA FROM VERSION 1 {parity}")
    assert {path.name for path in (tmp_path / "2").iterdir()} >= {"changes.bin", "vectors.pics.bin"}
    reader = Path(__file__).parents[2] / "examples" / "portable" / "reader.py"
    for folders in (["1"], ["2", "1"]):
        command = [sys.executable, str(reader), *(str(tmp_path / name) for name in folders)]
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
        assert re.fullmatch(r"predicted_label: 1000 rows, largest difference \d(\.\d)?e-0[78]\n", said)


def test_a_vector_is_computed_once_for_all_that_have_it_and_a_lacking_one_is_distinguished(session: xpsql.Session) -> None:
    version = session.models.version("m", 1)
    table = SideTable(located(columns_from(version.manifest), version.manifest, version).sides[0])
    made = SideRows(table, np.array([FIRST + 7, NONE, LACKING, FIRST + 7, FIRST + 3], np.int32)).inputs(8)
    assert np.asarray(made.of_row).tolist() == [3, 0, 1, 3, 2, 0, 0, 0]
    values = np.asarray(made.values)
    assert not values[:FIRST].any()
    assert not values[FIRST + 2 :].any()
    assert values[FIRST : FIRST + 2].any(axis=1).all()


def batch(scalar: list[list[int]], bag_index: list[int], bag_slot: list[int]) -> Inputs:
    """Return three examples with a value of each multi-valued slot; the last line is the intercept's."""
    count = len(bag_index)
    bags = np.array(bag_index, np.int32), np.arange(count, dtype=np.int32) % 3, np.array(bag_slot, np.int32), np.ones(count)
    dense = np.zeros((3, 0), np.float32), np.zeros(0, np.int32)
    return Inputs(np.array(scalar, np.int32), BagRows(*bags), *dense, np.zeros((3, 1)), np.ones(3))  # type: ignore[arg-type]


def test_further_slots_are_as_if_the_query_had_them() -> None:
    layout = Layout(scalar=("image", "user"), bags=("clicked",), sides=(SideSlots("pics", 3, ("image", "clicked"), ()),))
    algorithm = with_sides(WIDE_DEEP.make, layout)(WIDE_DEEP.options(dim=2, hidden=(4,)), layout)
    random = np.random.default_rng(0)
    dense = {spec.name: jnp.asarray(random.normal(size=spec.shape), jnp.float32) for spec in algorithm.dense}
    tables = (("weights", 1), ("vectors", 2))
    rows = {name: jnp.asarray(random.normal(size=(8, dim)), jnp.float32).at[7].set(0) for name, dim in tables}
    values, of_row = np.zeros((5, 3), np.float32), np.array([2, 3, 1, 0, 4, 0, 0, 0], np.int32)
    values[2:] = random.normal(size=(3, 3))
    given = batch([[0, 1, 7], [3, 3, 5], [6, 6, 6]], [4, 2, 7], [0, 0, 0])
    given = given._replace(sides=(SideVectors(jnp.asarray(values), jnp.asarray(of_row)),))
    size = np.sqrt((values**2).mean(axis=1, keepdims=True) + 1e-12)
    x = np.concatenate([values / size, np.eye(5)[:, 1:2]], axis=1)
    made = (x @ dense["vectors.pics.1.kernel"] + dense["vectors.pics.1.bias"]) * (np.arange(5) > 0)[:, None]
    plain = WIDE_DEEP.make(
        WIDE_DEEP.options(dim=2, hidden=(4,)), Layout(scalar=("image", "user", "more"), bags=("clicked", "further"))
    )
    further = jnp.concatenate([rows["vectors"], jnp.asarray(made[of_row], jnp.float32)])
    own = {**dense, "vectors": further, "weights": jnp.concatenate([rows["weights"], jnp.zeros((8, 1))])}
    as_if = batch([[0, 1, 7], [3, 3, 5], [8, 9, 15], [6, 6, 6]], [4, 2, 7, 12, 10, 15], [0, 0, 0, 1, 1, 1])
    np.testing.assert_allclose(
        jax.jit(algorithm.scores)({**dense, **rows}, given), jax.jit(plain.scores)(own, as_if), rtol=1e-5, atol=1e-6
    )
    found = jax.jit(jax.grad(lambda p: algorithm.scores({**rows, **p}, given).sum()))(dense)
    assert float(jnp.abs(found["vectors.pics.1.kernel"]).sum()) > 0


TRAIN, LOG = f"TRAIN MODEL bad USING {USING}", f"AS SELECT {COLUMNS} FROM log"


@costly_after_first
@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        (
            f"{TRAIN} {PICS} WITH (vectors = (imgae IN pics)) {LOG}",
            StatementError,
            "imgae.*Did you mean",
        ),
        (
            f"{TRAIN} {PICS} WITH (vectors = (image IN pcs)) {LOG}",
            StatementError,
            "no clause VECTORS does",
        ),
        (f"{TRAIN} {PICS} WITH ({BOUND}, vectors_hidden = (8, 0)) {LOG}", StatementError, "units, 1 or more"),
        (f"{TRAIN} {PICS} {LOG}", StatementError, "VECTORS pics is used by no slot"),
        (
            f"TRAIN MODEL bad USING xftrl {PICS} WITH (vectors = (image IN pics)) {LOG}",
            StatementError,
            "VECTORS is for networks",
        ),
        (
            f"{TRAIN} VECTORS pics AS (SELECT id FROM pics) WITH ({BOUND}) {LOG}",
            StatementError,
            "^VECTORS pics expects a query of two columns.*it returns id",
        ),
        (
            f"{TRAIN} VECTORS pics AS (SELECT id, nothing FROM pics) WITH ({BOUND}) {LOG}",
            StatementError,
            "VECTORS pics: .*nothing",
        ),
        (
            f"{TRAIN} VECTORS pics AS (SELECT id, array(float('NaN')) AS vector FROM pics) WITH ({BOUND}) {LOG}",
            DataError,
            "finite numbers; the vector of 'p0'",
        ),
        (
            f"{TRAIN} VECTORS pics AS (SELECT id, IF(id = 'p9', array(1F), vector) AS vector FROM pics) WITH ({BOUND}) {LOG}",
            DataError,
            "have 6 elements; that of 'p9' has 1",
        ),
        (
            f"{TRAIN} {PICS}, pics AS (SELECT id, vector FROM pics) WITH ({BOUND}) {LOG}",
            StatementError,
            "VECTORS names pics twice. Leave one out, or give it another name",
        ),
        (
            f"{TRAIN} {PICS} WITH ({BOUND}, vectors_hidden = (0)) {LOG}",
            StatementError,
            r"expects whole numbers of units, 1 or more, like \(64\); got \(0\)",
        ),
        (
            f"{TRAIN} VECTORS pics AS (SELECT id, slice(vector, 1, 0) AS vector FROM pics) WITH ({BOUND}) {LOG}",
            DataError,
            "VECTORS pics has a vector without elements, that of 'p0'",
        ),
        (
            f"TRAIN MODEL bad USING din (target = (image), history = (clicked)) {PICS} WITH (vectors = (image IN pics)) {LOG}",
            StatementError,
            "vectors of ids too; target has image, image:pics, and history clicked. Give both vectors",
        ),
        (
            f"{TRAIN} VECTORS pics AS (SELECT 'p1' AS id, vector FROM pics) WITH ({BOUND}) {LOG}",
            DataError,
            "two vectors for 'p1'",
        ),
        (
            f"CONTINUE MODEL m WITH (vectors = ()) {LOG}",
            StatementError,
            "CONTINUE keeps the vec",
        ),
        ("SELECT * FROM ML.EXPLAIN_PREDICT(MODEL m, TABLE new, 2)", StatementError, "sees vectors by ids, too: pics"),
        (
            "SELECT * FROM ML.PREDICT(MODEL m, TABLE new, VECTORS pisc AS (SELECT id, vector FROM pics))",
            StatementError,
            "'pisc'",
        ),
    ],
)
def test_what_cannot_be_is_an_error_before_anything_starts(
    session: xpsql.Session, statement: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        session.sql(statement)
    assert not session.models.exists("bad")
