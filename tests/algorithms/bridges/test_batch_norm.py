"""Running averages of BatchNorm: dense parameters that updates move and scoring reads."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import xpsql
from tests.cases import costly
from xpsql.testing import AlgorithmTrial
from xpsql.testing.algorithms import EXAMPLES, PADDING, padded

NETWORKS = {
    "flax": """
from flax import nnx

class Normed(nnx.Module):
    def __init__(self, features, *, rngs):
        self.norm = nnx.BatchNorm(features.width, momentum=0.9, rngs=rngs)
        self.out = nnx.Linear(features.width, 1, rngs=rngs)

    def __call__(self, x):
        return self.out(self.norm(x.flat)) + x.wide
""",
    "torch": """
from torch import nn

class Normed(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.BatchNorm1d(features.width, momentum=0.1)
        self.out = nn.Linear(features.width, 1)

    def forward(self, x):
        return self.out(self.norm(x.flat)) + x.wide
""",
}
NAMES = {"flax": ("mean", "var"), "torch": ("running_mean", "running_var")}
DENSE = slice(-4, None)  # of the inputs that the layer sees, those that are numbers of the batch as they are


@pytest.fixture(params=NETWORKS)
def trial(request: pytest.FixtureRequest) -> tuple[str, AlgorithmTrial]:
    pytest.importorskip(request.param)
    from xpsql.algorithms.bridges.network import NETWORK_PART, NetworkOptions

    options = NetworkOptions(source=NETWORKS[request.param], class_="Normed", dim=4)
    return request.param, AlgorithmTrial(NETWORK_PART, options)


def test_averages_move_as_an_exponential_average_of_what_a_batch_has(trial: tuple[str, AlgorithmTrial]) -> None:
    kind, trial_of_kind = trial
    parameters, inputs = trial_of_kind.parameters(), trial_of_kind.inputs()
    learned = trial_of_kind.learn(parameters, inputs._replace(random=jnp.array([1, 2], jnp.uint32)), None)
    batch = np.asarray(inputs.dense)
    by_kind = {"flax": 0, "torch": 1}[kind]  # torch keeps the variance of what the batch was drawn from
    for name, statistic in zip(NAMES[kind], (batch.mean(axis=0), batch.var(axis=0, ddof=by_kind)), strict=True):
        spec = next(spec for spec in trial_of_kind.algorithm.dense if spec.name == f"network.norm.{name}")
        assert spec.optimizer is not None
        optimizer, before = spec.optimizer(), np.asarray(parameters[spec.name])
        step, _ = optimizer.update(learned.dense[spec.name], optimizer.init(before), before)
        expected = 0.9 * before[DENSE] + 0.1 * statistic
        np.testing.assert_allclose((before + np.asarray(step))[DENSE], expected, rtol=1e-4, atol=1e-5)


def test_padding_has_no_part_in_what_a_batch_has(trial: tuple[str, AlgorithmTrial]) -> None:
    _, trial_of_kind = trial
    parameters, random = trial_of_kind.parameters(), jnp.array([1, 2], jnp.uint32)
    whole = trial_of_kind.learn(parameters, trial_of_kind.inputs()._replace(random=random), None)
    found = trial_of_kind.learn(parameters, padded(trial_of_kind.inputs(), PADDING)._replace(random=random), None)
    np.testing.assert_allclose(found.predictions[:EXAMPLES], whole.predictions, rtol=1e-4, atol=1e-5)
    for name, gradient in whole.dense.items():
        np.testing.assert_allclose(found.dense[name], gradient, rtol=1e-4, atol=1e-5, err_msg=name)


@costly
@pytest.mark.parametrize("kind", NETWORKS)
def test_scoring_reads_the_averages_that_the_version_has(kind: str, session: xpsql.Session, tmp_path: Path) -> None:
    pytest.importorskip(kind)
    path = tmp_path / "net.py"
    path.write_text(NETWORKS[kind], encoding="utf-8")
    session.sql(
        "CREATE TABLE log AS SELECT concat('u', id % 7) AS user, 100.0 * (id % 5) AS price, id % 2 AS click FROM range(512)"
    )
    session.sql(
        f"TRAIN MODEL m USING network (file = '{path}', class = 'Normed') LABEL click WITH (passes = 5) AS SELECT * FROM log"
    )
    few = session.sql("SELECT predicted_click FROM ML.PREDICT(MODEL m, (SELECT * FROM log LIMIT 1))").arrow().to_pylist()
    all_of_them = session.sql("SELECT predicted_click FROM ML.PREDICT(MODEL m, TABLE log)").arrow().to_pylist()
    assert few[0]["predicted_click"] == pytest.approx(all_of_them[0]["predicted_click"], abs=1e-6)


def test_other_state_of_a_module_of_torch_is_refused_by_name(session: xpsql.Session, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path, buffer = tmp_path / "net.py", "self.register_buffer('seen', torch.zeros(1))"
    for attribute, call, name in (
        (buffer, "self.seen += 1", "seen, a buffer"),
        ("self.calls = 0", "self.calls += 1", "calls, a number"),
    ):
        text = NETWORKS["torch"].replace("momentum=0.1)", f"momentum=0.1)\n        {attribute}")
        text = "import torch\n" + text.replace("x):\n", f"x):\n        {call}\n")
        path.write_text(text, encoding="utf-8")
        with pytest.raises(xpsql.StatementError, match=f"state that is not a parameter: {name}"):
            session.sql(f"TRAIN MODEL m USING network (file = '{path}', class = 'Normed') LABEL y AS SELECT 'a' AS x, 1 AS y")
