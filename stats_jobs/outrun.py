"""
Detects that another run meanwhile committed something that this run's commit would undo, or deleted what it refers to.

Later runs keep joint sketches and sketches by partition, and leave out values that were left out once. A run learns of
these when it plans. What was committed since is not in its plan, so it has to begin again. So it does if the private
state that it keeps was deleted with the statistics that it builds on.
"""

from __future__ import annotations

from collections.abc import Sequence

from puffin.errors import ConflictError
from puffin.statistics.ancestry import KnownSketch, known_sketches
from puffin.statistics.assemble import ColumnStatistics
from puffin.statistics.blob_properties import SketchProperties
from puffin.statistics.stored_blobs import StoredBlobs
from puffin.tables.snapshot import TableSnapshot
from stats_jobs.joint import wanted_sets
from stats_jobs.options import FULL, INCREMENTAL
from stats_jobs.target import Target

ATTEMPTS = 5


class Outrun(ConflictError):
    """Another run was faster, and this one has to plan anew; nothing of it was committed."""


def check_not_outrun(target: Target, statistics: Sequence[ColumnStatistics], now: TableSnapshot) -> None:
    """
    Raise Outrun if a commit of these statistics, as they were planned, would lose what the table says by now, or refer
    to private state that is gone.
    """
    options, sets = target.options, wanted_sets(target)
    known = known_sketches(now, [each.column.field_id for each in statistics])
    blobs = StoredBlobs(now, known)
    for of_column in statistics:
        column = of_column.column
        before, after = _nearest(target.known[column.field_id]), _nearest(known[column.field_id])
        wanted = {tuple(each.field_id for each in of) for of in sets.get(column.field_id, ())}
        lost = None
        if options.mode != FULL and target.keeps_values(column) and not after.provenance.keeps_values:
            lost = "left out its values"
        elif not options.no_joint and set(after.joint) - set(before.joint) - wanted:
            lost = "added a joint sketch"
        elif not options.partitions and before.partitions is None and after.partitions is not None:
            lost = "added sketches by partition"
        # What an incremental run keeps may have been gone before it began; a later run completes it.
        elif options.mode != INCREMENTAL and blobs.has_lost_part(of_column.kept.values()):
            lost = "deleted private state that this one keeps"
        if lost is not None:
            raise Outrun(f"{now.name}: column {column.name}: another run has {lost} meanwhile; run again")


def _nearest(known: Sequence[KnownSketch]) -> SketchProperties:
    """What our nearest sketch of a column says; nothing if there is none."""
    return next((each.properties for each in known if each.properties.is_ours), SketchProperties({}))
