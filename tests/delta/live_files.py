"""The live files of a version, as a list; the program never has all of them in one."""

from puffin.delta.log.actions import AddFile
from puffin.delta.log.replay import LogSegment


def live_files(segment: LogSegment) -> list[AddFile]:
    return [file for file, _ in segment.fold_files(list)]
