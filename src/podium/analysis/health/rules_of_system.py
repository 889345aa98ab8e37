"""Whether everything that a run consists of works: its parts, its world, its judge, and the machine."""

from __future__ import annotations

from podium.analysis.health.course import Course
from podium.analysis.health.rule import Verdict, from_share, rule
from podium.core.activity import activity

__all__ = ["DISK", "GPU_MEMORY", "IDLE_PART", "JUDGE_FAILS", "MEMORY", "WORLD_FAILS"]

GIGA = 1e9
LITTLE = 0.05  # of a memory: less than this is running out
FEWEST = 8  # iterations in which a part has not acted before that counts


@rule(
    "idle-part", "A method whose part never acts is another method: what it is compared for is not there.", least=FEWEST
)
def IDLE_PART(course: Course) -> Verdict:
    counts = activity(course.trained)
    idle = [name for name, (acted, present) in counts.items() if not acted and present >= FEWEST]
    if not idle or not course.ended:  # a bound may be reached late, and solved tasks may be dropped once there are any
        return None
    seen = f"Never acted in {len(course.trained)} iterations: {', '.join(idle)}."
    return seen, f"podium methods check {course.setting.method} (says where a part can act)"


@rule("world-fails", "A rollout in which the world failed counts as reward 0, whatever the model wrote.", least=1)
def WORLD_FAILS(course: Course) -> Verdict:
    share = course.share("failures")
    if share < 0.02:
        return None
    reason = next(
        (line["failure"] for line in reversed(course.trained) if line.get("failure")), "no reason is recorded"
    )
    seen = f"The world failed in {100 * share:.0f} % of the rollouts: {reason}."
    return seen, f"podium worlds check {course.setting.world}; podium rollouts {course.setting.run} --failed"


@rule(
    "judge-fails",
    "Verdicts that fail or cannot be read count as neutral: the policy learns from the others alone.",
    least=1,
)
def JUDGE_FAILS(course: Course) -> Verdict:
    return from_share(
        0.05,
        course.share("judge.failures", "judge.nonsense", of="judge.calls"),
        "{share} of the judge's verdicts failed or could not be read.",
        "podium eval MODEL --judge (measures a judge), or another judge in the method's settings",
    )


@rule("disk-full", "A full disk ends the run; what was written before remains.", least=1)
def DISK(course: Course) -> Verdict:
    machine, left = course.machine, max(course.setting.iterations - course.iteration, 0)
    if machine.disk_free is None or not left:
        return None
    needed = left * machine.written_per_iteration
    if machine.disk_free > max(needed, 0.5 * GIGA):
        return None
    free, more = machine.disk_free / GIGA, needed / GIGA
    seen = f"{free:.1f} GB are free, and {left} more iterations will write about {more:.1f} GB."
    return seen, f"{course.again('keep_rollouts_gb=0.2', 'keep_checkpoints=1')}, or free some space"


@rule("memory-low", "The system ends a process that takes the last memory, without asking it.", least=1)
def MEMORY(course: Course) -> Verdict:
    return _short_of(course, course.machine.memory_free, course.machine.memory_total, "memory")


@rule(
    "gpu-memory-low", "Updates are split and sampling is narrowed when memory runs out: the run becomes slow.", least=1
)
def GPU_MEMORY(course: Course) -> Verdict:
    return _short_of(course, course.machine.gpu_free, course.machine.gpu_total, "GPU memory")


def _short_of(course: Course, free: int | None, total: int | None, what: str) -> Verdict:
    if free is None or not total or free > LITTLE * total:
        return None
    seen = f"{free / GIGA:.1f} of {total / GIGA:.0f} GB of {what} are free."
    return seen, course.again("micro_tokens=4096", "checkpointing=true")
