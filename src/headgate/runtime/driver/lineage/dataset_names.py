"""Names of datasets by OpenLineage's specification, made of URIs."""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

_SCHEMES: Final = {"s3a": "s3", "s3n": "s3", "postgresql": "postgres", "gcs": "gs"}
"""Other names of schemes, and those that the specification has."""


class DatasetName(NamedTuple):
    """The namespace of a dataset, and its name there."""

    namespace: str
    name: str


def dataset_name(uri: str) -> DatasetName:
    """Return the namespace and name of the dataset at `uri`; a login in it is left out. What has no scheme is
    a path of this machine.

    Example:
        >>> dataset_name("/data/in")
        DatasetName(namespace='file', name='/data/in')
        >>> dataset_name("kafka://broker:9092/orders")
        DatasetName(namespace='kafka://broker:9092', name='orders')
        >>> dataset_name("s3a://bucket/a/b")
        DatasetName(namespace='s3://bucket', name='a/b')
        >>> dataset_name("jdbc:postgresql://ada:pw@db:5432/shop.public.orders")
        DatasetName(namespace='postgres://db:5432', name='shop.public.orders')
    """
    parts = urlsplit(uri.removeprefix("jdbc:"))
    if "://" not in uri and parts.scheme != "file":
        return DatasetName("file", uri)
    path, place = unquote(parts.path), parts.netloc.rpartition("@")[2]
    scheme = _SCHEMES.get(parts.scheme, parts.scheme)
    if scheme == "file" and place in ("", "localhost"):
        return DatasetName("file", path or "/")
    return DatasetName(f"{scheme}://{place}", path.strip("/") or "/")
