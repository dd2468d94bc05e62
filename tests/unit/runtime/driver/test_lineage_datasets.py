"""Names of datasets, made of the URIs that sources, sinks and settings say."""

from __future__ import annotations

import pytest

from headgate.runtime.driver.lineage.dataset_names import dataset_name


@pytest.mark.parametrize(
    ("uri", "namespace", "name"),
    [
        ("/data/in put/ä", "file", "/data/in put/ä"),
        ("file:///data/in%20put", "file", "/data/in put"),
        ("file://localhost/data", "file", "/data"),
        ("file:/data", "file", "/data"),
        ("s3://bucket/a/b/", "s3://bucket", "a/b"),
        ("s3n://bucket", "s3://bucket", "/"),
        ("hdfs://node:8020/a", "hdfs://node:8020", "a"),
        ("kafka://ada:pw@broker:9092/orders", "kafka://broker:9092", "orders"),
        ("jdbc:postgresql://db:5432/shop.public.orders", "postgres://db:5432", "shop.public.orders"),
        ("mysql://db:3306/shop.orders", "mysql://db:3306", "shop.orders"),
        ("../../etc", "file", "../../etc"),
    ],
)
def test_names_follow_the_specification(uri: str, namespace: str, name: str) -> None:
    """Without logins; what has no scheme is a path."""
    assert dataset_name(uri) == (namespace, name)
