"""Iceberg tables: metadata and manifests as the specification has them, and the catalogs that keep them."""
