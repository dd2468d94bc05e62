"""Different values of groups without windows: found in batches, kept in sets, and what follows from them."""

from __future__ import annotations
