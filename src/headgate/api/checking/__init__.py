"""Checks of a program before anything starts. Checks that need a running job are in `runtime`."""
