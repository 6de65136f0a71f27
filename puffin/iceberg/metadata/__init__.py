"""Iceberg's metadata file, parsed."""
