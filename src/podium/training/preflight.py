"""Whether a method, a world and a model fit together: what cannot work is refused before anything is sampled."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.method import Method
from podium.policy import Policy
from podium.protocols.world import World, task_of
from podium.training.config import Config
from podium.training.tasks import shuffled

__all__ = ["check_fit", "check_prompts"]


def check_fit(method: Method, world: World, name: str) -> None:
    """Refuse a method that cannot work on a world."""
    findings = [f.message for f in method.check(world.provides) if f.kind == "error"]
    if findings:
        raise PodiumError(f"{method.name} cannot run on {name}: {' '.join(findings)}")


def check_prompts(world: World, policy: Policy, config: Config) -> int:
    """Refuse a world that cannot make its first tasks, or a finite set of them with a prompt that leaves no room to
    answer, before a run gets there; how many tokens the longest prompt has."""
    longest = 0
    needed = {"train": config.iterations * config.tasks, "test": config.eval_tasks}
    for split, count in needed.items():
        size = world.size(split)
        for number in range(min(count, 1 if world.costly or not size else size)):
            place = number if split == "test" or not size else shuffled(number, size, config.seed)
            task = task_of(world, place, split)
            length = len(policy.encode([{"role": "user", "content": task.prompt}]))
            longest = max(longest, length)
            if length >= policy.context_length:
                raise PodiumError(
                    f"The prompt of {task.key} has {length} tokens, which leaves no room to answer in the context of "
                    f"{config.model}, {policy.context_length} tokens. Leave it out, or use another model."
                )
    return longest
