"""The table functions ML.*, one file each. Every file makes one `TableFunction`; FUNCTIONS lists them all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...registry import Registry

if TYPE_CHECKING:
    from ..base import TableFunction

FUNCTIONS: Registry[TableFunction] = Registry(
    __name__,
    {
        "PREDICT": "predict.PREDICT",
        "EXPLAIN_PREDICT": "explain_predict.EXPLAIN_PREDICT",
        "EVALUATE": "evaluate.EVALUATE",
        "ROC_CURVE": "roc_curve.ROC_CURVE",
        "CONFUSION_MATRIX": "confusion_matrix.CONFUSION_MATRIX",
        "COMPARE": "compare.COMPARE",
        "CROSSES": "crosses.CROSSES",
        "OFF_POLICY": "off_policy.OFF_POLICY",
        "DATA_DRIFT": "data_drift.DATA_DRIFT",
        "AUDIT": "audit.AUDIT",
        "AB_TEST": "ab_test.AB_TEST",
        "TRAINING_INFO": "training_info.TRAINING_INFO",
        "TRIAL_INFO": "trial_info.TRIAL_INFO",
        "TRANSFORM": "transform.TRANSFORM",
        "WEIGHTS": "weights.WEIGHTS",
        "FOLD": "fold.FOLD",
        "MERGE_INFO": "versions.MERGE_INFO",
        "FEATURE_INFO": "feature_info.FEATURE_INFO",
        "FEATURE_IMPORTANCE": "feature_importance.FEATURE_IMPORTANCE",
        "NEAREST": "nearest.NEAREST",
        "RELATED": "related.RELATED",
        "RECOMMEND": "recommend.RECOMMEND",
        "WALKS": "related.WALKS",
        "REPLAY": "replay.REPLAY",
        "FEATURES_AT": "features_at.FEATURES_AT",
        "MODELS": "versions.MODELS",
        "VERSIONS": "versions.VERSIONS",
        "OPTIONS": "versions.OPTIONS",
    },
)
