"""Names of datasets, made of the URIs that sources, sinks and settings say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

import headgate as hg
from headgate.common.masking import Mask
from headgate.connectors.collection import CollectionSource
from headgate.runtime.driver.lineage.dataset_names import dataset_name
from headgate.runtime.driver.lineage.job_datasets import datasets_of


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
        ("jdbc:sqlite:/data/shop.db", "file", "jdbc:sqlite:/data/shop.db"),
    ],
)
def test_names_follow_the_specification(uri: str, namespace: str, name: str) -> None:
    """Without logins; what has no scheme is a path."""
    assert dataset_name(uri) == (namespace, name)


@pytest.mark.parametrize(
    ("uri", "namespace", "name"),
    [
        (
            "jdbc:sqlserver://h:1433;databaseName=shop;user=sa;password=secret99",
            "mssql://h:1433", "shop",
        ),
        ("jdbc:sqlserver://h:1433;user=sa;password=secret@99", "mssql://h:1433", "/"),
        ("sqlserver://h:1433;user=sa;password=secret99", "mssql://h:1433", "/"),
        ("jdbc:oracle:thin:scott/secret99@//h:1521/shop", "oracle://h:1521", "shop"),
        ("jdbc:oracle:thin:scott/secret99@h:1521:shop", "oracle://h:1521", "shop"),
        ("jdbc:oracle:thin:@h:1521:SID", "oracle://h:1521", "SID"),
        ("jdbc:oracle:thin:@//h:1521/shop", "oracle://h:1521", "shop"),
        ("jdbc:oracle:thin:@h:1521:SID.orders", "oracle://h:1521", "SID.orders"),
        ("jdbc:oracle:thin:@[::1]:1521:SID", "oracle://[::1]:1521", "SID"),
        ("jdbc:oracle:oci:@shop", "oracle://shop", "/"),
        ("jdbc:oracle:thin:@tcps://h:1521/shop?wallet_password=secret99", "oracle://h:1521", "shop"),
        ("jdbc:postgresql://h/shop?user=ada&password=secret99", "postgres://h", "shop"),
        ("jdbc:postgresql://ada:secret=99@h:5432/shop.orders", "postgres://h:5432", "shop.orders"),
        ("jdbc:postgresql://ada:secret/99@h:5432/shop", "postgres://h:5432", "shop"),
        ("JDBC:mysql:loadbalance://ada:secret99@one,two/shop", "mysql://one,two", "shop"),
        ("jdbc:db2://h:50000/shop:user=ada;password=secret99;", "db2://h:50000", "shop"),
        ("jdbc:db2://h:50000/shop:password=secret@99;user=ada;", "db2://h:50000", "shop"),
        ("jdbc:derby:shop;user=ada;password=secret99", "file", "jdbc:derby:shop"),
    ],
)  # fmt: skip
def test_urls_of_jdbc_show_no_login(uri: str, namespace: str, name: str) -> None:
    """In whichever form the driver of a database has it."""
    assert dataset_name(uri) == (namespace, name)


@pytest.mark.parametrize("uri", ["http://[bad", "jdbc:mysql://[bad/shop"])
def test_what_is_no_uri_is_refused(uri: str) -> None:
    """OpenLineage's client would not send an event with it."""
    with pytest.raises(ValueError, match="Invalid IPv6 URL"):
        dataset_name(uri)


class Told(CollectionSource[int]):
    """A source that says what it reads by a function."""

    def __init__(self, says: Callable[[], Any]) -> None:
        super().__init__([1], 1)
        self.says = says

    def datasets(self) -> Sequence[str]:
        found: Sequence[str] = self.says()
        return found


def inputs(
    says: Callable[[], Any], given: Mapping[str, Sequence[str]] | None = None, mask: Mask | None = None
) -> list[tuple[str, str]]:
    """The inputs of a job whose source says so."""
    env = hg.Environment(parallelism=1)
    env.from_source(Told(says), uid="in").collect_later(uid="out")
    found = datasets_of(env.plan(), given or {}, mask or Mask())
    return [(each.dataset.namespace, each.dataset.name) for each in found.inputs]


def test_a_source_that_says_what_is_no_uri_is_told_without_it() -> None:
    """Its other datasets are told, and so is one that it returns without a list around it."""
    assert inputs(lambda: ["http://[bad", "/data/in", 7, "/data/in"]) == [("file", "/data/in")]
    assert inputs(lambda: "/data/in") == [("file", "/data/in")]
    assert inputs(lambda: None) == []


def test_secrets_of_the_job_are_masked_in_names() -> None:
    """Of URIs of the program, and of the settings."""
    secret, mask = "s3://bucket/opensesame/a", Mask(["opensesame"])
    masked = [("s3://bucket", "******/a")]
    assert inputs(lambda: [secret], mask=mask) == masked
    assert inputs(list, {"in": [secret]}, mask) == masked
    assert inputs(lambda: ["mysql://(host=h,password=abc)/shop"]) == [
        ("mysql://(host=h,password=******", "shop")
    ]
