"""
Looking into a Puffin file of unknown origin: what is in it, and what is wrong with it.

``contents`` sums up a payload, ``describe`` tells all that a sound footer leads to, ``verify`` collects every rule that
is broken. Both take a path or URI and return values; how these look to a person is for the command line to say.

A bad blob never hides the others: the error of a blob stands in the result, beside the blob, and only a file
without a sound footer, or a store that fails, raises.
"""

from puffin.inspection.contents import DeletionVectorSummary, RowCountsSummary, SketchSummary
from puffin.inspection.describe import BlobDescription, FileDescription, describe, read_payload
from puffin.inspection.verification import Verdict, verify

__all__ = [
    "BlobDescription",
    "DeletionVectorSummary",
    "FileDescription",
    "RowCountsSummary",
    "SketchSummary",
    "Verdict",
    "describe",
    "read_payload",
    "verify",
]
