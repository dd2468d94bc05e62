"""Time to live of keyed state: when an entry expires and is removed. Backends know nothing of it."""
