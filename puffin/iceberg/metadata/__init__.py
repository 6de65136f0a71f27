"""Parses Iceberg metadata files."""
