"""What the pages of a column chunk give, and what pyarrow reads, as counters that compare."""

import collections
import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from puffin.files.parquet.page_values import has_readable_values, read_page_values


def written(table, **options):
    sink = io.BytesIO()
    pq.write_table(table if isinstance(table, pa.Table) else pa.table({"c": table}), sink, **options)
    return sink.getvalue()


def page_counts(source, chunk, arrow_type, *others):
    """
    The values in the pages of a chunk and the rows of each as a Counter; None if it has to be read row by row.

    ``others`` are chunks of the same column to read with it.
    """
    if not has_readable_values(chunk, arrow_type):
        return None
    found = read_page_values(source, [chunk, *others], arrow_type)
    if found is None:
        return None
    total = collections.Counter()
    for values in found:
        total += as_counter(values.array, np.ones(len(values.array), np.int64) if values.rows is None else values.rows)
    return total


def as_counter(values, counts):
    assert values.null_count == 0
    assert counts.dtype == np.int64
    assert len(values) == len(counts)
    assert (counts > 0).all()
    of_bytes(values).validate(full=True)
    total = collections.Counter()
    for value, count in zip(hashable(values), counts.tolist(), strict=True):
        total[value] += count
    return total


def counted(column):
    return collections.Counter(value for chunk in column.chunks for value in hashable(chunk) if value is not None)


def agrees_with_pyarrow(found, file, of_column=counted):
    """Whether what was found, if anything, is what the column has that pyarrow reads, unless that refuses the file."""
    if found is None:
        return True
    try:
        # A small file is read sooner than a thread wakes.
        column = pq.ParquetFile(pa.BufferReader(file)).read(use_threads=False).column(0)
    except (pa.ArrowException, OSError):
        return True
    return found == of_column(column)


def hashable(array):
    """Make values comparable: NaN by its bits, possibly invalid text by its bytes."""
    if pa.types.is_floating(array.type):
        return [value.tobytes() for value in array.drop_null().to_numpy()]
    return of_bytes(array).to_pylist()


def of_bytes(array):
    """Text as bytes: readers leave open whether it is valid."""
    is_text = any(test(array.type) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))
    return array.cast(pa.large_binary()) if is_text else array
