"""Names of datasets by OpenLineage's specification, made of URIs."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

_SCHEMES: Final = {
    "s3a": "s3",
    "s3n": "s3",
    "postgresql": "postgres",
    "gcs": "gs",
    "sqlserver": "mssql",
}
"""Other names of schemes, and those that the specification has."""

_PROPERTIES: Final = re.compile(r"[?;]\s*[\w. -]+=.*", re.DOTALL)
"""What follows the place of a database in URLs of JDBC, with a user and password perhaps."""
_OF_DB2: Final = re.compile(r"(//[^/@]*/[^/:@]*):\w+=.*", re.DOTALL)  # jdbc:db2://db/shop:user=ada;
_ORACLE_SID: Final = re.compile(r"(.+:\d+):([^:\]]+)")  # of jdbc:oracle:thin:@db:1521:SID
_DATABASE: Final = re.compile(r"[?;]\s*database(?:name)?\s*=\s*([^;&?]+)", re.IGNORECASE)


class DatasetName(NamedTuple):
    """The namespace of a dataset, and its name there."""

    namespace: str
    name: str


def dataset_name(uri: str) -> DatasetName:
    """Return the namespace and name of the dataset at `uri`; a login in it is left out. What has no scheme is
    a path of this machine. ValueError: it is no URI.

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
    if uri.lower().startswith("jdbc:"):
        return _of_jdbc(uri)
    parts = urlsplit(uri)
    if "://" not in uri and parts.scheme != "file":
        return DatasetName("file", uri)
    path, place = unquote(parts.path), parts.netloc.rpartition("@")[2]
    scheme = _SCHEMES.get(parts.scheme, parts.scheme)
    if scheme == "file" and place in ("", "localhost"):
        return DatasetName("file", path or "/")
    return _named(scheme, place, path)


def _of_jdbc(uri: str) -> DatasetName:
    # Each driver has a form of its own, such as oracle:thin:ada/pw@//db:1521/shop, or sqlserver://db;user=ada.
    scheme, _, rest = uri[len("jdbc:") :].partition(":")
    database = _DATABASE.search(rest)
    _, at, place = _OF_DB2.sub(r"\1", _PROPERTIES.sub("", rest)).rpartition("@")
    if not at and "//" not in place:
        return DatasetName("file", f"jdbc:{scheme}:{place}")
    place, _, path = (place.partition("//")[2] if "//" in place else place).partition("/")
    if scheme.lower() == "oracle" and not path and (found := _ORACLE_SID.fullmatch(place)):
        place, path = found.groups()
    name = unquote(path) or (database.group(1).strip() if database else "")
    return _named(_SCHEMES.get(scheme.lower(), scheme.lower()), place, name)


def _named(scheme: str, place: str, path: str) -> DatasetName:
    namespace = f"{scheme}://{_PROPERTIES.sub('', place)}"
    urlsplit(namespace)  # raises what would keep the client from sending any event
    return DatasetName(namespace, path.strip("/") or "/")
