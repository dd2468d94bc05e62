"""Checks by hash the user code that Spark has sent to this worker, and unpacks it once per executor."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headgate.deploy.spark.user_code.orders import FrameworkPackage, ShippedCode
from headgate.usercode.bundle.artifacts import Artifact, unpacked
from headgate.usercode.bundle.cache import ArtifactCache, Leased
from headgate.usercode.bundle.layouts import searched
from headgate.usercode.loading_errors import UserCodeLoadError
from headgate.usercode.native.distributions import installed_in

LOCAL_FOLDERS: Final = "SPARK_LOCAL_DIRS"
"""Spark's environment variable with the executor's folders, which are removed with the executor."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A job's user code, unpacked on this machine in folders that are leased from the executor's cache."""

    places: tuple[tuple[Artifact, Path], ...]  # each artifact and its folder on the path, in order of search
    leases: tuple[Leased, ...]

    def paths(self, digests: Iterable[str] | None = None, without: Iterable[str] = ()) -> tuple[str, ...]:
        """Return the folders to search for modules, of artifacts in `digests` (None: all), less `without`."""
        wanted = None if digests is None else frozenset(digests)
        unwanted = frozenset(without)
        return tuple(
            entry
            for artifact, folder in self.places
            if artifact.digest not in unwanted and (wanted is None or artifact.digest in wanted)
            for entry in searched(folder)
        )

    def release(self) -> None:
        """End the leases: the cache may remove the folders once no other task uses them."""
        for lease in self.leases:
            lease.release()


def cache_of_executor() -> ArtifactCache:
    """Return the cache that workers of one executor of one user share, below its own temporary folder."""
    first = os.environ.get(LOCAL_FOLDERS, "").partition(",")[0] or tempfile.gettempdir()
    return ArtifactCache(Path(first) / f"headgate-user-code-{os.getuid()}")


def arrived(code: ShippedCode, cache: ArtifactCache) -> Arrived:
    """Lease a job's code, checked by hash and unpacked unless it is in `cache`; the caller releases it."""
    from pyspark import SparkFiles

    files = [Path(SparkFiles.get(name)) for name in code.files]
    leases = unpacked(code.bundle, files, cache)
    places = sorted(
        zip(code.bundle.artifacts, leases, strict=True), key=lambda place: place[0].digest in code.last
    )
    return Arrived(tuple((one, leased.folder / one.inside) for one, leased in places), tuple(leases))


def check_framework(packages: Iterable[FrameworkPackage], path: Iterable[str]) -> None:
    """Raise UserCodeLoadError unless packages on this worker's `path` equal the driver's copies of them."""
    wanted = {one.name: one for one in packages}
    here = installed_in(path, wanted)
    for name, one in wanted.items():
        found = here.get(name)
        if found is None or found.contents != one.contents:
            got = "none" if found is None else f"{found.version} of other contents"
            raise UserCodeLoadError(
                f"the job takes the framework's {name} {one.version}, as the driver has it, and this worker "
                f"has {got}; give executors the driver's packages"
            )
