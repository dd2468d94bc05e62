"""The interface to ZooKeeper: the few requests that stores and elections make to its tree of nodes.

After an UnsureWriteError a change may have happened, or may happen even later; after any other error, such as
`RejectedError`, nothing has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from headgate.common.errors import StorageError


@dataclass(frozen=True, slots=True)
class Create:
    """A change that creates a node; `ephemeral`: for this session; `sequential`: its name gets a number."""

    path: str  # the server adds ten digits to it where `sequential`
    data: bytes = b""
    ephemeral: bool = False  # the server removes it when the session of this client ends
    sequential: bool = False  # its name ends in a number above that of every sibling before it


@dataclass(frozen=True, slots=True)
class SetData:
    """A change that replaces a node's data if it has `version` (None: any); its version grows by one."""

    path: str
    data: bytes
    version: int | None = None  # that it must have; None for any


@dataclass(frozen=True, slots=True)
class Delete:
    """A change that removes a node, which must have no children."""

    path: str


Change = Create | SetData | Delete


@dataclass(frozen=True, slots=True)
class ZNode:
    """A node as it was read: its data, and how often the data was set (`version`)."""

    data: bytes
    version: int


class Cause(Enum):
    """Why the ZooKeeper server refused a change."""

    NO_NODE = "there is no such node"
    NODE_EXISTS = "the node exists"
    BAD_VERSION = "the node has another version"
    NOT_EMPTY = "the node has children"


class RejectedError(StorageError):
    """Raised when the server refused a transaction, at its change `index`, for `cause`; nothing changed."""

    def __init__(self, message: str, index: int, cause: Cause) -> None:
        super().__init__(message, index, cause)
        self.index, self.cause = index, cause

    def __str__(self) -> str:
        return str(self.args[0])


class ZNodes(Protocol):
    """A client of a ZooKeeper; each call blocks at most for its time limit, then raises StorageError."""

    def read(self, path: str) -> ZNode | None:
        """Return a node's data and version; None when there is no such node. They may be older than what
        other clients see, but never older than what this client has changed.
        """

    def children(self, path: str) -> list[str]:
        """Return the sorted names of a node's children; empty when there is no such node."""

    def change(self, changes: Sequence[Change]) -> list[str]:
        """Carry out all changes as one transaction; return their paths, with the number of a sequential node.
        RejectedError: nothing was changed; UnsureWriteError: all may have happened, or may happen later.
        """

    def ensure(self, path: str) -> None:
        """Create a node and its parents where they are missing."""

    @property
    def session_ms(self) -> int:
        """How long (ms) the server keeps this client's session without hearing from it."""

    def on_disconnect(self, listener: Callable[[], None]) -> None:
        """Have `listener` called, from any thread, whenever the connection breaks; it must not block."""

    def describe(self, path: str = "") -> str:
        """Return the URI of a node, or of the ZooKeeper itself, for messages."""

    def close(self) -> None:
        """End the session; the server removes its ephemeral nodes."""
