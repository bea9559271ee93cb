"""Our statements, one file each. Every file makes one or more `Statement`; STATEMENTS lists them all by their leading words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...registry import Registry

if TYPE_CHECKING:
    from ..base import Statement

STATEMENTS: Registry[Statement] = Registry(
    __name__,
    {
        "TRAIN": "train.TRAIN",
        "CONTINUE": "continue_model.CONTINUE",
        "RESUME MODEL": "resume.RESUME",
        "STOP MODEL": "stop_model.STOP_MODEL",
        "EXPLAIN TRAIN": "train.EXPLAIN_TRAIN",
        "EXPLAIN CONTINUE": "continue_model.EXPLAIN_CONTINUE",
        "EXPLAIN FAST TRAIN": "train.EXPLAIN_FAST_TRAIN",
        "EXPLAIN FAST CONTINUE": "continue_model.EXPLAIN_FAST_CONTINUE",
        "SHOW ALGORITHMS": "listing.SHOW_ALGORITHMS",
        "SHOW OPERATORS": "listing.SHOW_OPERATORS",
        "DESCRIBE ALGORITHM": "listing.DESCRIBE_ALGORITHM",
        "DESCRIBE OPERATOR": "listing.DESCRIBE_OPERATOR",
        "SHOW FOLDS": "listing.SHOW_FOLDS",
        "SHOW UPDATES": "listing.SHOW_UPDATES",
        "DESCRIBE FOLD": "listing.DESCRIBE_FOLD",
        "DESCRIBE UPDATE": "listing.DESCRIBE_UPDATE",
        "DESCRIBE TRAIN MODEL": "listing.DESCRIBE_TRAIN",
        "SHOW MODELS": "show_models.SHOW_MODELS",
        "SHOW VERSIONS OF MODEL": "show_versions.SHOW_VERSIONS",
        "DESCRIBE MODEL": "describe_model.DESCRIBE_MODEL",
        "SHOW TRAIN MODEL": "show_train_model.SHOW_TRAIN_MODEL",
        "CHECK MODEL": "check_model.CHECK_MODEL",
        "SHOW PROVENANCE OF MODEL": "provenance.SHOW_PROVENANCE",
        "REPRODUCE MODEL": "provenance.REPRODUCE",
        "ALTER MODEL": "alter_model.ALTER_MODEL",
        "DROP MODEL": "drop_model.DROP_MODEL",
        "SHRINK MODEL": "shrink_model.SHRINK_MODEL",
        "EXPORT MODEL": "export_model.EXPORT_MODEL",
        "IMPORT MODEL": "merge_model.IMPORT_MODEL",
        "MERGE MODEL": "merge_model.MERGE_MODEL",
        "CREATE HISTORY": "history.CREATE_HISTORY",
        "REFRESH HISTORY": "history.REFRESH_HISTORY",
        "STOP HISTORY": "stop_history.STOP_HISTORY",
        "DELETE FROM HISTORY": "delete_history.DELETE_FROM_HISTORY",
        "SHOW HISTORIES": "history.SHOW_HISTORIES",
        "DESCRIBE HISTORY": "history.DESCRIBE_HISTORY",
        "DROP HISTORY": "history.DROP_HISTORY",
        "CREATE FEATURES": "features.CREATE_FEATURES",
        "CREATE OR REPLACE FEATURES": "features.REPLACE_FEATURES",
        "REFRESH FEATURES": "features.REFRESH_FEATURES",
        "SHOW FEATURES": "features.SHOW_FEATURES",
        "DESCRIBE FEATURES": "features.DESCRIBE_FEATURES",
        "DROP FEATURES": "features.DROP_FEATURES",
    },
)
