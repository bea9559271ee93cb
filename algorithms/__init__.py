"""Algorithms, one file each; a new one is a file and a line here."""

from __future__ import annotations

from typing import Any

from ..platform.options import Part
from .base import Algorithm
from .dcn import DCN
from .deepfm import DEEPFM
from .ffm import FFM
from .fm import FM
from .linear_regression import LINEAR_REGRESSION
from .logistic_regression import LOGISTIC_REGRESSION
from .owlqn import OWLQN
from .slrm import SLRM
from .svm import SVM
from .wide_deep import WIDE_DEEP
from .word2vec import WORD2VEC
from .xftrl import XFTRL
from .xgboost import XGBOOST
from .xnn import XNN
from .xsvd import XSVD

ALGORITHMS: tuple[Part[Any, Algorithm], ...] = (
    XFTRL,
    LOGISTIC_REGRESSION,
    LINEAR_REGRESSION,
    SVM,
    OWLQN,
    FM,
    FFM,
    XNN,
    WIDE_DEEP,
    DEEPFM,
    DCN,
    XSVD,
    SLRM,
    WORD2VEC,
    XGBOOST,
)
