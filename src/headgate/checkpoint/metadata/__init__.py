"""The file `_metadata` of a checkpoint: its format versions. Files of state are not opened here."""
