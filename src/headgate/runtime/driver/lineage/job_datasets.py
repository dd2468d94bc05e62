"""The datasets of a job: what its sources read and its sinks write, as they say, or as the settings do."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from headgate.api.sink import Sink
from headgate.api.source import Boundedness, Source
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


def datasets_of(plan: PhysicalPlan, given: Mapping[str, Sequence[str]]) -> JobDatasets:
    """Return the datasets of a plan; `given` has the URIs by uid that the settings say, which win.
    May read files, for their columns.
    """
    inputs, outputs, bounded = list[JobDataset](), list[JobDataset](), True
    for vertex in plan.vertices:
        for node in vertex.chain:
            if isinstance(node, SourceNode) and isinstance(node.source, Source):
                bounded = bounded and node.source.boundedness is Boundedness.BOUNDED
                inputs += _datasets(node.known_as, node.source, given)
            elif isinstance(node, SinkNode) and isinstance(node.sink, Sink):
                outputs += _datasets(node.known_as, node.sink, given)
    return JobDatasets(tuple(inputs), tuple(outputs), bounded)


def _datasets(uid: str, end: Source | Sink, given: Mapping[str, Sequence[str]]) -> list[JobDataset]:
    uris = given.get(uid) or _asked(uid, end.datasets) or ()
    schema = _asked(uid, end.arrow_schema) if uris else None
    columns = () if schema is None else tuple((each.name, str(each.type)) for each in schema)[:COLUMNS_MAX]
    names = dict.fromkeys(dataset_name(uri) for uri in uris)
    return [JobDataset(name, uid, columns) for name in list(names)[:DATASETS_MAX]]


def _asked(uid: str, ask: Callable[[], T]) -> T | None:
    # Sources and sinks may be the program's own.
    try:
        return ask()
    except Exception as error:
        _LOG.info("what is known of the data of %r cannot be told to OpenLineage: %s", uid, error)
        return None
