"""The benchmark of estimates: rows of filters and joins, and groups, beside other planners and the true counts."""
