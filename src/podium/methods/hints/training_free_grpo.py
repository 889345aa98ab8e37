"""Training-Free GRPO: group comparison in words."""

from __future__ import annotations

from podium.memories import Experiences
from podium.method import Home, Method, Protocol, Role
from podium.methods.catalogue import recipe
from podium.strategies import Draw, Experienced
from podium.strategies.advice.writers import AdviceWriter, ModelWriter, RuleMiner

__all__ = ["training_free_grpo"]


@recipe(
    summary="No gradient: groups are compared in words, and a numbered list of experiences in the prompt is edited.",
    citation="Training-Free Group Relative Policy Optimization, https://github.com/TencentCloudADP/youtu-agent",
    tags=("prompt optimisation", "experience library", "no gradient", "in-context learning"),
    protocol=Protocol(
        model="DeepSeek-V3.1-Terminus",
        tasks=50,
        iterations=2,
        pool=100,
        source="TencentCloudADP/youtu-agent, configuration for math: 1 epoch of 100 problems of DAPO-Math",
    ),
    home=Home("sums", level=1, iterations=6, tasks=80, model="podium/tiny2"),
    presets={"paper": {"critic": ModelWriter(count=1)}},
)
def training_free_grpo(
    n: int = 5,
    temperature: float = 0.7,
    critic: AdviceWriter = RuleMiner(),
    known: bool = True,
    start: tuple[str, ...] = (),
) -> Method:
    """The policy is a frozen model and a list E of experiences, one `[G0]. text` per line below the question. Each
    batch, groups with 0 < mean reward < 1 are compared by `critic`, which writes edits (ADD, UPDATE, DELETE); they are
    merged into one plan, applied in order to a copy of E, and the list is renumbered.

    There is no objective: the weights stay bit by bit what they were, and stand in for a KL penalty. If all groups are
    solved or failed, nothing changes; n = 1 with rewards of 0 and 1 never learns. Held-out tasks are asked with the
    list in the prompt, at the run's temperature.

    As in the release, an edit without content is skipped, a DELETE too, and UPDATE of an unknown id adds. The release
    asks a language model to summarise, compare, edit and merge: `ModelWriter(of=…)`, a role or a server on this machine
    (`training-free-grpo@paper`, with a role `critic`: add `Role("critic", source=…)`). By default `RuleMiner` does it
    offline: some rollouts of a group see the list with one line changed, and it keeps what went with good answers.

    Args:
        n: Rollouts per task (the group size).
        temperature: Sampling temperature in training.
        critic: Who compares groups and edits the list.
        known: Whether rewards and right answers are known; otherwise every group is compared, without them.
        start: Experiences that are there from the beginning.
    """
    roles = tuple(Role(name) for name in critic.roles)
    return Method(
        rollout=Experienced(n=n, writer_of=critic, known=known, draw=Draw(temperature=temperature)),
        memories=(Experiences(start=start),),
        roles=roles,
    )
