"""Dependency layers: packages that stay in a process after their jobs, because they cannot be unloaded.

Compiled modules are neither unloaded nor loaded twice. So the installed packages of a job that has some lie
in a namespace of their own below the job's, under a key of their content, and the next job with the same ones
finds them loaded.
"""

from __future__ import annotations

from headgate.deploy.spark.user_code.arriving import Arrived
from headgate.deploy.spark.user_code.orders import ShippedCode
from headgate.usercode.errors import NativeModuleConflictError
from headgate.usercode.namespaces.loader import Namespace


class Layers:
    """Those of this process."""

    def __init__(self) -> None:
        self._namespaces: dict[str, tuple[Namespace, Arrived]] = {}

    @property
    def keys(self) -> tuple[str, ...]:
        """Of all that are there."""
        return tuple(self._namespaces)

    def has(self, key: str) -> bool:
        """Whether a layer is there."""
        return key in self._namespaces

    def of(self, code: ShippedCode, arrived: Arrived) -> Namespace | None:
        """The layer below a job's namespace, made when it is the first; None when the job needs none."""
        if not code.layer:
            return None
        if code.layer in self._namespaces:
            return self._namespaces[code.layer][0]
        if len(self._namespaces) >= code.limits.layers:
            raise NativeModuleConflictError(
                f"job {code.job!r} needs a layer of compiled packages, and this process holds "
                f"{len(self._namespaces)} of other jobs, as many as classloader.max-layers-per-process "
                "allows; run it in a process of its own (classloader.native-modules=process)"
            )
        namespace = Namespace(f"layer {code.layer[:8]}", arrived.paths(code.layered), code.settings)
        self._namespaces[code.layer] = (namespace, arrived)
        return namespace
