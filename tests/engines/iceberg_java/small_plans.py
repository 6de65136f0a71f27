"""
``puffin serve`` whose plans all take longer than it has patience, and that sends each file as a part of its own.

Java's client asks for its plan at once, and after that a second later at the earliest. So a plan is made by the time
that the server would have it ask again, but for the first one, for which it has to.
"""

import itertools
import time

from puffin.cli import main
from puffin.rest_catalog import planned_scan
from puffin.rest_catalog.callers_catalog import CallersCatalog
from puffin.server.iceberg import routes
from puffin.server.settings import Limits

PATIENCE = 0.1  # seconds

planned_scan.FILES_OF_PART = 1
routes._PATIENCE = PATIENCE / Limits().request_seconds
plan, seconds = CallersCatalog.plan, itertools.chain((3 * PATIENCE,), itertools.repeat(PATIENCE))


def slow_plan(*arguments):
    time.sleep(next(seconds))
    return plan(*arguments)


CallersCatalog.plan = slow_plan
main()
