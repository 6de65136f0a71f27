"""The tables of a server as an Iceberg REST catalog that plans scans: requests in, answers out, without HTTP."""
