"""Algorithms, one file each; a new one is a file and a line here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..platform.registry import Registry

if TYPE_CHECKING:
    from ..platform.options import Part
    from .base import Algorithm

ALGORITHMS: Registry[Part[Any, Algorithm]] = Registry(
    __name__,
    {
        "xftrl": "linear.xftrl.XFTRL",
        "logistic_regression": "linear.logistic_regression.LOGISTIC_REGRESSION",
        "linear_regression": "linear.linear_regression.LINEAR_REGRESSION",
        "svm": "linear.svm.SVM",
        "owlqn": "linear.owlqn.OWLQN",
        "fm": "linear.fm.FM",
        "ffm": "linear.ffm.FFM",
        "xnn": "networks.xnn.XNN",
        "wide_deep": "networks.wide_deep.WIDE_DEEP",
        "deepfm": "networks.deepfm.DEEPFM",
        "dcn": "networks.dcn.DCN",
        "final": "networks.final.FINAL",
        "two_stream": "networks.two_stream.TWO_STREAM",
        "multi_task": "networks.multi_task.MULTI_TASK",
        "din": "networks.din.DIN",
        "dien": "networks.dien.DIEN",
        "network": "bridges.network.NETWORK_PART",
        "xsvd": "items.xsvd.XSVD",
        "slrm": "items.slrm.SLRM",
        "two_tower": "networks.two_tower.TWO_TOWER",
        "sequence": "networks.sequence.SEQUENCE",
        "tdm": "networks.tdm.TDM",
        "word2vec": "items.word2vec.WORD2VEC",
        "line": "items.line.LINE",
        "xgboost": "packaged.xgboost.XGBOOST",
        "pagerank": "graphs.pagerank.PAGERANK",
        "components": "graphs.components.COMPONENTS",
        "kcore": "graphs.cores.KCORE",
        "hindex": "graphs.cores.HINDEX",
        "labels": "graphs.labels.LABELS",
        "swing": "graphs.swing.SWING",
        "common_neighbours": "graphs.common_neighbours.COMMON_NEIGHBOURS",
        "triangles": "graphs.triangles.TRIANGLES_PART",
    },
)
