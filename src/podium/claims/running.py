"""Running claims: whatever is due, in as many processes as there are jobs, until nothing is or the budget is spent."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any

from podium.claims.claim import MethodClaim
from podium.claims.decision import LOOKS
from podium.claims.measuring import Measurement, apartness, measured_run, one_thread
from podium.claims.results import Results
from podium.claims.standing import ClaimStanding, Due, stand

__all__ = ["ClaimsRun", "run_claims"]

TUNING = Measurement(tasks=32)  # enough to rank learning rates, with as many answers as any metric needs
FIXED = Measurement(tasks=1, samples=1)  # where nothing is learned, all is read off the training
ACTIVE_WITHIN = 5  # iterations after the arms have parted


class ClaimsRun:
    """What `run_claims` is given beside the claims."""

    def __init__(
        self,
        folder: Path,
        jobs: int = 1,
        hours: float | None = None,
        looks: tuple[int, ...] = LOOKS,
        active: bool = False,
    ) -> None:
        self.results = Results(folder)
        self.jobs, self.hours, self.looks, self.active = jobs, hours, looks, active


def make(due: Due) -> dict[str, Any]:
    """One run, in a process of its own."""
    one_thread()
    if due.baseline is not None:
        assert due.key.lr is not None
        return apartness(due.cell, due.arm, due.baseline, due.key.seed, due.key.lr, ACTIVE_WITHIN)
    measure = Measurement() if due.key.kind == "test" else TUNING
    if due.cell.lr is not None:
        measure = FIXED
    return measured_run(due.cell, due.arm, due.key.seed, due.key.lr, measure)


def run_claims(
    claims: Sequence[MethodClaim], run: ClaimsRun, progress: Callable[[str], None] | None = None
) -> list[ClaimStanding]:
    """Run what is due. A run that fails is told and not tried again; the other claims go on."""
    begun = time.monotonic()
    failed: set[Due] = set()

    def wanted() -> list[Due]:
        standings = [stand(claim, run.results, run.looks) for claim in claims]
        if run.active:
            standings = [s for s in standings if s.state == "not run"]
        # Claims take turns, so that all are looked at before any is finished.
        waiting = [list(s.due) for s in standings]
        longest = max(map(len, waiting), default=0)
        mixed = [row[place] for place in range(longest) for row in waiting if place < len(row)]
        return [due for due in dict.fromkeys(mixed) if due not in failed]

    def spent() -> bool:
        return run.hours is not None and time.monotonic() - begun > 3600 * run.hours

    if run.jobs == 1:
        while not spent() and (todo := wanted()):
            _kept(run, todo[0], partial(make, todo[0]), failed, progress)
    else:
        with ProcessPoolExecutor(run.jobs, multiprocessing.get_context("spawn")) as pool:
            under_way: dict[Future[dict[str, Any]], Due] = {}
            queue: list[Due] = []
            while True:
                if not queue and not spent():  # what was due stays due: look again when all of it has begun
                    begun_already = set(under_way.values())
                    queue = [due for due in wanted() if due not in begun_already]
                while queue and len(under_way) < run.jobs and not spent():
                    due = queue.pop(0)
                    under_way[pool.submit(make, due)] = due
                if not under_way:
                    break
                for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                    _kept(run, under_way.pop(future), future.result, failed, progress)
    return [stand(claim, run.results, run.looks) for claim in claims]


def _kept(
    run: ClaimsRun,
    due: Due,
    result: Callable[[], dict[str, Any]],
    failed: set[Due],
    progress: Callable[[str], None] | None,
) -> None:
    rate = "" if due.key.lr is None else f", learning rate {due.key.lr:g}"
    name = f"{due.cell.name}: {due.arm.text()}, {due.key.kind}, seed {due.key.seed}{rate}"
    try:
        record = result()
    except Exception as problem:
        failed.add(due)
        said = f"{name}: failed: {type(problem).__name__}: {problem}"
    else:
        run.results.add(due.cell, due.arm, due.key, record)
        rest = f"pass@1 {record['final']['pass@1']:.3f}" if "final" in record else f"{record['distance']:.1%} apart"
        said = f"{name}: {rest}"
    if progress is not None:
        progress(said)
