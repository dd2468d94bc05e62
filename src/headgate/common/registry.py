"""Finds executors and connectors by name, and imports them only then, so that `import headgate` stays light.

Other distributions add theirs by the entry point groups ``headgate.executors`` and ``headgate.connectors``.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from enum import StrEnum
from importlib.metadata import entry_points
from typing import Any, Final

from headgate.common.errors import InternalError, UsageError


class Kind(StrEnum):
    """The kinds of implementations that are found by name; `group` is a kind's entry point group."""

    EXECUTOR = "executor"
    CONNECTOR = "connector"

    @property
    def group(self) -> str:
        return f"headgate.{self.value}s"


BUILT_IN: Final[Mapping[Kind, Mapping[str, str]]] = {
    Kind.EXECUTOR: {
        "spark": "headgate.deploy.spark.executor:SparkExecutor",
        "mini-cluster": "headgate.testing.mini_cluster:MiniCluster",
        "process-cluster": "headgate.testing.process_cluster:ProcessCluster",
    },
    Kind.CONNECTOR: {
        "json_source": "headgate.connectors.files:json_source",
        "csv_source": "headgate.connectors.files:csv_source",
        "parquet_source": "headgate.connectors.files:parquet_source",
        "json_sink": "headgate.connectors.files:json_sink",
        "parquet_sink": "headgate.connectors.files:parquet_sink",
        "changelog_sink": "headgate.connectors.files.changelog_files:changelog_sink",
        "database_sink": "headgate.connectors.database:database_sink",
        "collection_source": "headgate.connectors.collection:collection_source",
        "collect_sink": "headgate.connectors.collection:collect_sink",
        "print_sink": "headgate.connectors.print_sink:print_sink",
        "sample_sink": "headgate.connectors.collection:sample_sink",
        "generator_source": "headgate.connectors.generator:generator_source",
        "throttled": "headgate.connectors.generator:throttled",
        "quarantine_source": "headgate.connectors.quarantine.quarantine_source:quarantine_source",
        "discard_sink": "headgate.connectors.discard:discard_sink",
        "dataframe_source": "headgate.connectors.dataframe:dataframe_source",
        "spark_source": "headgate.connectors.dataframe:spark_source",
        "dataframe_sink": "headgate.connectors.dataframe:dataframe_sink",
        "spark_sink": "headgate.connectors.dataframe.to_spark:spark_sink",
    },
}
"""Name -> ``module:attribute`` of what is built in."""

OPTIONAL_PACKAGES: Final[Mapping[str, str]] = {
    "polars": "headgate[columns]",
    "rocksdict": "headgate[rocksdb]",
    "confluent_kafka": "headgate[kafka]",
    "kazoo": "headgate[zookeeper]",
    "pyspark": "headgate",
    "pyarrow": "headgate",
    "pandas": "headgate",
}
"""Importable package -> what to install for it."""


def load(kind: Kind, name: str) -> Any:
    """Import and return the factory (a class or function) of an executor or connector.

    UsageError: an unknown name, one of two distributions, a failed import; InternalError: no such object.

    Example:
        >>> load(Kind.EXECUTOR, "sparc")
        Traceback (most recent call last):
        headgate.common.errors.UsageError: there is no executor 'sparc'; did you mean 'spark'?
    """
    target = BUILT_IN[kind].get(name) or _from_entry_points(kind, name)
    module_name, _, attribute = target.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise _not_importable(kind, name, error) from error
    try:
        return getattr(module, attribute)
    except AttributeError:
        raise InternalError(
            f"{kind.value} {name!r} should be at {target}, but the module has no such name"
        ) from None


def names(kind: Kind) -> list[str]:
    """Return the sorted names of all executors or connectors, built in or of other distributions."""
    return sorted({*BUILT_IN[kind], *(point.name for point in entry_points(group=kind.group))})


def _from_entry_points(kind: Kind, name: str) -> str:
    targets = sorted({point.value for point in entry_points(group=kind.group) if point.name == name})
    if len(targets) > 1:
        raise UsageError(
            f"{kind.value} {name!r} is claimed by {' and '.join(targets)}; "
            "uninstall all but one of their packages"
        )
    if not targets:
        nearest = difflib.get_close_matches(name, names(kind), n=1, cutoff=0.0)
        raise UsageError(f"there is no {kind.value} {name!r}; did you mean {nearest[0]!r}?")
    return targets[0]


def _not_importable(kind: Kind, name: str, error: ImportError) -> Exception:
    package = (error.name or "").partition(".")[0]
    if package in OPTIONAL_PACKAGES:
        return UsageError(
            f"{kind.value} {name!r} needs the package {package}, which is not installed; "
            f"run: pip install '{OPTIONAL_PACKAGES[package]}'"
        )
    return UsageError(
        f"{kind.value} {name!r} cannot be imported: {error}; reinstall the package that brings it"
    )
