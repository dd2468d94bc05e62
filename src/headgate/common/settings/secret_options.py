"""The secrets among a job's settings: options that hold one, by their names, and logins in values."""

from __future__ import annotations

import re
from typing import Final

from headgate.common.masking import LOGIN, MASK
from headgate.common.settings.config import Config
from headgate.common.settings.config_option import ConfigOption

_SECRET: Final = re.compile(r"secret|password|passphrase|token|credential|access-key|headers", re.IGNORECASE)
_PARTS: Final = re.compile(r"(?:[,;=\s]|bearer\s|basic\s)+", re.IGNORECASE)


def is_secret(key: str) -> bool:
    """Return whether the option `key` holds a secret, by the words of its name.

    Example:
        >>> is_secret("s3.secret-key"), is_secret("security.ssl.rest.keyfile")
        (True, False)
    """
    return _SECRET.search(key) is not None


def secrets_of(config: Config) -> set[str]:
    """Return all texts that must not be shown of a job's settings: secrets, the values within those that are
    lists of names and values, and users with their passwords in URLs.
    """
    texts = [(option, option.kind.format(value)) for option, value, _ in config]
    found = {text for option, text in texts if config.is_set(option) and is_secret(option.key)}
    found |= {part for text in found if "=" in text for part in _PARTS.split(text)[1:]}
    return found | {login for _, text in texts for login in LOGIN.findall(text)}


def shown_text(option: ConfigOption[object], text: str) -> str:
    """Return the value of an option as text for people: a mask in place of a secret."""
    if is_secret(option.key) and text != option.kind.format(option.default):
        return MASK
    return LOGIN.sub(MASK, text)
