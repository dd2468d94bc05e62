"""What happens to topics from outside: records come, go out of date, and topics are deleted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaMember
from py4j.protocol import STATIC_PREFIX

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = 50


class Topics:
    """The topics of one broker.

    Args:
        spark: a session with Spark's package for Kafka, whose classes do the work.
        address: for `bootstrap.servers`.
    """

    def __init__(self, spark: SparkSession, address: str) -> None:
        self._spark, self.address = spark, address

    def produce(self, topic: str, first: int, count: int) -> Counter[str]:
        """Write the records from number `first` on, if need be into a new topic; how many of each key."""
        rows = self._spark.range(first, first + count).selectExpr(
            f"concat('k', id % {KEYS}) key", "cast(id as string) value"
        )
        rows.write.format("kafka").options(**{"kafka.bootstrap.servers": self.address, "topic": topic}).save()
        return Counter(f"k{number % KEYS}" for number in range(first, first + count))

    def delete(self, topic: str) -> None:
        """The topic is no more; another of the same name begins at offset 0."""
        with self._admin() as admin:
            admin.deleteTopics([topic]).all().get()

    def forget(self, topic: str) -> None:
        """All its records are gone, as when their retention is over; offsets count on."""
        with self._admin() as admin:
            parts = admin.describeTopics([topic]).allTopicNames().get()[topic].partitions()
            named = self._jvm.org.apache.kafka.common.TopicPartition
            names = [named(topic, part.partition()) for part in parts]
            admin.deleteRecords(dict.fromkeys(names, self._all_records())).all().get()

    def _all_records(self) -> Any:
        """RecordsToDelete.beforeOffset(-1), which Py4J does not find by name: a getter has the same one."""
        of_class = f"{STATIC_PREFIX}org.apache.kafka.clients.admin.RecordsToDelete"
        return JavaMember("beforeOffset", None, of_class, self._jvm._gateway_client)(-1)

    @property
    def _jvm(self) -> Any:
        return self._spark.sparkContext._jvm

    @contextmanager
    def _admin(self) -> Iterator[Any]:
        settings = self._jvm.java.util.Properties()
        settings.put("bootstrap.servers", self.address)
        admin = self._jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
        try:
            yield admin
        finally:
            admin.close()
