"""Plans the data files of a version, with deletion vectors, partition values and file statistics."""
