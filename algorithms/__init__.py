"""Algorithms, one file each; a new one is a file and a line here."""

from __future__ import annotations

from typing import Any

from ..platform.options import Part
from .base import Algorithm
from .bridges.network import NETWORK_PART
from .items.slrm import SLRM
from .items.word2vec import WORD2VEC
from .items.xsvd import XSVD
from .linear.ffm import FFM
from .linear.fm import FM
from .linear.linear_regression import LINEAR_REGRESSION
from .linear.logistic_regression import LOGISTIC_REGRESSION
from .linear.owlqn import OWLQN
from .linear.svm import SVM
from .linear.xftrl import XFTRL
from .networks.dcn import DCN
from .networks.deepfm import DEEPFM
from .networks.dien import DIEN
from .networks.din import DIN
from .networks.multi_task import MULTI_TASK
from .networks.two_tower import TWO_TOWER
from .networks.wide_deep import WIDE_DEEP
from .networks.xnn import XNN
from .packaged.xgboost import XGBOOST

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
    MULTI_TASK,
    DIN,
    DIEN,
    NETWORK_PART,
    XSVD,
    SLRM,
    TWO_TOWER,
    WORD2VEC,
    XGBOOST,
)
