"""Whatever the embedded engine emits that DuckDB reads by rules of its own is held to a live Spark by a case of parity."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cases import lengthy
from tests.parity.emitted import LIST, UNSEEN, Emission, Runs, answered, emissions, in_text

NAMED: dict[str, str] = json.loads(LIST.read_text(encoding="utf-8"))


def test_every_cast_parser_and_option_in_the_code_has_its_case() -> None:
    assert [str(one) for one in emissions()] == list(NAMED), "run python -m tests.parity.emitted"
    assert set(NAMED.values()) <= set(answered())
    assert len(NAMED) > 300


@lengthy
def test_each_case_reaches_what_it_is_named_for(tmp_path: Path) -> None:
    of_case: dict[str, list[Emission]] = {}
    for one in emissions():
        of_case.setdefault(NAMED[str(one)], []).append(one)
    runs = Runs(tmp_path)
    missed = [
        f"{one}: {case}"
        for case, own in of_case.items()
        for reached in [runs.reached(case)]
        for one in own
        if not reached.has(one)
    ]
    runs.close()
    assert missed == []


def test_what_a_text_emits_is_found_in_it() -> None:
    assert list(in_text("CASE WHEN TRY_CAST(lower(:x) AS DATE) IS NULL THEN CAST(CAST(:x AS INT) AS BIGINT) END", True)) == [
        "TRY_CAST AS DATE",
        "CAST AS BIGINT",
        "CAST AS INT",
    ]
    assert list(in_text("read_csv({}, header = {}, skip = 1)", True)) == ["read_csv", "option header", "option skip"]
    assert list(in_text("try_strptime(:t, :codes)", True)) == ["try_strptime"]
    assert len(UNSEEN) < 8
