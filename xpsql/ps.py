"""A parameter server for programs of your own: typed tables that they pull from, push to, and commit as versions of models.

import xpsql.ps
with xpsql.ps.local("warehouse", "dlrm", tables={"item": xpsql.ps.Table(dim=16, operators="adagrad")}) as ps:
    rows = ps["item"].pull([1, 2, 3])
    ps["item"].push([1, 2, 3], gradients)
    ps.commit("dlrm")
"""

from __future__ import annotations

from .platform.parameters.client import ParameterServer as ParameterServer
from .platform.parameters.declared import DeclaredTable as Table
from .platform.parameters.hosted import on_spark as on_spark
from .platform.parameters.local import local as local
from .platform.parameters.remote_server import connect as connect
from .platform.parameters.server_table import ServerTable as ServerTable

__all__ = ["ParameterServer", "ServerTable", "Table", "connect", "local", "on_spark"]
