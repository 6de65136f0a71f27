"""The data files of a version, with deletion vectors, partition values and file statistics."""
