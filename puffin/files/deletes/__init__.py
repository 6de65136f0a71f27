"""Deleted rows: positions, equality deletes, deletion vectors."""
