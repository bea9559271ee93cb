"""What order costs in quality: models of a log whose rows are shuffled, and of the same with each user's rows together, or
those of each request, ten rows of a user.

python -m benchmarks.order FOLDER [SEEDS]: test AUC of shuffled rows, five seeds if nothing is said, and by how much that of the
others differs, with the 95 % of a bootstrap over users. FOLDER has `kuairand_kcore15/log_standard_kcore15.tsv.gz`, see
`benchmarks.interests`; the other log is made: what its users click depends on who they are more than on what they see.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.auc import auc
from benchmarks.interests import FIELDS, LONGEST, PASSES, SIZES, kuairand
from xpsql import Session, connect
from xpsql.platform.progress import SilentReporter

Floats = NDArray[np.float64]
USERS, EACH, TESTED, ITEMS = 3_000, 80, 20, 1_000
REQUEST, SAMPLES = 10, 300


def made() -> tuple[pa.Table, pa.Table]:
    """Return rows to learn from and to test on, the last ones of each user."""
    random = np.random.default_rng(5)
    user = np.repeat(np.arange(USERS), EACH + TESTED)
    item = random.integers(0, ITEMS, len(user))
    of_user, of_item = random.normal(size=USERS) * 1.5, random.normal(size=ITEMS) * 0.7
    tastes, kinds = random.normal(size=(8, 10)) * 1.2, item % 10
    score = of_user[user] + of_item[item] + tastes[user % 8, kinds] - 1
    click = random.random(len(user)) < 1 / (1 + np.exp(-score))
    names = {"user": user, "item": item, "kind": kinds, "segment": user % 8, "city": user % 97, "device": user * 7 % 13}
    columns = {name: pa.array(values.astype("U")) for name, values in names.items()}
    table = pa.table({"label": click.astype(np.int8), **columns})
    last = np.arange(len(user)) % (EACH + TESTED) >= EACH
    return table.filter(pa.array(~last)), table.filter(pa.array(last))


def orders(users: NDArray[Any], seed: int) -> dict[str, NDArray[np.intp]]:
    """Return the rows in all orders; within a user, or a request, they stay in theirs."""
    random = np.random.default_rng(seed)
    _, number = np.unique(users, return_inverse=True)
    sorted_rows = np.argsort(number, kind="stable")
    first = np.searchsorted(number[sorted_rows], np.arange(number.max() + 1))
    of_user = np.empty(len(users), np.intp)
    of_user[sorted_rows] = np.arange(len(users)) - first[number[sorted_rows]]
    request = number * (of_user.max() // REQUEST + 1) + of_user // REQUEST
    groups = {"by user": number, "by request": request}
    places = {name: random.permutation(of.max() + 1)[of] for name, of in groups.items()}
    found = {name: np.argsort(place, kind="stable") for name, place in places.items()}
    return {"shuffled": random.permutation(len(users)), **found}


def predicted(session: Session, using: str, settings: str, passes: int, train: Path, test: Path) -> Floats:
    """Return the predictions of a model for the test rows."""
    source = f"SELECT * FROM parquet.`{train}`"
    session.sql(f"TRAIN OR REPLACE MODEL m USING {using} LABEL label WITH (workers = 1, {settings}) AS {source}")
    for _ in range(passes - 1):
        session.sql(f"CONTINUE MODEL m AS {source}")
    rows = session.sql(f"SELECT predicted_label FROM ML.PREDICT(MODEL m, (SELECT * FROM parquet.`{test}`))").arrow()
    return np.asarray(rows["predicted_label"].to_numpy(), np.float64)


def difference(
    labels: NDArray[np.bool_], users: NDArray[Any], pairs: Sequence[tuple[Floats, Floats]]
) -> tuple[float, float, float]:
    """Return the mean difference of AUC, and between which values 95 % of the samples of users lie."""

    def mean(rows: NDArray[np.intp]) -> float:
        return float(np.mean([auc(labels[rows], one[rows]) - auc(labels[rows], two[rows]) for one, two in pairs]))

    random, rows_of = np.random.default_rng(0), [np.flatnonzero(users == one) for one in np.unique(users)]
    found = [mean(np.concatenate([rows_of[i] for i in random.integers(0, len(rows_of), len(rows_of))])) for _ in range(SAMPLES)]
    low, high = np.quantile(found, (0.025, 0.975))
    return mean(np.arange(len(labels))), float(low), float(high)


def compare(name: str, tables: tuple[pa.Table, pa.Table], models: dict[str, str], passes: int, seeds: int, extra: str) -> None:
    train, test = tables
    labels, users = test["label"].to_numpy() == 1, test["user"].to_numpy(zero_copy_only=False)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        pq.write_table(test, folder / "test.parquet")
        for model, using in models.items():
            found: dict[str, list[Floats]] = {}
            for seed in range(1, seeds + 1):
                for order, rows in orders(train["user"].to_numpy(zero_copy_only=False), seed).items():
                    pq.write_table(train.take(rows), folder / "train.parquet", row_group_size=1 << 16)
                    with connect(folder / "warehouse", reporter=SilentReporter()) as session:
                        files = folder / "train.parquet", folder / "test.parquet"
                        found.setdefault(order, []).append(predicted(session, using, f"seed = {seed}{extra}", passes, *files))
            shuffled = found.pop("shuffled")
            line = f"| {name} | {model} | {np.mean([auc(labels, one) for one in shuffled]):.4f} |"
            for others in found.values():
                mean, low, high = difference(labels, users, list(zip(others, shuffled, strict=True)))
                line += f" {mean:+.4f} ({low:+.4f} to {high:+.4f}) |"
            print(line, flush=True)


def main(folder: Path, seeds: int) -> None:
    print("| log | model | shuffled | by user | by request |\n|---|---|---|---|---|", flush=True)
    compare("made", made(), {"xftrl": "xftrl", "xnn": f"xnn ({SIZES})"}, 1, seeds, "")
    target, history = (", ".join(names) for names in FIELDS["kuairand"])
    share = f", share = ({history} AS {target})"
    din = f"din (target = ({target}), history = ({history}), length = {LONGEST}, {SIZES})"
    networks = {"xnn": f"xnn ({SIZES})", "din": din}
    compare("kuairand", kuairand(folder), networks, PASSES["kuairand"], seeds, share)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5)
