"""The fingerprint of what is baked into stored bytes."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from headgate.common.format_config import CURRENT, FormatConfig, differences, fingerprint


def test_the_fingerprint_is_frozen() -> None:
    """Changing it makes every stored checkpoint unreadable: bump a number only together with a reader."""
    assert (
        fingerprint()
        == "checksum=crc32;key_group_step=murmur-modulo-1;key_hash=headgate-1;row_codec=1;snapshot=1"
    )


@pytest.mark.parametrize("name", [field.name for field in fields(FormatConfig)])
def test_every_choice_is_in_the_fingerprint(name: str) -> None:
    """A change of any choice is noticed and named."""
    changed = replace(CURRENT, **{name: 99})
    assert fingerprint(changed) != fingerprint()
    assert differences(fingerprint(changed)) == [f"{name} is 99, expected {getattr(CURRENT, name)}"]


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        ("", "absent"),
        ("rubbish", "rubbish is , expected absent"),
        (fingerprint() + ";more=1", "more is 1, expected absent"),
    ],
)
def test_a_foreign_fingerprint_is_told_apart(stored: str, said: str) -> None:
    """Missing and unknown choices are differences, too."""
    assert any(said in line for line in differences(stored))


def test_the_own_fingerprint_has_no_differences() -> None:
    """What this version writes it reads."""
    assert differences(fingerprint()) == []
