"""Versions appear, are served, replaced and dropped in one step; names and numbers follow their rules."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.warehouse.fill import MANIFEST, TABLE, fill, rows, train
from xpsql.platform.errors import DataError, ModelError
from xpsql.warehouse.draft import Draft
from xpsql.warehouse.manifest import FORMAT, read_manifest, write_manifest
from xpsql.warehouse.models import Models
from xpsql.warehouse.rows import reading


@pytest.fixture
def models(tmp_path: Path) -> Models:
    return Models(tmp_path)


def test_a_committed_version_is_served_and_reads_back_its_rows(models: Models) -> None:
    train(models)
    version = models.version("ctr")
    assert (version.number, version.served, version.manifest.status) == (1, True, "ready")
    assert version.manifest.slots == MANIFEST.slots
    assert version.manifest.algorithm == MANIFEST.algorithm
    assert [b.to_pylist() for b in version.rows("w")] == [rows().to_pylist()]
    assert [b.to_pydict() for b in version.rows("w", ["w", "key"])] == [{"w": [0.5, -1.5, 0.0], "key": [-5, 7, 9]}]


def test_names_are_one_model_whatever_their_case_and_stay_inside_the_folder(models: Models) -> None:
    for name in ("Ctr", "../evil", ".hidden", "a b/ü", "x~1"):
        train(models, name)
        assert models.exists(name.upper())
    assert models.names() == sorted(["ctr", "../evil", ".hidden", "a b/ü", "x~1"])
    assert len(list(models.folder.iterdir())) == 5


@pytest.mark.parametrize("name", ["", "x" * 201])
def test_a_name_that_is_no_folder_is_refused(models: Models, name: str) -> None:
    with pytest.raises(ModelError, match="1 to 200 bytes"):
        models.begin(name, MANIFEST)


def test_an_unknown_model_is_answered_with_the_nearest_name(models: Models) -> None:
    train(models, "clicks")
    for use in (models.versions, models.version, models.find, models.drop):
        with pytest.raises(ModelError, match=r"no model click\. Did you mean clicks\? Valid: clicks\."):
            use("click")


def test_an_unknown_version_is_answered_with_the_list_of_versions(models: Models) -> None:
    train(models)
    for use in (models.version, models.promote, models.drop):
        with pytest.raises(ModelError, match=r"no version 9\. Versions: 1"):
            use("ctr", 9)


def test_training_an_existing_model_needs_or_replace_or_continue(models: Models) -> None:
    train(models)
    with pytest.raises(ModelError, match="OR REPLACE"):
        models.begin("CTR", MANIFEST)
    assert train(models, parent=1) == 2
    assert models.version("ctr").manifest.learned.examples_total == 200


def test_continuing_an_unknown_model_leaves_nothing(models: Models) -> None:
    with pytest.raises(ModelError, match="There is no model ctr"):
        models.begin("ctr", dataclasses.replace(MANIFEST, parent=1))
    assert not models.folder.exists()


def test_replaced_versions_are_served_until_the_new_one_is_ready(models: Models) -> None:
    train(models)
    train(models, parent=1)
    models.promote("ctr", 1)
    with models.begin("ctr", MANIFEST, replace=True) as draft:
        assert models.version("ctr").number == 1
        fill(draft)
    assert [v.number for v in models.versions("ctr")] == [3]
    assert models.version("ctr").served
    assert [f.name for f in (models.folder / "ctr").iterdir() if f.name.startswith("v")] == ["v3"]


def test_who_reads_a_version_reads_it_to_its_end_though_it_is_replaced(models: Models) -> None:
    train(models)
    with models.reading("ctr") as first, models.reading("ctr") as again:
        assert (first.number, again.number) == (1, 1)
        assert train(models, replace=True) == 2
        assert train(models, replace=True) == 3
        assert [v.number for v in models.versions("ctr")] == [3]
        assert [b.to_pylist() for b in first.rows("w")] == [rows().to_pylist()]
        assert not (first.folder.parent / "v2").exists()
        with pytest.raises(ModelError, match="no version 1"), models.reading("ctr", 1):
            pass
    train(models, parent=3)
    assert not first.folder.exists()


def test_old_versions_that_somebody_reads_are_retained(models: Models) -> None:
    for parent in (None, 1, 2):
        train(models, parent=parent)
    with models.reading("ctr", 1):
        assert models.drop_old("ctr", 1) == [2]
    assert models.drop_old("ctr", 1) == [1]


def test_a_version_that_is_moved_away_while_it_is_found_is_not_read(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    train(models)
    found = models.version("ctr")
    train(models, replace=True)
    versions = iter([found, found, models.version("ctr")])
    monkeypatch.setattr(models, "version", lambda *_: next(versions))
    with models.reading("ctr") as version:
        assert version.number == 2


def test_a_failed_replacement_leaves_the_old_version_served(models: Models) -> None:
    train(models)
    with pytest.raises(DataError), models.begin("ctr", MANIFEST, replace=True):
        raise DataError("label of row 7 is null")
    assert [(v.number, v.manifest.status, v.served) for v in models.versions("ctr")] == [
        (1, "ready", True),
        (2, "failed", False),
    ]
    assert models.versions("ctr")[1].manifest.error == "label of row 7 is null"
    assert models.version("ctr").number == 1


def refuse(error: BaseException) -> Callable[..., None]:
    """Return what to put in the place of a function of the system, so that it fails."""

    def refused(*given: object, **named: object) -> None:
        raise error

    return refused


@pytest.mark.parametrize("error", [PermissionError(errno.EACCES, "Permission denied"), KeyboardInterrupt()])
def test_a_version_is_ready_though_what_it_replaces_cannot_be_removed(
    models: Models, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    train(models)
    reported = pytest.raises(KeyboardInterrupt) if isinstance(error, KeyboardInterrupt) else contextlib.nullcontext()
    with reported, models.begin("ctr", MANIFEST, replace=True) as draft, monkeypatch.context() as patch:
        draft.staged.mkdir()
        patch.setattr(os, "rmdir", refuse(error))
        fill(draft)
    assert [(v.number, v.manifest.status) for v in models.versions("ctr")] == [(2, "ready")]
    assert [b.to_pylist() for b in models.version("ctr").rows("w")] == [rows().to_pylist()]
    assert train(models, parent=2) == 3
    assert sorted(f.name for f in (models.folder / "ctr").iterdir()) == ["lock", "model.json", "v2", "v3"]
    assert not draft.staged.exists()


def test_leftovers_that_cannot_be_removed_keep_nobody_from_changing_a_model(
    models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(models)
    for leftover in (models.folder / ".trash-1", models.folder / "ctr" / ".draft-2"):
        leftover.mkdir()
    (models.folder / "ctr" / ".model.json-3").touch()
    denied = refuse(PermissionError(errno.EACCES, "Permission denied"))
    monkeypatch.setattr(os, "rmdir", denied)
    monkeypatch.setattr(os, "unlink", denied)
    assert train(models, parent=1) == 2
    models.drop("ctr", 1)
    with pytest.raises(ZeroDivisionError), models.begin("ctr", MANIFEST, replace=True) as draft:
        leave_half_written(draft, ZeroDivisionError())
    assert [(v.number, v.manifest.status) for v in models.versions("ctr")] == [(2, "ready"), (3, "failed")]
    models.drop("ctr")
    assert models.names() == []


def test_checkpoints_that_a_dropped_model_left_elsewhere_are_not_resumed_from(models: Models, tmp_path: Path) -> None:
    manifest = dataclasses.replace(MANIFEST, settings={"checkpoint_path": str(tmp_path / "elsewhere")})
    left = tmp_path / "elsewhere" / "ctr" / "v1" / "000000-000001"
    left.mkdir(parents=True)
    with models.begin("ctr", manifest) as draft:
        draft.record(draft.manifest)
        assert draft.checkpoints.names() == []
        assert left.exists()  # it has no mark of ours


def leave_half_written(draft: Draft, error: BaseException) -> None:
    draft.staged.mkdir()
    with draft.writer(TABLE) as writer:
        writer.write(rows())
        raise error


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (KeyboardInterrupt(), "The training was interrupted."),
        (MemoryError(), "MemoryError"),
        (KeyError("weihgts"), "KeyError: 'weihgts'"),
        (DataError("row 7 is null"), "row 7 is null"),
    ],
)
def test_any_exception_fails_the_version_and_removes_its_data(models: Models, error: BaseException, reported: str) -> None:
    with pytest.raises(type(error)), models.begin("ctr", MANIFEST) as draft:
        leave_half_written(draft, error)
    (failed,) = models.versions("ctr")
    assert failed.manifest.status == "failed"
    assert failed.manifest.error == reported
    assert sorted(f.name for f in failed.folder.iterdir()) == ["lock", "manifest.json"]
    assert not models.exists("ctr")


def test_leaving_a_draft_without_a_commit_fails_the_version(models: Models) -> None:
    with models.begin("ctr", MANIFEST):
        pass
    assert models.find("ctr").manifest.error == "The training ended without a result."


def test_a_model_of_which_nothing_is_served_says_what_to_do(models: Models) -> None:
    with models.begin("ctr", MANIFEST) as draft:
        with pytest.raises(ModelError, match=r"Versions: 1 \(training\)\. Wait until version 1 has ended"):
            models.version("ctr")
        draft.commit(draft.manifest, "held")
    with pytest.raises(ModelError, match=r"Versions: 1 \(held\)\. ALTER MODEL ctr PROMOTE VERSION 1 serves"):
        models.version("ctr")
    models.promote("ctr", 1)
    assert models.version("ctr").number == 1


def test_a_model_whose_versions_all_failed_can_be_trained_again(models: Models) -> None:
    models.begin("ctr", MANIFEST).fail("no")
    with pytest.raises(ModelError, match=r"no version that is ready. Versions: 1 \(failed\)\. Train again"):
        models.version("ctr")
    with pytest.raises(ModelError, match=r"Version 1 of model ctr is failed, not ready: no\. Versions: 1 \(failed\)\."):
        models.version("ctr", 1)
    assert train(models) == 2


def test_a_discarded_version_leaves_nothing_and_its_number_is_free(models: Models) -> None:
    models.begin("ctr", MANIFEST).discard()
    assert list(models.folder.iterdir()) == []
    train(models)
    models.begin("ctr", dataclasses.replace(MANIFEST, parent=1)).discard()
    assert [v.number for v in models.versions("ctr")] == [1]
    assert train(models, parent=1) == 2


@pytest.mark.parametrize(
    ("like", "names"), [("%", ["a_b", "axb", "b"]), ("A%B", ["a_b", "axb"]), ("*b", ["a_b", "axb", "b"]), ("_", ["b"])]
)
def test_names_are_listed_by_pattern(models: Models, like: str, names: list[str]) -> None:
    for name in ("a_b", "axb", "b"):
        train(models, name)
    assert models.names(like) == names


def test_staged_input_goes_with_the_commit(models: Models) -> None:
    with models.begin("ctr", MANIFEST) as draft:
        draft.staged.mkdir()
        (draft.staged / "part-0.parquet").write_bytes(b"x")
        fill(draft)
    assert not draft.staged.exists()


def test_a_second_change_of_a_model_in_training_names_who_holds_it(models: Models) -> None:
    train(models)
    with models.begin("ctr", MANIFEST, replace=True) as draft:
        for change in (lambda: models.begin("ctr", MANIFEST, replace=True), lambda: models.drop("ctr")):
            with pytest.raises(ModelError, match=r"Model ctr is being trained by process \d+ since \d{4}"):
                change()
        assert [v.manifest.status for v in models.versions("ctr")] == ["ready", "training"]
        models.promote("ctr", 1)
        draft.fail("enough")
    models.drop("ctr")


def test_another_model_can_be_trained_meanwhile(models: Models) -> None:
    with models.begin("a", MANIFEST) as draft:
        train(models, "b")
        fill(draft)
    assert models.names() == ["a", "b"]


def test_a_held_version_is_served_only_when_promoted(models: Models) -> None:
    train(models)
    with models.begin("ctr", dataclasses.replace(MANIFEST, parent=1)) as draft:
        draft.commit(draft.manifest, status="held")
    assert models.version("ctr").number == 1
    models.promote("ctr", 2)
    assert models.version("ctr").number == 2
    models.promote("ctr", 1)
    assert models.version("ctr").number == 1


def test_the_newest_version_is_served_again_once_none_is_promoted(models: Models) -> None:
    with pytest.raises(ModelError, match="There is no model ctr"):
        models.promote("ctr", None)
    train(models)
    models.promote("ctr", 1)
    train(models, parent=1)
    assert models.served("ctr") == 1
    models.promote("ctr", None)
    assert models.served("ctr") == 2
    train(models, parent=2)
    assert models.served("ctr") == 3


def test_a_version_that_failed_cannot_be_promoted(models: Models) -> None:
    train(models)
    models.begin("ctr", dataclasses.replace(MANIFEST, parent=1)).fail("no")
    with pytest.raises(ModelError, match="is failed, not ready"):
        models.promote("ctr", 2)


def test_dropping_the_served_version_serves_the_newest_ready_one(models: Models) -> None:
    for parent in (None, 1, 2):
        train(models, parent=parent)
    models.promote("ctr", 2)
    models.drop("ctr", 2)
    assert [(v.number, v.served) for v in models.versions("ctr")] == [(1, False), (3, True)]


def test_old_versions_go_but_the_one_served_and_those_that_a_resume_needs(models: Models) -> None:
    for parent in (None, 1, 2, 3):
        train(models, parent=parent)
    models.begin("ctr", dataclasses.replace(MANIFEST, parent=4)).fail("no")
    models.promote("ctr", 2)
    train(models, parent=4)
    train(models, parent=6)
    assert models.drop_old("ctr", 3) == [1, 3]
    assert models.drop_old("ctr", 1) == [4, 5, 6]
    assert [(v.number, v.served) for v in models.versions("ctr")] == [(2, True), (7, False)]
    version = models.version("ctr", train(models, parent=2))
    write_manifest(version.folder, dataclasses.replace(version.manifest, status="training"))  # as a kill leaves it
    models.promote("ctr", 7)
    assert models.drop_old("ctr", 1) == []
    assert models.drop_old("ctr", 9) == []


def test_numbers_of_versions_are_never_used_twice(models: Models) -> None:
    train(models)
    train(models, parent=1)
    models.drop("ctr", 2)
    assert train(models, parent=1) == 3
    for number in (1, 3):
        models.drop("ctr", number)
    assert models.names() == []
    assert train(models) == 4


def test_a_dropped_model_is_gone_and_its_name_is_free(models: Models) -> None:
    train(models)
    models.drop("CTR")
    assert not models.exists("ctr")
    assert list(models.folder.iterdir()) == []
    assert train(models) == 1


def test_a_reader_of_a_dropped_version_is_reported_so(models: Models) -> None:
    train(models)
    version = models.version("ctr")
    (file,) = version.files("w")
    models.drop("ctr")
    with pytest.raises(ModelError, match="was dropped while it was read"):
        next(version.rows("w"))
    with pytest.raises(ModelError, match="was dropped while it was read"), reading(file):
        file.open()


def test_what_a_task_writes_after_its_training_was_removed_is_no_version(models: Models) -> None:
    late = models.folder / "ctr" / "v1" / "staged" / "_temporary"
    late.mkdir(parents=True)
    assert models.names() == models.numbers("ctr") == models.present("ctr") == []
    with pytest.raises(ModelError, match=r"no model ctr\. Valid: none\."):
        models.versions("ctr")
    assert train(models) == 1
    assert not late.exists()


def test_leftovers_of_killed_processes_go_with_the_next_change(models: Models) -> None:
    train(models)
    folder = models.folder / "ctr"
    for leftover in (models.folder / ".trash-1", folder / ".trash-2", folder / ".draft-3"):
        (leftover / "rows").mkdir(parents=True)
    (folder / ".model.json-4").touch()
    train(models, parent=1)
    assert sorted(f.name for f in folder.iterdir()) == ["lock", "model.json", "v1", "v2"]
    assert [f.name for f in models.folder.iterdir()] == ["ctr"]


def test_a_version_in_training_that_nobody_trains_is_interrupted(models: Models) -> None:
    train(models)
    version = models.version("ctr")
    write_manifest(version.folder, dataclasses.replace(version.manifest, status="training"))
    assert models.find("ctr").manifest.status == "interrupted"
    assert train(models) == 2
    assert not (version.folder / "rows").exists()


def test_a_version_tells_its_progress_where_its_checkpoints_cannot_be_reached(models: Models) -> None:
    train(models)
    version = models.version("ctr")
    settings = {"checkpoint_path": "nowhere://bucket/folder"}
    write_manifest(version.folder, dataclasses.replace(version.manifest, status="training", settings=settings))
    assert models.find("ctr").progress == "0 examples; its checkpoints cannot be reached from here"


def test_a_manifest_of_a_newer_format_says_which_xpsql_is_needed(models: Models) -> None:
    train(models)
    path = models.version("ctr").folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": FORMAT + 1}))
    newer = f"format {FORMAT + 1}"
    with pytest.raises(ModelError, match=rf"{newer}; .* up to format {FORMAT}. Install an xpsql that reads {newer}"):
        models.version("ctr")
    models.drop("ctr")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": null}'])
def test_a_damaged_manifest_is_named(models: Models, text: str) -> None:
    train(models)
    path = models.version("ctr").folder / "manifest.json"
    path.write_text(text)
    train(models, "other")
    (damaged,) = models.versions("ctr")
    assert damaged.manifest.status == "damaged"
    with pytest.raises(ModelError, match=r"manifest\.json is damaged"):
        models.version("ctr")
    with pytest.raises(ModelError, match="Version 1 of model ctr is damaged"):
        models.version("ctr", 1)
    assert models.version("other").number == 1
    models.drop("ctr")
    assert models.names() == ["other"]


def test_a_manifest_of_another_release_is_read_with_defaults_and_unknown_fields_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(
        '{"format": 1, "model": "m", "version": 3, "new": 1, "slots": [{"name": "a", "new": 2}], "algorithm": {"name": "x"}}'
    )
    manifest = read_manifest(tmp_path)
    assert (manifest.version, manifest.slots[0].name, manifest.algorithm.options, manifest.metrics) == (3, "a", {}, {})


def test_a_manifest_reads_back_as_written(tmp_path: Path) -> None:
    write_manifest(tmp_path, MANIFEST)
    assert read_manifest(tmp_path) == MANIFEST


def test_a_warehouse_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ModelError, match=r"Cannot write .*file/models/ctr/lock: Not a directory"):
        Models(tmp_path / "file").begin("ctr", MANIFEST)
    assert Models(tmp_path / "file").names() == []


def test_a_filesystem_without_locks_is_reported(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(ModelError, match="Its filesystem does not lock files or link them: choose"):
        models.begin("ctr", MANIFEST)


def test_a_warehouse_without_models_reads_as_empty_and_stays_untouched(tmp_path: Path) -> None:
    models = Models(tmp_path)
    assert models.names() == []
    assert not models.exists("ctr")
    with pytest.raises(ModelError, match="Valid: none"):
        models.drop("ctr")
    assert list(tmp_path.iterdir()) == []
