"""One cluster for the tests of this folder: a master and two workers of two cores, each with its address."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

from proof.standalone import StandaloneCluster

ADDRESSES = ("127.0.0.1", "127.0.0.2")


@pytest.fixture(scope="session")
def cluster_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs, and the folders of executors."""
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="session")
def started(cluster_folder: Path) -> Iterator[StandaloneCluster]:
    """The master."""
    made = StandaloneCluster(cluster_folder)
    yield made
    made.stop()


@pytest.fixture
def cluster(started: StandaloneCluster) -> StandaloneCluster:
    """Two workers, also behind a test that killed one."""
    for address in ADDRESSES[len(started.workers) :]:
        started.start_worker(address, cores=2)
    started.await_workers()
    return started
