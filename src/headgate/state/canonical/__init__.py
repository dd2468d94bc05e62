"""The canonical format: keyed state as typed Parquet tables that other tools open. It knows no snapshot."""
