"""Whether there is anything to learn from: rewards that differ, advantages that are not 0, updates that are taken."""

from __future__ import annotations

from podium.analysis.health.course import RECENT, Course
from podium.analysis.health.rule import Verdict, from_share, rule

__all__ = [
    "EVERYTHING_RIGHT",
    "GROUPS_DROPPED",
    "NO_SIGNAL",
    "NO_UPDATE",
    "REWARDS_VANISH",
    "VERDICT_AND_REWARD",
    "easier",
    "harder",
]

FLAT = 0.85  # share of groups whose rewards are all equal
FEW = 0.2  # share of the trained tokens that get a policy gradient
RIGHT = 0.95  # share of right answers that leaves nothing to learn
NOT_POLICY = ("KL", "Entropy", "clip", "Critic", "Value", "Likelihood")  # terms that need no reward to act


def easier(course: Course) -> str:
    """The change that makes tasks easier, or else lets more answers be drawn for each."""
    level = course.setting.level
    return f"world.level={level - 1}" if level is not None and level > 1 else "rollout.n=32"


def harder(course: Course) -> str:
    level = course.setting.level
    return f"world.level={level + 1}" if level is not None else "rollout.n=32"


def _touched(course: Course) -> float:
    """The share of trained tokens to which the policy's own terms gave a gradient, in the newest iterations."""
    last = course.trained[-RECENT:]
    tokens = sum(line.get("tokens", 0) - line.get("tokens.dropped", 0) for line in last)
    acted = sum(
        count
        for line in last
        for name, count in line.get("acted", {}).items()
        if name.startswith("objective.") and not any(word in name for word in NOT_POLICY)
    )
    updates = sum(max(line.get("updates", 1), 1) for line in last) / max(len(last), 1)
    return acted / tokens / min(updates, 1) if tokens else 0.0


def _flat(course: Course) -> float:
    """The share of groups without a difference in reward; of groups of one, whether the reward never changed."""
    last = course.trained[-RECENT:]
    groups = sum(line.get("groups", 0) + line.get("groups.dropped", 0) for line in last)
    if sum(line["rollouts"] for line in last) >= 2 * groups:
        return course.recent("flat_groups") or 0.0
    rewards = course.values("reward")[-RECENT:]
    return float(len(set(rewards)) == 1)


@rule("no-signal", "Advantages are 0 in a group whose rewards are all equal: it teaches nothing, and costs as much.")
def NO_SIGNAL(course: Course) -> Verdict:
    flat, right = _flat(course), course.recent("pass@1") or 0.0
    if "advantage.std" not in course.trained[-1] or flat < FLAT or right >= RIGHT or _touched(course) > FEW:
        return None
    seen = (
        f"In the last {RECENT} iterations {100 * flat:.0f} % of the groups had equal rewards, and {100 * right:.0f} % "
        "of the answers were right."
    )
    remedy = "easier tasks" if "level" in easier(course) else "more answers to each task"
    return seen, f"{course.again(easier(course))} ({remedy})"


@rule(
    "everything-right",
    "Where all answers are right there is nothing left to learn, and further training costs entropy.",
)
def EVERYTHING_RIGHT(course: Course) -> Verdict:
    right = course.recent("pass@1") or 0.0
    if "advantage.std" not in course.trained[-1] or right < 0.98 or _flat(course) < 0.9:
        return None
    seen = f"In the last {RECENT} iterations {100 * right:.1f} % of the answers were right."
    return seen, f"{course.again(harder(course))} (harder tasks)"


@rule("no-update", "The model stays as it is.")
def NO_UPDATE(course: Course) -> Verdict:
    last = course.trained[-RECENT:]
    if any(line.get("weights_unchanged") or line.get("updates", 1) for line in last):
        return None
    seen = f"No optimiser step was taken in the last {RECENT} iterations: all groups were dropped before the update."
    return seen, f"{course.again(easier(course))} (keep parts drop groups without a difference in reward)"


@rule("groups-dropped", "Sampling is most of the time of a run, and what is dropped is sampled for nothing.")
def GROUPS_DROPPED(course: Course) -> Verdict:
    kept, dropped = (sum(course.values(name)[-RECENT:]) for name in ("groups", "groups.dropped"))
    share = dropped / (kept + dropped) if kept + dropped else 0.0
    if share < 0.8:
        return None
    right = course.recent("pass@1") or 0.0
    change = easier(course) if right < 0.5 else harder(course)
    seen = f"{100 * share:.0f} % of the sampled groups were dropped in the last {RECENT} iterations."
    return seen, f"{course.again(change)} (tasks that are right about half the time)"


@rule("rewards-vanish", "What differs by less than the precision of training is the same reward, and teaches nothing.")
def REWARDS_VANISH(course: Course) -> Verdict:
    return from_share(
        0.1,
        course.share("groups.merged", "groups.vanished", of="groups"),
        "In {share} of the groups rewards differ, but by too little for their size: advantages are 0.",
        "scale the rewards to about 1, or subtract a constant from them, in the world or the reward function",
    )


@rule("verdict-and-reward", "The run is trained on the reward and measured by the verdict: they pull apart.", least=1)
def VERDICT_AND_REWARD(course: Course) -> Verdict:
    look = f"podium worlds check {course.setting.world}; podium rollouts {course.setting.run}"
    return from_share(
        0.02, course.share("contradictions"), "{share} of the rollouts are right and earned nothing.", look
    )
