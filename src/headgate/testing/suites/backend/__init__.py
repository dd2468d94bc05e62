"""The conformance suite of state backends, in parts.

A backend is handed in by the test that uses it.
"""
