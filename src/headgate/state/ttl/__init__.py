"""Time to live (TTL) of keyed state: when entries expire and are removed, on top of any state backend."""
