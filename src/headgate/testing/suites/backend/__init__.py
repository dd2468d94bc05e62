"""The conformance suite of state backends, in parts; the test that uses it hands a backend in."""
