"""Keyed state stored as a base and a log of changes after it. Readers merge the two in `state/stored`."""
