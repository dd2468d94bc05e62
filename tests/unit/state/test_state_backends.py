"""Which backend a name in the configuration stands for."""

from __future__ import annotations

import pytest

from headgate.common.errors import ConfigError
from headgate.common.settings.options import StateBackendType
from headgate.state.backends import HASHMAP, ROCKSDB, HeapBackends, RocksBackends, backends_for


def test_every_name_of_the_configuration_has_its_backends() -> None:
    """Objects or RocksDB, and no third."""
    assert {kind.value for kind in StateBackendType} == {HASHMAP, ROCKSDB}
    assert type(backends_for(HASHMAP, 1, None)) is HeapBackends
    assert type(backends_for(ROCKSDB, 1, None)) is RocksBackends


@pytest.mark.parametrize("kind", ["RocksDB", "rocks", ""])
def test_an_unknown_name_is_refused(kind: str) -> None:
    """State that was to be on disk does not fill the memory in silence."""
    with pytest.raises(ConfigError, match=r"state\.backend\.type is .*expected hashmap or rocksdb"):
        backends_for(kind, 1, None)
