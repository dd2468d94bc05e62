"""Dependency layers: packages that stay in a process when their jobs are gone, because they cannot go.

Compiled modules are neither unloaded nor loaded twice. So the installed packages of a job that has some lie
in a realm of their own below the job's, under a key of their content, and the next job with the same ones
finds them loaded.
"""

from __future__ import annotations

from headgate.deploy.spark.user_code.arriving import Arrived
from headgate.deploy.spark.user_code.orders import ShippedCode
from headgate.usercode.errors import NativeModuleConflictError
from headgate.usercode.realm.loader import Realm


class Layers:
    """Those of this process."""

    def __init__(self) -> None:
        self._realms: dict[str, tuple[Realm, Arrived]] = {}

    @property
    def keys(self) -> tuple[str, ...]:
        """Of all that are there."""
        return tuple(self._realms)

    def has(self, key: str) -> bool:
        """Whether a layer is there."""
        return key in self._realms

    def of(self, code: ShippedCode, arrived: Arrived) -> Realm | None:
        """The layer below a job's realm, made when it is the first; None when the job needs none.

        Args:
            code: of the job.
            arrived: its artifacts, which a new layer keeps.

        Raises:
            NativeModuleConflictError: this process has as many as it may.
        """
        if not code.layer:
            return None
        if code.layer in self._realms:
            return self._realms[code.layer][0]
        if len(self._realms) >= code.limits.layers:
            raise NativeModuleConflictError(
                f"job {code.job!r} needs a layer of compiled packages, and this process holds "
                f"{len(self._realms)} of other jobs, as many as classloader.max-layers-per-process allows; "
                "run it in a process of its own (classloader.native-modules=process)"
            )
        realm = Realm(f"layer {code.layer[:8]}", arrived.paths(code.layered), code.settings)
        self._realms[code.layer] = (realm, arrived)
        return realm
