"""The conformance suite of keyed state backends, in parts; a test gives it the backend to test."""
