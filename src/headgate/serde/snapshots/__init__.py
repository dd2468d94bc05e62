"""Serializers' snapshots in stored form: written, read, found again. `evolution` judges older ones."""
