"""The proof of exactly once with real processes, real signals and real Spark; not shipped. See `__main__`."""
