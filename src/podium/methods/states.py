"""Many turns: credit from the states and edges that the rollouts of a task share."""

from __future__ import annotations

from podium.advantage import GroupInGroup, NestedHistories, Normalize
from podium.core.errors import PodiumError
from podium.core.method import Method
from podium.core.part import Advantage
from podium.methods.catalogue import recipe
from podium.methods.group import anchored
from podium.objective import KL, Clip, PolicyGradient
from podium.rollout import Sample
from podium.shape import SharedEdges

__all__ = ["gigpo", "hgpo", "salt"]


def _agent(name: str, advantage: Advantage, n: int, clip: float, kl: float) -> Method:
    """A clipped surrogate with an anchor, as in the verl-agent recipes."""
    method = Method(name, rollout=Sample(n=n), advantage=advantage, objective=(PolicyGradient(clip=Clip(clip, clip)),))
    return anchored(method, KL("k3", coefficient=kl))


@recipe(
    "gigpo",
    summary="Two comparisons at once: rollouts of a task, and all steps of the task taken from the same state.",
    citation="Feng et al. 2025, Group-in-Group Policy Optimization, https://arxiv.org/abs/2505.10978",
    family="turns",
    presets={"release": {}, "paper": {"rows": "rollout"}},
)
def gigpo(
    n: int = 8,
    gamma: float = 0.95,
    omega: float = 1.0,
    scale: str = "none",
    rows: str = "step",
    similarity: float | None = None,
    clip: float = 0.2,
    kl: float = 0.01,
) -> Method:
    """A = A_episode + omega · A_step: outcomes against the mean of the group, and discounted returns of steps against
    the mean of those taken from the same state; `scale="std"` divides both by their std.

    The release counts each step of a rollout in the episode's mean, `gigpo@paper` each rollout once.
    `similarity` (0.95 in the release, where it is switched on) compares steps from states whose texts are nearly equal.
    omega = 0 with `rows="rollout"` and `scale="std"` is GRPO.
    """
    advantage = GroupInGroup(gamma=gamma, omega=omega, scale=scale, rows=rows, similarity=similarity)
    return _agent("gigpo", advantage, n, clip, kl)


@recipe(
    "hgpo",
    summary="Steps compared with those that share their last k states, longer histories weighing more.",
    citation="Hierarchy-of-Groups Policy Optimization, https://github.com/langfengQ/verl-agent",
    family="turns",
)
def hgpo(
    n: int = 8,
    gamma: float = 0.95,
    history: int = 2,
    scale: str = "std",
    alpha: float = 1.0,
    drop_zero: bool = True,
    base_group: bool = False,
    clip: float = 0.2,
    kl: float = 0.01,
) -> Method:
    """A_t = Σ_k w_k A_k, with A_k the return of step t against the steps of the group with the same last k states
    (k = 1 … history + 1, at least two members), w_k ∝ (k + 1)^alpha.

    history = 0 is GiGPO's step advantage with the population std and without the episode part. Two public copies drop
    comparisons that are exactly 0 before weighting, one keeps them: `drop_zero`.
    """
    advantage = NestedHistories(
        gamma=gamma, history=history, scale=scale, alpha=alpha, drop_zero=drop_zero, base_group=base_group
    )
    return _agent("hgpo", advantage, n, clip, kl)


@recipe(
    "salt",
    summary="A step that several rollouts share gets the mean of their advantages; "
    "a step of one rollout keeps its own.",
    citation="SALT: Step-level Advantage Assignment via Trajectory Graph, https://arxiv.org/abs/2510.20022",
    family="turns",
)
def salt(n: int = 8, host: str = "grpo", window: int = 1, clip: float = 0.2, kl: float = 0.01) -> Method:
    """The rollouts of a group overlaid as a graph: the advantage of a step is the mean over all steps with the same
    (state, action, next state). Hosts: `grpo`, `rloo`, `mean` (no division).

    Without a shared edge it is the host exactly.
    """
    hosts = {
        "grpo": Normalize(singleton="zero"),
        "rloo": Normalize(centre="leave_one_out", scale="none", singleton="zero"),
        "mean": Normalize(scale="none", singleton="zero"),
    }
    if host not in hosts:
        raise PodiumError(f"salt: host = {host!r} is not one of {', '.join(hosts)}.")
    return _agent("salt", hosts[host], n, clip, kl) | SharedEdges(window)
