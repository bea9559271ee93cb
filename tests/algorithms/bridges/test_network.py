"""Networks that users write: learned, carried by their models, and refused at the place of the fault."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import xpsql
from tests.algorithms.uses import NETWORK
from tests.cases import costly, costly_after_first
from xpsql.platform.progress import SilentReporter
from xpsql.platform.trust import TRUST, digest, trust_file
from xpsql.testing import ALGORITHM_CHECKS, AlgorithmTrial
from xpsql.testing.algorithms import it_runs_on_accelerators

GALLERY = Path(__file__).parents[3] / "examples" / "networks"
KINDS = {
    "jax": ("jax", ""),
    "flax": ("nnx", ""),
    "equinox": ("equinox", ", class = 'Dcn'"),
    "torch": ("torch", ", class = 'Dcn'"),
}
ROWS = 600


@pytest.fixture(autouse=True)
def nothing_is_trusted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    forget(monkeypatch)


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this process one that has just begun, as far as trust goes."""
    for name, value in (("_seen", set()), ("allowed", False), ("keeps", False)):
        monkeypatch.setattr(TRUST, name, value)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[xpsql.Session]:
    with opened(tmp_path) as session:
        yield session


def opened(folder: Path, trust: bool = False) -> xpsql.Session:
    session = xpsql.connect(folder / "warehouse", "duckdb", SilentReporter(), trust=trust)
    session.register("log", log())
    return session


def log() -> pa.Table:
    random = np.random.default_rng(1)
    user, item = random.integers(0, 12, ROWS), random.integers(0, 12, ROWS)
    price = random.normal(size=ROWS)
    click = ((user % 3 == item % 3) ^ (random.random(ROWS) < 0.1)).astype(np.int64)
    clicked = [[f"i{value}" for value in random.integers(0, 12, random.integers(0, 5))] for _ in range(ROWS)]
    names = {"user": [f"u{value}" for value in user], "item": [f"i{value}" for value in item]}
    return pa.table({**names, "price": price, "clicked": clicked, "click": click, "buy": click * (price > 0)})


def train(
    session: xpsql.Session, using: str, model: str = "m", labels: str = "click", ignore: str = "buy"
) -> dict[str, object]:
    ignored = f"IGNORE ({ignore})" if ignore else ""
    statement = f"TRAIN MODEL {model} USING network ({using}) LABEL {labels} {ignored} WITH (passes = 3) AS SELECT * FROM log"
    row: dict[str, Any] = session.sql(statement).arrow().to_pylist()[0]
    return row


def predictions(session: xpsql.Session) -> list[float]:
    table = session.sql("SELECT predicted_click FROM ML.PREDICT(MODEL m, TABLE log)").arrow()
    values: list[float] = table["predicted_click"].to_pylist()
    return values


def written(folder: Path, text: str) -> Path:
    path = folder / "net.py"
    path.write_text(text, encoding="utf-8")
    return path


@costly_after_first
@pytest.mark.parametrize("kind", KINDS)
def test_a_network_learns_in_each_kind_and_predicts_without_its_file(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(kind)
    name, named = KINDS[kind]
    text = (GALLERY / f"dcn_{name}.py").read_text(encoding="utf-8")
    path = written(tmp_path, text)
    with opened(tmp_path) as session:
        assert train(session, f"file = '{path}'{named}, hidden = (16), dim = 4")["status"] == "ready"
        before = predictions(session)
        manifest = session.models.version("m").manifest.algorithm.options
        assert (manifest["source"], manifest["sha256"]) == (text, digest(text))
    assert np.std(before) > 0
    path.unlink()
    forget(monkeypatch)
    with opened(tmp_path) as session, pytest.raises(xpsql.ModelError, match=r"carries source text, .*net\.py .*--trust"):
        predictions(session)
    with opened(tmp_path, trust=True) as session:
        assert predictions(session) == before
    assert trust_file().read_text(encoding="ascii").split() == [digest(text)]
    forget(monkeypatch)
    with opened(tmp_path) as session:  # a daily job was asked once
        assert predictions(session) == before
        session.sql("CONTINUE MODEL m AS SELECT * FROM log")
        assert predictions(session) != before


@costly
def test_a_text_that_was_changed_in_the_warehouse_does_not_run(
    session: xpsql.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(session, f"file = '{NETWORK}'")
    (manifest,) = (tmp_path / "warehouse").rglob("v1/manifest.json")
    manifest.write_text(manifest.read_text(encoding="utf-8").replace("jnp.tanh", "jnp.sinh"), encoding="utf-8")
    with opened(tmp_path, trust=True) as other, pytest.raises(xpsql.ModelError, match="not what its hash says"):
        predictions(other)


@costly
@pytest.mark.parametrize(("kind", "module"), [("flax", "dcn_nnx"), ("equinox", "dcn_equinox"), ("torch", "dcn_torch")])
def test_a_class_of_a_library_conforms(kind: str, module: str) -> None:
    pytest.importorskip(kind)
    from xpsql.algorithms.bridges.network import NETWORK_PART, NetworkOptions

    text = (GALLERY / f"{module}.py").read_text(encoding="utf-8")
    trial = AlgorithmTrial(NETWORK_PART, NetworkOptions(source=text, class_="Dcn", dim=4, arguments=(("hidden", (8,)),)))
    for check in ALGORITHM_CHECKS:
        if kind != "torch" or check is not it_runs_on_accelerators:  # torch runs on CPUs, in calls from the compiled step
            check(trial)


@costly
def test_a_network_sees_histories_dense_inputs_and_labels_by_name(session: xpsql.Session, tmp_path: Path) -> None:
    text = """
import jax.numpy as jnp

def init(key, features):
    assert features.slots == ("user", "item"), features.slots
    assert features.dense == (("price", 1),)
    assert features.histories == ("clicked",)
    assert features.labels == ("click", "buy")
    return {"scale": jnp.ones(2), "slope": jnp.zeros(2)}

def apply(parameters, x):
    vectors, mask = x.history["clicked"]
    pooled = (vectors * mask[..., None]).sum(axis=1)
    match = (pooled * x.target).sum(axis=-1, keepdims=True)
    return match * parameters["scale"] + x["price"] * parameters["slope"] + x.wide
"""
    path = written(tmp_path, text)
    train(
        session, f"file = '{path}', target = (item), history = (clicked), length = 8, dim = 4", labels="click, buy", ignore=""
    )
    table = session.sql("SELECT * FROM ML.PREDICT(MODEL m, TABLE log)").arrow()
    assert {"predicted_click", "predicted_buy"} <= set(table.column_names)


def test_options_of_the_constructor_and_shapes_are_explained(session: xpsql.Session) -> None:
    query = f"EXPLAIN TRAIN MODEL m USING network (file = '{NETWORK}', dim = 4, units = 5) LABEL click AS "
    rows = session.sql(query + "SELECT user, item, price, click FROM log").arrow().to_pylist()
    found = {row["property"]: row["value"] for row in rows}
    assert found["dense network.hidden"].startswith("float32[9, 5]")
    assert found["dense network.out"].startswith("float32[5, 1]")


@costly
@pytest.mark.parametrize(("kind", "module"), [("flax", "dcn_nnx"), ("torch", "dcn_torch")])
def test_dropout_draws_by_the_seed_and_scores_without(session: xpsql.Session, kind: str, module: str) -> None:
    pytest.importorskip(kind)
    path = GALLERY / f"{module}.py"
    found = {}
    for model, dropout in (("a", 0.5), ("b", 0.5), ("c", 0.0)):
        train(session, f"file = '{path}', class = 'Dcn', hidden = (16), dim = 4, dropout = {dropout}", model)
        table = session.sql(f"SELECT predicted_click FROM ML.PREDICT(MODEL {model}, TABLE log)").arrow()
        found[model] = table["predicted_click"].to_pylist()
    assert found["a"] == found["b"]
    assert found["a"] != found["c"]


HEAD = "import jax, jax.numpy as jnp\n"
INIT = "def init(key, features):\n    return {'w': jnp.zeros((features.width, 1))}\n"
APPLY = "def apply(parameters, x):\n    return (x.flat @ parameters['w'])\n"


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("import there_is_none\n", "", r"net\.py, line 1: ModuleNotFoundError: No module named 'there_is_none'"),
        ("x = (\n", "", r"net\.py, line 1: SyntaxError"),
        (HEAD + INIT, "", "has no network: expected a flax.nnx.Module"),
        (
            "class A:\n    init = apply = print\nclass B(A):\n    pass\n",
            "",
            r"net\.py has several networks: A, B\. Say which one, like class = 'B'",
        ),
        (HEAD + INIT + APPLY, ", class = 'Ranker'", r"net\.py has no class 'Ranker'.*at \"class = 'Ranker'\""),
        (HEAD + INIT + APPLY, ", hiden = (3)", r"takes no argument 'hiden', nor does algorithm network.*at 'hiden = \(3\)'"),
        (HEAD + INIT.replace("features)", "features, units: int)") + APPLY, "", "needs the argument 'units'"),
        (
            HEAD + "def init(key, features, units: int = 3):\n    return {'w': jax.random.normal(key, (2, units))}\n" + APPLY,
            ", units = -3",
            r"The network has a parameter w of shape \[2, -3\]: no size is below 0\.",
        ),
        (
            HEAD + INIT + APPLY,
            ", module = 'json'",
            "module of algorithm network names a network, and so does file",
        ),
        (
            HEAD + INIT.replace("features)", "features, units: int = 3)") + APPLY,
            ", units = 'x'",
            r"argument units of init of .* expects an int, got 'x'.*at \"units = 'x'\"",
        ),
        (HEAD + INIT + APPLY.replace("['w']", "['w'].T"), "", r"net\.py, line 5: TypeError: dot_general"),
        (HEAD + INIT + APPLY.replace("(x.flat", "x['itm'] + (x.flat"), "", r"line 5: KeyError: no slot .*'itm'.* mean item"),
        (HEAD + INIT.replace("1)", "2)") + APPLY, "", r"must return float\[batch\] or float\[batch, 1\], got float32\[3, 2\]"),
        (HEAD + INIT.replace("1))", "1), int)") + APPLY, "", "parameter w must be float32, got int32"),
        (HEAD + INIT + APPLY, ", target = (itm)", "Option target of algorithm network names 'itm', which is not a slot"),
    ],
)
def test_a_fault_is_reported_at_its_line_before_anything_starts(
    session: xpsql.Session, tmp_path: Path, text: str, options: str, message: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(xpsql.StatementError) as raised:
        train(session, f"file = '{path}'{options}")
    assert re.search(message, str(raised.value)), str(raised.value)
    assert not session.models.exists("m")


def test_state_that_is_no_parameter_is_refused_by_name(session: xpsql.Session, tmp_path: Path) -> None:
    pytest.importorskip("flax")
    text = """
from flax import nnx

class Calls(nnx.Variable):
    pass

class Counting(nnx.Module):
    def __init__(self, features, *, rngs):
        self.out = nnx.Linear(features.width, 1, rngs=rngs)
        self.calls = Calls(0.0)

    def __call__(self, x):
        self.calls[...] += 1
        return self.out(x.flat)
"""
    path = written(tmp_path, text)
    with pytest.raises(xpsql.StatementError, match=r"state that is not a parameter: calls, a Calls"):
        train(session, f"file = '{path}', class = 'Counting'")


@pytest.mark.parametrize(
    ("using", "message"),
    [
        ("file = 'there/is/none.py'", r"Option file of algorithm network cannot be read.*at \"file = 'there/is/none.py'\""),
        ("file = 'there\0.py'", "Option file of algorithm network cannot be read: embedded null byte"),
        ("module = 'there_is_none'", r"Option module of algorithm network names 'there_is_none'"),
        ("dim = 4", "Option file of algorithm network is missing"),
    ],
)
def test_a_text_that_is_not_there_is_reported(session: xpsql.Session, using: str, message: str) -> None:
    with pytest.raises(xpsql.OptionError) as raised:
        train(session, using)
    assert re.search(message, str(raised.value)), str(raised.value)


@costly
def test_a_module_that_can_be_imported_is_carried_too(session: xpsql.Session) -> None:
    train(session, "module = 'tests.algorithms.bridges.plain', dim = 4")
    text = NETWORK.read_text(encoding="utf-8")
    assert session.models.version("m").manifest.algorithm.options["source"] == text


EVIL = "from pathlib import Path\nPath('ran').write_text('x')\n"
READERS = (
    "SELECT * FROM ML.PREDICT(MODEL m, TABLE log)",
    "SELECT * FROM ML.EVALUATE(MODEL m, TABLE log)",
    "SELECT * FROM ML.EXPLAIN_PREDICT(MODEL m, TABLE log, 2)",
    "SELECT * FROM ML.OPTIONS(MODEL m)",
    "CONTINUE MODEL m AS SELECT * FROM log",
    "CONTINUE MODEL m USING network (class = 'Net') AS SELECT * FROM log",
    "EXPLAIN CONTINUE MODEL m AS SELECT * FROM log",
    "EXPORT MODEL m TO 'away' FORMAT serving",
    "RESUME MODEL m",
)


@costly
def test_no_file_or_module_is_read_that_a_manifest_names_and_no_statement_does(
    session: xpsql.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(session, f"file = '{NETWORK}'")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "evil.py").write_text(Path(NETWORK).read_text(encoding="utf-8") + EVIL, encoding="utf-8")
    path = tmp_path / "warehouse" / "models" / "m" / "v1" / "manifest.json"
    sound = json.loads(path.read_text(encoding="utf-8"))
    own = sound["algorithm"]["options"]
    absent = [{name: value for name, value in own.items() if name != gone} for gone in ("source", "sha256")]
    claims: list[dict[str, Any]] = [
        *absent, {}, {"file": "evil.py"}, {"module": "evil"}, {"FILE": "evil.py"},
        {"file": "evil.py", "source": None, "sha256": None},
        {"file": "evil.py", "source": "", "sha256": digest("")}, {"file": "evil.py", "source": ["x"], "sha256": digest("x")},
    ]  # fmt: skip
    for options in claims:
        for reader in READERS:
            forget(monkeypatch)
            status = "interrupted" if reader.startswith("RESUME") else "ready"
            changed = {**sound, "status": status, "algorithm": {**sound["algorithm"], "options": options}}
            path.write_text(json.dumps(changed), encoding="utf-8")
            with pytest.raises(
                xpsql.ModelError, match=r"no source text with its SHA-256|have not trusted it|what its hash says"
            ):
                session.sql(reader).arrow()
    assert not (tmp_path / "ran").exists()
    assert session.models.numbers("m") == [1]
