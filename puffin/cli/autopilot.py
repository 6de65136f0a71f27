"""``puffin autopilot``: keeps the tables of a policy fresh."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import click

from puffin.cli.diagnostics import diagnostics_of, fail_if_any
from puffin.cli.logs import errors_shown
from puffin.cli.options import as_json, diagnostics, in_policy, log_format, of_remote
from puffin.cli.render import aligned, counted, http_url, human_bytes, print_json, print_lines, with_catalog

if TYPE_CHECKING:
    from puffin.autopilot.decide import Verdict
    from puffin.autopilot.events import Event
    from puffin.autopilot.pilot import Autopilot
    from puffin.policy.model import Policy

_GRACE = 8.0  # seconds that runs have to end after a signal
_GRACE_BESIDE = 1.5  # after the server has ended, which takes up to eight


@click.command(name="autopilot")
@click.option("--policy", "file", required=True, metavar="FILE", help="The policy; see puffin policy check.")
@click.option("--once", is_flag=True, help="Look and run what is due once, then end; for cron and Airflow.")
@click.option("--dry-run", is_flag=True, help="Show what would run now and what it would read; run nothing.")
@of_remote
@in_policy
@click.option("--metrics-port", type=click.IntRange(0, 65535), metavar="PORT", help="Serve /metrics and /healthz.")
@click.option("--metrics-host", default="127.0.0.1", metavar="NAME", help="Interface of --metrics-port.")
@as_json
@log_format
@diagnostics
@click.pass_context
def command(
    ctx: click.Context,
    *,
    file: str,
    once: bool,
    dry_run: bool,
    remote: str | None,
    narrowed: Callable[[Policy], Policy],
    metrics_port: int | None,
    metrics_host: str,
    json_output: bool,
) -> None:
    """
    Look at every table of a policy, and run what is due: statistics and indexes, worst first, within the budget.

    Without --once it goes on until SIGTERM or Ctrl+C, which end it within ten seconds. It may be killed at any moment,
    and several instances may run at once.
    """
    if json_output and not (once or dry_run):
        raise click.UsageError("--json needs --once or --dry-run; the policy's events are the log of an autopilot")
    stopped = threading.Event()
    signals = _Signals()
    if not dry_run:
        signals.watch()  # before the imports, which take a while
    from puffin.autopilot.pilot import Autopilot
    from puffin.policy.document import read_policy

    stderr = diagnostics_of(ctx)
    policy = narrowed(read_policy(file))
    if remote is not None:
        policy = policy.over_connect(remote)
    events: deque[Event] = deque(maxlen=None if once else 0)  # those of a loop would never end

    def listen(event: Event) -> None:
        events.append(event)
        if not json_output:
            print_lines([run_line(event)])

    pilot = Autopilot(policy, listen, verbose=stderr.spark_may_print, writes=not dry_run, stopped=stopped)
    signals.then = stopped.set
    if metrics_port is not None:
        from puffin.autopilot.endpoint import Endpoint

        endpoint = Endpoint(pilot.counts, metrics_host, metrics_port, patience=max(600.0, 3.0 * policy.look_every))
        stderr.print_message(f"metrics at {http_url(metrics_host, endpoint.port)}/metrics")
    if dry_run:
        verdicts = pilot.look()
    else:
        is_one_line = once and not stderr.is_json  # the last line names what is broken, but not what is lost
        with errors_shown("puffin.autopilot.outages" if is_one_line else "puffin.autopilot", stderr):
            verdicts = until_stopped(pilot, lambda: pilot.run(once=once))
    if once or dry_run:
        _end(ctx, pilot, verdicts, events)


class _Signals:
    """
    Handles SIGTERM and SIGINT: ends the process at once until the autopilot runs, then asks it to stop.

    A thread waits for them. A handler runs in the main thread between two steps of Python, so a signal that comes just
    before a read that hangs would wait for that read.
    """

    def __init__(self) -> None:
        self.then: Callable[[], object] = lambda: os._exit(0)

    def watch(self) -> None:
        """Have both signals do this from now on."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        threading.Thread(target=self._wait, args=(reader,), name="puffin-signals", daemon=True).start()

    def _wait(self, reader: int) -> None:
        while os.read(reader, 1):
            self.then()


def until_stopped(pilot: Autopilot, run: Callable[[], list[Verdict]]) -> list[Verdict]:
    """
    Run an autopilot in a thread, so that a signal ends it whatever it waits for.

    If runs do not end soon after it was stopped, the process ends without them, with exit code 0: they may be killed at
    any moment. Raises what ``run`` raises.
    """
    outcome: Future[list[Verdict]] = Future()

    def run_to_its_end() -> None:
        try:
            outcome.set_result(run())
        except BaseException as exc:  # noqa: BLE001 - raised below
            outcome.set_exception(exc)

    thread = _thread(run_to_its_end)
    thread.start()
    while thread.is_alive():
        thread.join(0.2)
        if pilot.is_stopped:
            _end_within(_GRACE, thread)
    return outcome.result()


@contextlib.contextmanager
def alongside_server(pilot: Autopilot) -> Iterator[Callable[[], None]]:
    """Stop an autopilot at the end of the block, which starts it by calling what is yielded."""
    thread = _thread(pilot.run)
    try:
        yield thread.start
    finally:
        pilot.stop()
        if thread.ident is not None:
            _end_within(_GRACE_BESIDE, thread)


def run_line(event: Event) -> str:
    """What became of a table, for people."""
    name = with_catalog(event.table, event.catalog)
    if event.error is not None:
        return f"{name}: {event.action} {event.outcome}: {event.error}"
    work, elapsed = event.work, event.elapsed_seconds
    read = f", {human_bytes(work.bytes_read)} read in {elapsed:.1f} s" if work.rows_read else ""
    return f"{name}: {event.action} {event.outcome} ({event.reason}){read}"


def _thread(run: Callable[[], object]) -> threading.Thread:
    return threading.Thread(target=run, name="puffin-autopilot", daemon=True)


def _end_within(seconds: float, thread: threading.Thread) -> None:
    """Wait for the thread of a stopped autopilot; end the process with exit code 0 if that takes longer."""
    thread.join(seconds)
    if thread.is_alive():
        sys.stdout.flush()
        os._exit(0)


def _end(ctx: click.Context, pilot: Autopilot, verdicts: Sequence[Verdict], events: Sequence[Event]) -> None:
    """Print what was found, and fail if a table could not be read, or its run failed."""
    from puffin.autopilot.broken import why_broken

    if ctx.params["json_output"]:
        print_json({**_document(pilot, verdicts), "runs": [event.to_json() for event in events]})
    elif ctx.params["dry_run"]:
        print_lines(_plan_lines(pilot, verdicts))
    else:
        print_lines([_summary(pilot, verdicts, events)])
    broken = {each.seen.key: why_broken(each) for each in verdicts if each.state == "broken"}
    failures = [*broken.values(), *(run_line(event) for event in events if event.outcome == "failed")]
    fail_if_any(ctx, failures, len(verdicts), see="" if ctx.params["dry_run"] else "--dry-run")


def _document(pilot: Autopilot, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    may = {verdict.seen.key: starts for verdict, starts in pilot.plan(verdicts)}
    return {
        "budget-left": pilot.budget_left(),
        "tables": [{**each.to_json(), "may-start": may.get(each.seen.key)} for each in verdicts],
    }


def _plan_lines(pilot: Autopilot, verdicts: Sequence[Verdict]) -> Iterator[str]:
    planned = pilot.plan(verdicts)
    may = {verdict.seen.key: starts for verdict, starts in planned}
    if verdicts:
        head = ("state", "table", "to read", "")
        yield from aligned([head, *(_row(each, may.get(each.seen.key)) for each in verdicts)], right=(2,))
    left = pilot.budget_left()
    starts = [verdict for verdict, may_start in planned if may_start]
    budget = "" if left is None else f"; {human_bytes(left)} are left of today's budget"
    size = human_bytes(sum(verdict.bytes for verdict in starts))
    why = pilot.why_not_now() if len(starts) < len(planned) else None
    why_not = "" if why is None else f"; {why}"
    yield f"{len(starts)} of {counted(len(verdicts), 'table')} would run now, and read {size}{why_not}{budget}"


def _summary(pilot: Autopilot, verdicts: Sequence[Verdict], events: Sequence[Event]) -> str:
    """How many tables ran, and why the others did not."""
    outcomes = {(each.catalog, each.table): each.outcome for each in events if each.action != "clean"}
    counts: Counter[str] = Counter()
    for each in verdicts:
        outcome = outcomes.get((each.seen.catalog, each.seen.name))
        if outcome == "skipped":
            counts["no longer due"] += 1
        elif outcome is None:
            why = pilot.outcome(each.seen.key) or pilot.why_not_now() or "not begun"
            counts[f"not now ({why})" if each.state == "due" else each.state] += 1
    others = (f"{count} {state}" for state, count in counts.items())
    ran = f"{len(verdicts) - counts.total()} of {counted(len(verdicts), 'table')} ran"
    return "; ".join((ran, ", ".join(others))) if counts else ran


def _row(verdict: Verdict, may_start: bool | None) -> tuple[str, ...]:
    state = "not now" if may_start is False else verdict.state
    size = human_bytes(verdict.bytes) if verdict.statistics or verdict.index else "-"
    return state, with_catalog(verdict.seen.name, verdict.seen.catalog), size, verdict.why
