"""What the command leaves out."""

from __future__ import annotations

import subprocess
import sys

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


def test_pandas_is_not_imported_until_it_is_asked_for() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=60)
