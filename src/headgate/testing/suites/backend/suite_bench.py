"""Base of all parts of the backend suite: the hooks, and a `Bench` for each test."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headgate.testing.suites.backend.bench import Bench

if TYPE_CHECKING:  # the contract of backends is internal, and no part of what the test kit offers
    from headgate.api.declared.keyed_states import StateDescriptor
    from headgate.state.backend import KeyedBackend


class BackendTests(ABC):
    """The hooks of the state backend suite, which a subclass implements for its backend."""

    folder: Path  # of the test alone, on the local disk

    @abstractmethod
    def new_backend(
        self, descriptors: Mapping[str, StateDescriptor], groups: tuple[int, int], max_parallelism: int
    ) -> KeyedBackend:
        """Return an empty backend for key groups `groups` (first and last); the suite closes it."""

    def local_files(self) -> Iterable[Path]:
        """Return the files that closed backends have left on the local disk; a good backend leaves none."""
        return self.folder.rglob("*")

    @pytest.fixture
    def bench(self, tmp_path: Path) -> Iterator[Bench]:
        """Provide the test with a `Bench`, and check at its end that closed backends left no local file."""
        with self.opened(tmp_path) as made:
            yield made

    @contextmanager
    def opened(self, root: Path) -> Iterator[Bench]:
        """Provide a `Bench` in a new folder below `root`; fail if closed backends leave files there."""
        self.folder = root / "backends"
        self.folder.mkdir()
        made = Bench(self.new_backend)
        try:
            yield made
        finally:
            made.close()
        left = sorted(map(str, self.local_files()))
        assert left == [], f"closed backends left {len(left)} files and folders, the first is {left[0]}"
