"""A network is tried by the command, and its first fault is reported at its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.algorithms.uses import NETWORK
from xpsql.platform.cli import main


def test_inputs_and_arguments_are_those_that_the_command_names(tmp_path: Path) -> None:
    found = CliRunner().invoke(
        main, ["check", str(NETWORK), "--slots", "a, b,c", "--dense", "", "--labels", "click,buy", "--dim", "4", "units=5"]
    )
    assert (found.exit_code, found.output.splitlines()) == (
        0,
        ["hidden  float32[12, 5]", "out  float32[5, 2]", "70 floats in 2 parameters", "returns float32[batch, 2]"],
    )


@pytest.mark.parametrize(
    ("changed", "arguments", "message"),
    [
        ("x['itm'] @", [], "The network fails at net.py, line 16: KeyError: no slot or dense input 'itm'. Did you mean item?"),
        ("x.flat @", ["units=many"], "argument units of init of net.py expects an int, got 'many'."),
        ("x.flat @", ["--class", "Ranker"], "net.py has no class 'Ranker'."),
        ("x.slots @", [], "The network fails at net.py, line 16: TypeError"),
    ],
)
def test_a_fault_is_reported_and_the_exit_code_is_1(
    changed: str, arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NETWORK.read_text(encoding="utf-8").replace("x.flat @", changed), encoding="utf-8")
    found = CliRunner().invoke(main, ["check", "net.py", *arguments])
    assert found.exit_code == 1
    assert message in found.output
