"""The options of the changelog."""

from __future__ import annotations

import pytest

from headgate.common.errors import ConfigError
from headgate.common.settings import options as o
from headgate.common.settings.config import Config, validate
from headgate.runtime.job.job_settings import job_settings


def test_workers_are_told_of_the_changelog() -> None:
    """Off by default; on with an interval."""
    assert job_settings(Config()).worker.changelog is False
    config = Config().with_spark(
        {
            "spark.headgate.state.changelog.enabled": "true",
            "spark.headgate.state.changelog.periodic-materialize.interval": "90s",
        }
    )
    validate(config)
    worker = job_settings(config).worker
    assert (worker.changelog, worker.changelog_materialize_ms) == (True, 90_000)


def test_an_interval_without_a_changelog_is_refused() -> None:
    """It would be ignored in silence; Spark's configuration may have it, as it serves many jobs."""
    key = o.CHANGELOG_MATERIALIZE_INTERVAL.key
    with pytest.raises(ConfigError, match=r"state\.changelog\.enabled.*turn it on or drop the interval"):
        validate(Config().with_program({key: "90s"}))
    validate(Config().with_spark({f"spark.headgate.{key}": "90s"}))
