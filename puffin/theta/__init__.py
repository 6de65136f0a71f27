"""Theta sketches over Iceberg single-value bytes."""
