"""The table functions ML.*, one file each. Every file makes one `TableFunction`; FUNCTIONS lists them all."""

from __future__ import annotations

from ..base import TableFunction
from .compare import COMPARE
from .confusion_matrix import CONFUSION_MATRIX
from .evaluate import EVALUATE
from .explain_predict import EXPLAIN_PREDICT
from .feature_importance import FEATURE_IMPORTANCE
from .feature_info import FEATURE_INFO
from .models import MODELS
from .nearest import NEAREST
from .options import OPTIONS
from .predict import PREDICT
from .recommend import RECOMMEND
from .related import RELATED
from .replay import REPLAY
from .roc_curve import ROC_CURVE
from .training_info import TRAINING_INFO
from .transform import TRANSFORM
from .trial_info import TRIAL_INFO
from .versions import VERSIONS
from .weights import WEIGHTS

FUNCTIONS: tuple[TableFunction, ...] = (
    *(
        PREDICT,
        EXPLAIN_PREDICT,
        EVALUATE,
        ROC_CURVE,
        CONFUSION_MATRIX,
        COMPARE,
        TRAINING_INFO,
        TRIAL_INFO,
        TRANSFORM,
        WEIGHTS,
        FEATURE_INFO,
        FEATURE_IMPORTANCE,
        NEAREST,
        RELATED,
        RECOMMEND,
        REPLAY,
    ),
    *(MODELS, VERSIONS, OPTIONS),
)
