"""Sketches over Iceberg single-value bytes: theta sketches, equal to those of DataSketches for Java, and our own."""
