"""A ZooKeeper in memory: a tree of nodes, sessions, and clients whose changes can be made to fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headgate.checkpoint.storage.storage_contract import UnsureWriteError
from headgate.common.errors import StorageError
from headgate.ha.zookeeper.znodes import Cause, Change, Create, RejectedError, SetData, ZNode

Fail = Callable[[str, str], str | None]


def no_pause(what: str) -> None:
    """Nobody else has a turn."""


def no_failure(operation: str, path: str) -> str | None:
    """Everything goes well."""
    return None


class ZNodeTree:
    """The server: nodes by path as (data, version, session of an ephemeral one)."""

    def __init__(self) -> None:
        self.nodes: dict[str, tuple[bytes, int, int | None]] = {"/": (b"", 0, None)}
        self.sessions = self.sequence = 0
        self.late: list[Callable[[], None]] = []

    def apply(self, changes: Sequence[Change], session: int) -> list[str]:
        """Carry out a transaction, or none of it."""
        nodes = dict(self.nodes)
        paths = [self._apply(nodes, index, change, session) for index, change in enumerate(changes)]
        self.nodes = nodes
        return paths

    def _apply(
        self, nodes: dict[str, tuple[bytes, int, int | None]], index: int, change: Change, session: int
    ) -> str:
        def refuse(cause: Cause) -> RejectedError:
            return RejectedError(f"{change.path}: {cause.value}", index, cause)

        if isinstance(change, Create):
            path = change.path
            if change.sequential:
                path = f"{path}{self.sequence:010d}"
                self.sequence += 1
            if path in nodes:
                raise refuse(Cause.NODE_EXISTS)
            if parent(path) not in nodes:
                raise refuse(Cause.NO_NODE)
            nodes[path] = (change.data, 0, session if change.ephemeral else None)
            return path
        if change.path not in nodes:
            raise refuse(Cause.NO_NODE)
        _, version, owner = nodes[change.path]
        if isinstance(change, SetData):
            if change.version not in (None, version):
                raise refuse(Cause.BAD_VERSION)
            nodes[change.path] = (change.data, version + 1, owner)
        else:
            if any(parent(other) == change.path for other in nodes if other != "/"):
                raise refuse(Cause.NOT_EMPTY)
            del nodes[change.path]
        return change.path

    def expire(self, session: int) -> None:
        """The session's time is over: its ephemeral nodes go."""
        self.nodes = {path: node for path, node in self.nodes.items() if node[2] != session}

    def deliver_late(self) -> None:
        """What was under way for long arrives at last."""
        late, self.late = self.late, []
        for change in late:
            change()


class TreeNodes:
    """A client of the tree; implements the `ZNodes` port.

    `fail` maps (operation, path) to None, "before" (nothing happened), "after" (it happened, but the answer
    was lost), "lost" (it never arrived, and nobody knows) or "late" (it arrives after the next change).
    """

    def __init__(
        self, tree: ZNodeTree, fail: Fail = no_failure, pause: Callable[[str], None] = no_pause
    ) -> None:
        self.tree, self.fail, self.pause = tree, fail, pause
        self.session_ms = 10_000
        self.renew_session()

    def renew_session(self) -> None:
        """Begin a session."""
        self.tree.sessions += 1
        self.session = self.tree.sessions

    def read(self, path: str) -> ZNode | None:
        self.pause(f"read {path}")
        if self.fail("read", path):
            raise StorageError(f"cannot read {path}: ConnectionLoss")
        node = self.tree.nodes.get(path)
        return None if node is None else ZNode(node[0], node[1])

    def children(self, path: str) -> list[str]:
        self.pause(f"list {path}")
        if self.fail("list", path):
            raise StorageError(f"cannot list {path}: ConnectionLoss")
        return sorted(name.rpartition("/")[2] for name in self.tree.nodes if parent(name) == path != name)

    def change(self, changes: Sequence[Change]) -> list[str]:
        path = changes[-1].path
        self.pause(f"change {path}")
        how, tree, session = self.fail("change", path), self.tree, self.session
        if how == "before":
            raise StorageError(f"cannot change {path}: ConnectionLoss")
        if how == "lost":
            raise UnsureWriteError(f"{path}: no answer")
        if how == "late":
            tree.late.append(lambda: _ignoring_refusal(tree, changes, session))
            raise UnsureWriteError(f"{path}: no answer yet")
        paths = tree.apply(changes, session)
        tree.deliver_late()
        if how == "after":
            raise UnsureWriteError(f"{path}: the answer was lost")
        return paths

    def ensure(self, path: str) -> None:
        self.pause(f"ensure {path}")
        pieces = path.strip("/").split("/")
        for length in range(1, len(pieces) + 1):
            self.tree.nodes.setdefault("/" + "/".join(pieces[:length]), (b"", 0, None))

    def on_disconnect(self, listener: Callable[[], None]) -> None:
        """This connection breaks only where `fail` says so."""

    def describe(self, path: str = "") -> str:
        return f"tree:/{path}"

    def close(self) -> None:
        self.tree.expire(self.session)


def parent(path: str) -> str:
    """The path above."""
    return path.rpartition("/")[0] or "/"


def _ignoring_refusal(tree: ZNodeTree, changes: Sequence[Change], session: int) -> None:
    try:
        tree.apply(changes, session)
    except RejectedError:
        return  # there is nobody left who could be told
