"""One module for each kind of place where an Iceberg table lives."""
