"""The measurements, one module per section; each gives one plain dictionary for the report."""
