"""The conformance suite of keyed state backends, as tests that a class inherits."""

from __future__ import annotations

from headgate.testing.suites.backend.handles import HandleTests
from headgate.testing.suites.backend.lifetimes import LifetimeTests
from headgate.testing.suites.backend.model import ModelTests
from headgate.testing.suites.backend.restores import RestoreTests
from headgate.testing.suites.backend.schemas import SchemaTests
from headgate.testing.suites.backend.snapshots import SnapshotTests


class StateBackendSuite(HandleTests, SnapshotTests, RestoreTests, SchemaTests, LifetimeTests, ModelTests):
    """Tests of a keyed state backend; inherit from it under a name that pytest collects.

    One hook is needed, `new_backend`. A backend with local files must keep them below `self.folder`, or
    override `local_files`. The contract is `headgate.state.backend.KeyedBackend`, which is internal: it may
    change with every version, and this suite with it.

    Example:
        >>> from headgate.state.heap.backend import HeapKeyedBackend
        >>> class TestHeap(StateBackendSuite):
        ...     def new_backend(self, descriptors, groups, max_parallelism):
        ...         return HeapKeyedBackend(descriptors, *groups, max_parallelism)
        >>> len([name for name in dir(TestHeap) if name.startswith("test_")]) > 40
        True
    """
