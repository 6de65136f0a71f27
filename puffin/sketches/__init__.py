"""Theta sketches over Iceberg single-value bytes, equal to those of Apache DataSketches for Java."""
