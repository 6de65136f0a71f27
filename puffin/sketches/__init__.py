"""
Sketches over Iceberg single-value bytes: theta sketches, equal to those of Apache DataSketches for Java, and our own.

Row counts, distributions, joint and partition sketches can forget rows, or tell their rows by value or by partition.
"""
