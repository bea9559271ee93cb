"""What tasks know of the machine that they run on."""

from __future__ import annotations

import socket

import pytest

from xpsql.platform.ps.transport.sockets import Address
from xpsql.platform.training.tasks.job import own_host


def reachable(host: str) -> bool:
    try:
        socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_task_is_reached_by_the_number_that_leads_to_the_driver(host: str) -> None:
    if not reachable(host):
        pytest.skip(f"this machine has no {host}")
    assert own_host(Address(host, 9)) == host
