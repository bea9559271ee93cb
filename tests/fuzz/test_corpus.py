"""Every target takes what the repository keeps for it, and refuses what is cut or changed, with the errors of its reader."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cases import costly_after_first
from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"
CHANGES = 40


def inputs(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]


@costly_after_first
@pytest.mark.parametrize("name", list(TARGETS))
def test_a_target_takes_its_corpus_and_refuses_the_rest_with_its_own_errors(name: str, tmp_path: Path) -> None:
    target, random = TARGETS[name](tmp_path), np.random.default_rng(1)
    kept = inputs(name)
    taken = [target(data) for data in kept]
    assert sum(taken) >= 2, taken  # further than the first check
    for data in kept:
        for _ in range(CHANGES):
            changed = bytearray(data)
            changed[random.integers(len(changed))] = random.integers(256)
            target(bytes(changed[: random.integers(1, len(changed) + 1)]))


def test_a_target_tells_of_an_error_that_its_reader_does_not_declare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(manifest: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("xpsql.warehouse.manifest.check_values", broken)
    target = TARGETS["manifests"](tmp_path)
    with pytest.raises(ZeroDivisionError):
        target(inputs("manifests")[0])
