"""The settings of a job for its page: every option, its value, and the layer that set it; secrets are masked.

A secret is masked wherever it occurs in what the page shows, such as the text of an error that quotes it.
"""

from __future__ import annotations

import json
import re
from typing import Final

from headgate.common.plain_data import Json
from headgate.common.settings.config import Config
from headgate.common.settings.config_option import ConfigOption

MASK: Final = "******"
SHORTEST: Final = 6
"""Shorter secrets are masked as values of their options only: as parts of texts they would be anything."""

_SECRET: Final = re.compile(r"secret|password|passphrase|token|credential|access-key", re.IGNORECASE)
_IN_ADDRESS: Final = re.compile(r"(?<=://)[^/@\s]+(?=@)")


class ShownSettings:
    """All options of one job as its page shows them, and the mask for their secrets."""

    def __init__(self, config: Config) -> None:
        self._options = [(option, option.kind.format(value), origin.text) for option, value, origin in config]
        secrets = {
            text for option, text, _ in self._options if config.is_set(option) and is_secret(option.key)
        }
        secrets |= {found for _, text, _ in self._options for found in _IN_ADDRESS.findall(text)}
        self._secrets = [_in_json(text) for text in secrets if len(text) >= SHORTEST]

    def facts(self) -> list[Json]:
        """Return one object per option: `key`, `value`, `origin`, `default`, `help`, and `is_set`."""
        return [
            {
                "key": option.key,
                "value": _shown(option, text),
                "origin": origin,
                "is_set": origin != "default",
                "help": option.description,
            }
            for option, text, origin in self._options
        ]

    def masked(self, body: bytes) -> bytes:
        """Return JSON with the mask in place of every secret of the settings."""
        for secret in self._secrets:
            body = body.replace(secret, MASK.encode())
        return body


def is_secret(key: str) -> bool:
    """Return whether the option `key` holds a secret, by the words of its name.

    Example:
        >>> is_secret("s3.secret-key"), is_secret("security.ssl.rest.keyfile")
        (True, False)
    """
    return _SECRET.search(key) is not None


def _shown(option: ConfigOption[object], text: str) -> str:
    if is_secret(option.key) and text != option.kind.format(option.default):
        return MASK
    return _IN_ADDRESS.sub(MASK, text)


def _in_json(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False)[1:-1].encode()
