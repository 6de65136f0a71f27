"""How the process of a command ends: what waits for its end is done, and then nothing is freed any more."""

import subprocess
import sys

SCRIPT = """
import atexit, threading, time
from puffin.cli import main
import puffin.cli.program as program

class Freed:
    def __del__(self):
        print("freed")

def run(args):
    global freed
    freed = Freed()
    atexit.register(print, "handler")
    threading.Thread(target=lambda: (time.sleep(0.1), print("thread"))).start()
    print("command")
    return 3

program.run = run
main()
"""


def test_a_process_ends_after_threads_and_exit_handlers_with_its_code():
    ended = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout.split(), ended.stderr) == (3, ["command", "thread", "handler"], "")


def test_arguments_from_a_caller_leave_the_process_to_it():
    script = SCRIPT.replace("main()", "try: main([])\nexcept SystemExit as end: print(end.code)")
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ended.stdout.split() == ["command", "3", "thread", "handler", "freed"]
