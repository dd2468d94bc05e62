"""Addresses that only processes of the same machine can reach."""

from __future__ import annotations

import ipaddress
from typing import Final

LOCALHOST: Final = "localhost"


def is_loopback(host: str) -> bool:
    """Return whether `host` is a loopback address or "localhost", which only this machine can reach.

    Example:
        >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
        (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        # Any other name may mean another address tomorrow.
        return host == LOCALHOST
