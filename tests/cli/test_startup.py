"""What the command leaves out."""

from __future__ import annotations

import subprocess
import sys

from tests.cases import lengthy

PROGRAM = """
import sys
from xpsql.platform.cli.startup import skip_pandas
skip_pandas()
import pyarrow as pa
pa.array([1, 2]).to_numpy()
assert "pandas" not in sys.modules
assert pa.table({"a": [1]}).to_pandas()["a"].tolist() == [1]
import pandas
assert pandas.DataFrame({"a": [1]}).shape == (1, 1)
"""

JAX = """
import importlib.metadata, sys
from xpsql.platform.cli.startup import shorten_jax
installed = importlib.metadata.distributions
shorten_jax()
import jax
assert not {"etils", "filelock"} & set(sys.modules)
assert importlib.metadata.distributions is installed
assert int(jax.numpy.arange(4).sum()) == 6
import filelock
"""


@lengthy
def test_jax_looks_for_no_packages_that_a_training_does_not_need() -> None:
    subprocess.run([sys.executable, "-c", JAX], check=True, timeout=120)


@lengthy
def test_pandas_is_not_imported_until_it_is_asked_for() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=60)
