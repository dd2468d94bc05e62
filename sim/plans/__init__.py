"""Random plans of tables whose rows are corrected, and their answers by DuckDB at every mark."""
