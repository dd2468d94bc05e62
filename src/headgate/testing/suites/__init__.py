"""Conformance test suites to inherit from: a subclass gives a few hooks, and pytest tests the contract.

* :class:`SerializerSuite`: a serializer of your own;
* :class:`SerializerUpgradeSuite`: what an older version of it has stored;
* :class:`SinkSuite`: a two-phase sink of your own;
* :class:`StateBackendSuite`: a backend of keyed state, whose contract is internal to Headgate;
* :class:`DiskSuite`: a storage of checkpoints, whose contract is internal too.

`headgate.testing` does not import this package, so that pytest is needed only by who uses it.
"""

from __future__ import annotations

try:
    import pytest
except ModuleNotFoundError:
    from headgate.common.errors import UsageError

    raise UsageError(
        "headgate.testing.suites is made of pytest classes, and the package pytest is missing; install it"
    ) from None

# Before they are imported: pytest then shows the values of their assertions as it does for test files.
pytest.register_assert_rewrite(
    *(
        f"{__name__}.{name}"
        for name in ("backend", "disk", "serializer", "serializer_upgrade", "sink", "value_checks")
    )
)

from headgate.testing.suites.backend.suite import StateBackendSuite  # noqa: E402
from headgate.testing.suites.disk import DiskSuite  # noqa: E402
from headgate.testing.suites.serializer import SerializerSuite  # noqa: E402
from headgate.testing.suites.serializer_upgrade import SerializerUpgradeSuite  # noqa: E402
from headgate.testing.suites.sink import SinkSuite  # noqa: E402
from headgate.testing.suites.stored_values import StoredValues, Verdict  # noqa: E402

__all__ = [
    "DiskSuite",
    "SerializerSuite",
    "SerializerUpgradeSuite",
    "SinkSuite",
    "StateBackendSuite",
    "StoredValues",
    "Verdict",
]
