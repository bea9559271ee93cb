"""The networks of examples/networks: each learns what a log has, in under 60 lines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import xpsql

GALLERY = Path(__file__).parents[2] / "examples" / "networks"
NETWORKS = {
    "dcn_jax": ("jax", ""),
    "dcn_nnx": ("flax", ", class = 'Dcn'"),
    "dcn_equinox": ("equinox", ", class = 'Dcn'"),
    "dcn_keras": ("keras", ", class = 'Dcn'"),
    "dcn_torch": ("torch", ", class = 'Dcn'"),
    "transformer_nnx": ("flax", ", class = 'Transformer', target = (item), history = (clicked), length = 8"),
}
ROWS, ITEMS = 3000, 12


def log() -> pa.Table:
    """Return clicks on an item of the group that the user clicked last."""
    random = np.random.default_rng(3)
    user, item = random.integers(0, 40, ROWS), random.integers(0, ITEMS, ROWS)
    last = random.integers(0, ITEMS, ROWS)
    clicked = [[f"i{value}" for value in (*random.integers(0, ITEMS, row % 5), last[row])] for row in range(ROWS)]
    liked = (item % 3 == last % 3) & (user % 4 != 0)
    click = random.random(ROWS) < np.where(liked, 0.9, 0.1)
    names = {"user": [f"u{value}" for value in user], "item": [f"i{value}" for value in item]}
    return pa.table({**names, "last": [f"i{value}" for value in last], "clicked": clicked, "click": click.astype(np.int64)})


def test_every_network_is_short() -> None:
    found = {path.stem: len(path.read_text(encoding="utf-8").splitlines()) for path in GALLERY.glob("*.py")}
    assert NETWORKS.keys() <= found.keys()
    assert max(found.values()) < 60, found


@pytest.mark.filterwarnings("default")  # of Keras, when it is imported
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_learns(name: str, session: xpsql.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    package, options = NETWORKS[name]
    pytest.importorskip(package)
    session.register("log", log())
    columns = "user, item, clicked, click" if "history" in options else "user, item, last, click"
    session.sql(
        f"TRAIN MODEL m USING network (file = '{GALLERY / name}.py'{options}, dim = 8) LABEL click "
        f"WITH (passes = 8, batch_size = 100) AS SELECT {columns} FROM log"
    )
    found = session.sql(f"SELECT auc FROM ML.EVALUATE(MODEL m, (SELECT {columns} FROM log))").arrow()["auc"][0].as_py()
    assert found > 0.8
