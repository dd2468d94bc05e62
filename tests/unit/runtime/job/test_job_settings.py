"""What the job master and the workers make of the options."""

from __future__ import annotations

import pytest

from headgate.common.settings.config import Config
from headgate.core.alignment.settings import AlignmentSettings
from headgate.core.restart_strategies import ExponentialDelay, NoRestart
from headgate.runtime.job.job_settings import job_settings
from headgate.runtime.job.shipped_program import WorkerSettings


def test_an_untouched_configuration_aligns() -> None:
    """The defaults of the settings are the defaults of the options."""
    settings = job_settings(Config())
    assert settings.alignment == AlignmentSettings()
    assert settings.worker == WorkerSettings()


def test_sf3_without_a_named_strategy_a_job_restarts_if_it_takes_checkpoints() -> None:
    """sF3: exponential pauses with checkpoints, and no restart without."""
    assert job_settings(Config()).restart == NoRestart()
    checkpoints = Config().with_program({"execution.checkpointing.interval": "1s"})
    assert job_settings(checkpoints).restart == ExponentialDelay(1000, 60_000, 1.5, 0.1, 3_600_000, None)


@pytest.mark.parametrize(
    ("options", "alignment"),
    [
        ({"mode": "AT_LEAST_ONCE"}, AlignmentSettings(exactly_once=False)),
        ({"unaligned.enabled": "true"}, AlignmentSettings(unaligned=True)),
        (
            {"unaligned.enabled": "true", "aligned-checkpoint-timeout": "5s"},
            AlignmentSettings(unaligned=True, timeout_ms=5000),
        ),
    ],
)
def test_driver_and_workers_agree_on_the_alignment(
    options: dict[str, str], alignment: AlignmentSettings
) -> None:
    """A barrier is never of a kind that the workers were not built for."""
    config = Config().with_program(
        {f"execution.checkpointing.{key}": value for key, value in options.items()}
    )
    settings = job_settings(config)
    assert settings.alignment == alignment
    assert settings.worker.exactly_once is alignment.exactly_once
    assert settings.worker.unaligned is alignment.unaligned


def test_the_bound_of_records_in_flight_reaches_the_workers() -> None:
    """Its unit is bytes."""
    bound = {"execution.checkpointing.unaligned.max-in-flight-size": "64mb"}
    assert job_settings(Config().with_program(bound)).worker.in_flight_bytes_max == 64 * 2**20
