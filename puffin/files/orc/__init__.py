"""ORC data and delete files, with what pyarrow does not read: encryption, and timestamps beyond nanoseconds."""
