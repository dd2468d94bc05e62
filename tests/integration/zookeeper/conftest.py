"""One ZooKeeper for all tests of this folder; each test has a root, and clients, of its own."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "unit" / "checkpoint"))  # the suite of all stores

from cut_proxy import CutProxy
from zookeeper_server import ZooKeeperServer

from headgate.ha.zookeeper.kazoo_nodes import KazooNodes

SESSION_MS = 3_000
ROOTS = itertools.count(1)

Connect = Callable[..., KazooNodes]


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """A server that runs; a test that kills it starts it again."""
    server = ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def root() -> str:
    """A node that no other test uses."""
    return f"/test/{next(ROOTS)}"


@pytest.fixture
def connect(zookeeper: ZooKeeperServer) -> Iterator[Connect]:
    """Opens sessions that end with the test."""
    with ExitStack() as opened:

        def open_session(address: str = zookeeper.address, session_ms: int = SESSION_MS) -> KazooNodes:
            nodes = KazooNodes(address, session_ms, connection_timeout_ms=3_000)
            opened.callback(nodes.close)
            return nodes

        yield open_session


@pytest.fixture
def proxy(zookeeper: ZooKeeperServer) -> Iterator[Callable[[], CutProxy]]:
    """Opens ways to the server that can be cut."""
    with ExitStack() as opened:

        def open_proxy() -> CutProxy:
            made = CutProxy(zookeeper.port)
            opened.callback(made.close)
            return made

        yield open_proxy
