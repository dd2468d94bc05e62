"""The datasets of a job: what its sources read and its sinks write, as they say, or as the settings do."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from headgate.api.sink import Sink
from headgate.api.source import Boundedness, Source
from headgate.common.masking import Mask
from headgate.graph.logical import SinkNode, SourceNode
from headgate.graph.physical import PhysicalPlan
from headgate.runtime.driver.lineage.dataset_names import DatasetName, dataset_name

T = TypeVar("T")

DATASETS_MAX: Final = 100
COLUMNS_MAX: Final = 1_000
"""So many datasets of one operator, and columns of one dataset, are told."""

_LOG: Final = logging.getLogger("headgate.lineage")


@dataclass(frozen=True, slots=True)
class JobDataset:
    """A dataset of a job: its name, the uid of its source or sink, and names and types of its columns."""

    dataset: DatasetName
    uid: str
    columns: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class JobDatasets:
    """What a job reads and writes, and whether all of its input ends."""

    inputs: tuple[JobDataset, ...]
    outputs: tuple[JobDataset, ...]
    bounded: bool


def datasets_of(plan: PhysicalPlan, given: Mapping[str, Sequence[str]], mask: Mask) -> JobDatasets:
    """Return the datasets of a plan, with secrets masked in their names; `given` has the URIs by uid that the
    settings say, which win. May read files, for their columns.
    """
    inputs, outputs, bounded = list[JobDataset](), list[JobDataset](), True
    for vertex in plan.vertices:
        for node in vertex.chain:
            if isinstance(node, SourceNode) and isinstance(node.source, Source):
                bounded = bounded and node.source.boundedness is Boundedness.BOUNDED
                inputs += _datasets(node.known_as, node.source, given, mask)
            elif isinstance(node, SinkNode) and isinstance(node.sink, Sink):
                outputs += _datasets(node.known_as, node.sink, given, mask)
    return JobDatasets(tuple(inputs), tuple(outputs), bounded)


def _datasets(
    uid: str, end: Source | Sink, given: Mapping[str, Sequence[str]], mask: Mask
) -> list[JobDataset]:
    uris = given.get(uid) or _asked(uid, lambda: _uris(end), mask) or []
    columns = (_asked(uid, lambda: _columns(end), mask) if uris else None) or ()
    names = dict.fromkeys(_asked(uid, partial(_named, uri, mask), mask) for uri in uris)
    known = [name for name in names if name is not None]
    return [JobDataset(name, uid, columns) for name in known[:DATASETS_MAX]]


def _uris(end: Source | Sink) -> list[str]:
    found = end.datasets()
    return [found] if isinstance(found, str) else list(found)


def _columns(end: Source | Sink) -> tuple[tuple[str, str], ...]:
    schema = end.arrow_schema()
    return () if schema is None else tuple((each.name, str(each.type)) for each in schema)[:COLUMNS_MAX]


def _named(uri: str, mask: Mask) -> DatasetName:
    return DatasetName(*map(mask.text, dataset_name(uri)))


def _asked(uid: str, ask: Callable[[], T], mask: Mask) -> T | None:
    # Sources and sinks may be the program's own.
    try:
        return ask()
    except Exception as error:
        why = mask.text(str(error))
        _LOG.info("what is known of the data of %r cannot be told to OpenLineage: %s", uid, why)
        return None
