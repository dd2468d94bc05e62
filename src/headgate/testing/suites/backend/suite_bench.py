"""What all parts of the backend suite share: the hooks, and a bench for each test."""

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
    """Hooks of the backend suite."""

    folder: Path  # of the test alone, on the local disk

    @abstractmethod
    def new_backend(
        self, descriptors: Mapping[str, StateDescriptor], groups: tuple[int, int], max_parallelism: int
    ) -> KeyedBackend:
        """Return an empty backend, which the suite closes.

        `groups` are its first and last key group (inclusive).
        """

    def local_files(self) -> Iterable[Path]:
        """Return files that the backends have left on the local disk when all of them are closed.

        None is right.
        """
        return self.folder.rglob("*")

    @pytest.fixture
    def bench(self, tmp_path: Path) -> Iterator[Bench]:
        """Make backends and take their checkpoints; at the end no file of them may be left."""
        with self.opened(tmp_path) as made:
            yield made

    @contextmanager
    def opened(self, root: Path) -> Iterator[Bench]:
        """Provide the bench of one test in a folder of its own.

        A test that passes must leave no files there.
        """
        self.folder = root / "backends"
        self.folder.mkdir()
        made = Bench(self.new_backend)
        try:
            yield made
        finally:
            made.close()
        left = sorted(map(str, self.local_files()))
        assert left == [], f"closed backends left {len(left)} files and folders, the first is {left[0]}"
