"""The settings of a job for its page: every option, its value, and the layer that set it; secrets are masked.

A secret is masked wherever it occurs in what the page shows, such as the text of an error that quotes it.
"""

from __future__ import annotations

import json

from headgate.common.masking import MASK as MASK
from headgate.common.masking import Mask
from headgate.common.plain_data import Json
from headgate.common.settings.config import Config
from headgate.common.settings.secret_options import secrets_of, shown_text


class ShownSettings:
    """All options of one job as its page shows them, and the mask for their secrets."""

    def __init__(self, config: Config) -> None:
        self._options = [(option, option.kind.format(value), origin.text) for option, value, origin in config]
        self._secrets = [_in_json(text) for text in Mask(secrets_of(config)).secrets]

    def facts(self) -> list[Json]:
        """Return one object per option: `key`, `value`, `origin`, `default`, `help`, and `is_set`."""
        return [
            {
                "key": option.key,
                "value": shown_text(option, text),
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


def _in_json(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False)[1:-1].encode()
