"""The ZooKeeper client by the library `kazoo`; the only file that imports it, and only when it is used."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final, ParamSpec, Protocol, TypeVar

from headgate.checkpoint.storage.storage_contract import UnsureWriteError
from headgate.common.errors import ConfigError, StorageError
from headgate.common.files.durable import clock
from headgate.ha.zookeeper.znodes import Cause, Change, Create, RejectedError, SetData, ZNode

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
P = ParamSpec("P")

RECONNECT_S_MAX: Final = 1.0  # longest pause between two attempts to connect again
CLOSE_S: Final = 2.0  # how long the end of a session may take where no server answers


class _Answer(Protocol[T_co]):
    """An answer that kazoo has not received yet."""

    def get(self, timeout: float) -> T_co:
        """Wait at most `timeout` seconds for the answer, and return it."""


class KazooNodes:
    """A session with the ZooKeeper at `quorum` (host:port,...), as `ZNodes`; made and closed by the driver.

    It reconnects by itself, and begins a new session when one has expired. The server is asked to keep the
    session for `session_timeout_ms` without a sign of life; `session_ms` is what the server granted. To
    connect at first, and to answer each request, ZooKeeper has `connection_timeout_ms`, then StorageError.
    ConfigError for a `quorum` that cannot be read, or if the package kazoo is missing.
    """

    def __init__(self, quorum: str, session_timeout_ms: int, connection_timeout_ms: int) -> None:
        try:
            import kazoo.exceptions
            from kazoo.client import KazooClient
            from kazoo.retry import KazooRetry
        except ImportError as error:
            raise ConfigError(
                "high-availability.type=zookeeper needs the package kazoo, which is not installed; install "
                "headgate[zookeeper]"
            ) from error
        self._quorum, self._timeout_s = quorum, connection_timeout_ms / 1000
        self._errors = kazoo.exceptions
        try:
            self._client = KazooClient(
                hosts=quorum,
                timeout=session_timeout_ms / 1000,
                connection_retry=KazooRetry(max_tries=-1, delay=0.05, max_delay=RECONNECT_S_MAX),
                logger=logging.getLogger("headgate.zookeeper.client"),
            )
        except ValueError as error:
            raise ConfigError(
                f"high-availability.zookeeper.quorum is {quorum!r}, which cannot be read ({error}); expected "
                "host:port, or several separated by commas"
            ) from error
        self._client.logger.setLevel(logging.ERROR)  # our own errors report what it would log
        self._causes = {
            self._errors.NoNodeError: Cause.NO_NODE,
            self._errors.NodeExistsError: Cause.NODE_EXISTS,
            self._errors.BadVersionError: Cause.BAD_VERSION,
            self._errors.NotEmptyError: Cause.NOT_EMPTY,
        }
        self.session_ms, self._closed = session_timeout_ms, False
        self._note_agreed_timeout()
        self._start()

    @property
    def session(self) -> tuple[int, bytes] | None:
        """Id and password of the client's session with ZooKeeper; None while not connected."""
        client_id: tuple[int, bytes] | None = self._client.client_id
        return client_id

    def read(self, path: str) -> ZNode | None:
        try:
            data, stat = self._asked(lambda: self._client.get_async(path), f"read {path}")
        except self._errors.NoNodeError:
            return None
        return ZNode(data, stat.version)

    def children(self, path: str) -> list[str]:
        try:
            return sorted(self._asked(lambda: self._client.get_children_async(path), f"list {path}"))
        except self._errors.NoNodeError:
            return []

    def change(self, changes: Sequence[Change]) -> list[str]:
        request = self._client.transaction()
        for change in changes:
            if isinstance(change, Create):
                request.create(
                    change.path, change.data, ephemeral=change.ephemeral, sequence=change.sequential
                )
            elif isinstance(change, SetData):
                request.set_data(change.path, change.data, -1 if change.version is None else change.version)
            else:
                request.delete(change.path)
        what = f"change {changes[0].path}"
        try:
            results = request.commit_async().get(timeout=self._timeout_s)
        except Exception as error:
            # A request that waits for a connection may still be sent after we have stopped to wait for it.
            raise UnsureWriteError(f"{self._failed(what, error)}; whether it happened is unknown") from error
        self._refuse_rejected(changes, results)
        return [
            result if isinstance(change, Create) else change.path for change, result in zip(changes, results)
        ]

    def ensure(self, path: str) -> None:
        self._asked(lambda: self._client.ensure_path_async(path), f"make {path}")

    def on_disconnect(self, listener: Callable[[], None]) -> None:
        def changed(state: str) -> None:
            if state != "CONNECTED":
                listener()

        self._client.add_listener(changed)

    def describe(self, path: str = "") -> str:
        return f"zookeeper://{self._quorum}{path}"

    def close(self) -> None:
        self._closed = True

        def end() -> None:
            self._client.stop()
            self._client.close()

        # Where the network hangs, the client's own end waits for it.
        ending = threading.Thread(target=end, name="headgate-zookeeper-end", daemon=True)
        ending.start()
        ending.join(CLOSE_S)

    def _start(self) -> None:
        try:
            self._client.start(timeout=self._timeout_s)
        except self._client.handler.timeout_exception as error:
            raise StorageError(
                f"no ZooKeeper answered at {self._quorum} within {self._timeout_s:g} s; start it, or correct "
                "high-availability.zookeeper.quorum"
            ) from error

    def _note_agreed_timeout(self) -> None:
        # kazoo does not show the timeout that the server grants at each handshake.
        def listened_to(invoke: Callable[P, T]) -> Callable[P, T]:
            def invoked(*args: P.args, **named: P.kwargs) -> T:
                answer = invoke(*args, **named)
                agreed_ms = getattr(answer[0], "time_out", 0) if isinstance(answer, tuple) else 0
                if agreed_ms > 0:
                    self.session_ms = agreed_ms
                return answer

            return invoked

        connection = self._client._connection
        connection._invoke = listened_to(connection._invoke)

    def _asked(self, ask: Callable[[], _Answer[T]], what: str) -> T:
        deadline = clock.monotonic() + self._timeout_s
        while True:
            try:
                # While the client connects, the question waits in its queue.
                return ask().get(timeout=max(0.0, deadline - clock.monotonic()))
            except self._errors.NoNodeError:
                raise
            except (self._errors.ConnectionLoss, self._errors.SessionExpiredError) as error:
                if clock.monotonic() >= deadline or self._closed:
                    raise self._failed(what, error) from error
                clock.sleep(0.01)
            except Exception as error:
                raise self._failed(what, error) from error

    def _refuse_rejected(self, changes: Sequence[Change], results: Sequence[str | bool | Exception]) -> None:
        # Of a refused transaction the changes before the culprit are "rolled back", those after it are a
        # "runtime inconsistency".
        consequences = (self._errors.RolledBackError, self._errors.RuntimeInconsistency)
        wrong = [(i, result) for i, result in enumerate(results) if isinstance(result, Exception)]
        if not wrong:
            return
        index, error = next((pair for pair in wrong if not isinstance(pair[1], consequences)), wrong[0])
        cause = self._causes.get(type(error))
        where = self.describe(changes[index].path)
        if cause is None:
            raise StorageError(f"ZooKeeper refused to change {where}: {_words(error)}; nothing was changed")
        raise RejectedError(f"ZooKeeper refused to change {where}: {cause.value}", index, cause)

    def _failed(self, what: str, error: Exception) -> StorageError:
        return StorageError(
            f"cannot {what} on ZooKeeper {self._quorum}: {_words(error)}; check its servers and the network"
        )


def _words(error: Exception) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
