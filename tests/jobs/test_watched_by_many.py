"""Two hundred pages and a scrape a second, at one job: everybody is answered, and the job goes on."""

from __future__ import annotations

import pytest

from proof.page_soak import PAGES, Part, soak, violations


@pytest.mark.ci
@pytest.mark.timeout(180)
def test_each_of_many_pages_is_answered() -> None:
    """The full form, an hour of it, also looks at the rate of the job and at the driver's memory."""
    (alone, one, many), _ = soak(PAGES, 8, 1)
    assert many.told["unanswered"] == 0, many.told["such_as"]
    assert {each.rpartition(" ")[2] for each in many.told["answers"]} == {"200", "503"}
    assert many.told["answers"]["/v1/events 200"] == 16
    assert many.told["answers"]["/metrics 200"] >= 2
    assert min(one.told["events"], many.told["events"] // 16) >= 1
    assert min(alone.rate, one.rate, many.rate) > 0
    assert many.checkpoints > 0


def part(**given: object) -> Part:
    """One in which all is well."""
    told = {"unanswered": 0, "such_as": [], "answers": {"/v1/events 200": 16, "/v1/events 503": 9}}
    fields = {"pages": 0, "seconds": 60.0, "rate": 100.0, "checkpoints": 60, "driver": 0.02}
    return Part(**{**fields, "memory_mib": (200.0, 201.0), "told": told, **given})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"told": {"unanswered": 2, "such_as": ["reset"], "answers": {}}}, "2 requests got no answer"),
        ({"told": {"unanswered": 0, "answers": {"/metrics 500": 1}}}, "neither 200 nor 503: /metrics 500"),
        ({"rate": 90.0}, "the job read 90 records/s, and 100"),
        ({"checkpoints": 12}, "only 12 checkpoints"),
        ({"memory_mib": (200.0, 240.0)}, "grew from 200 to 240 MiB"),
    ],
)
def test_what_does_not_hold_is_found(wrong: dict[str, object], text: str) -> None:
    """Each of the promises by itself."""
    assert violations([part(), part(), part()]) == []
    [found] = violations([part(), part(), part(**wrong)])
    assert text in found
