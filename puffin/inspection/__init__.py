"""
Inspect a Puffin file of unknown origin: ``describe`` shows its contents, ``verify`` collects every broken rule.

Both take a path or URI and return values, which the command line renders. A bad blob never hides the others: its error
is part of the result.
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
