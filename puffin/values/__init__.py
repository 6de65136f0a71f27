"""Single values of Iceberg columns: types, bytes, JSON, transforms, bounds."""
