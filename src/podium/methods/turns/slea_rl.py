"""SLEA-RL: step-level experience-augmented reinforcement learning."""

from __future__ import annotations

from podium.memories.lesson_library import LessonLibrary
from podium.method import Home, Method
from podium.methods._shared import ADAMW
from podium.methods.catalogue import recipe
from podium.methods.turns._shared import penalties, verl_agent
from podium.parts.advantage import GroupInGroup
from podium.strategies import Draw
from podium.strategies.sample.lessons import SampleAdvised

__all__ = ["slea_rl"]


@recipe(
    summary="Retrieves lessons from past rollouts at each step (experience library); GiGPO's credit assignment.",
    citation="SLEA-RL: Step-Level Experience Augmented RL, https://github.com/kingofspace0wzz/slea-rl",
    extends="gigpo",
    tags=("experience library", "agents", "multi-turn", "step-level", "credit assignment"),
    presets={
        "paper": {"invalid": 0.1, "max_turns": 50, "mini_batches": 100},
        "webshop": {"max_turns": 15},
        "search": {"n": 5, "scale": "std", "similarity": 0.9, "kl": 0.001, "max_turns": 4},
        "search-readme": {
            **{"n": 5, "scale": "std", "similarity": 0.9, "kl": 0.001},
            **{"max_turns": 10, "gamma": 0.9, "omega": 0.5},
        },
    },
    protocol=ADAMW.replace(
        model="Qwen3-4B",
        lr=1e-6,
        tasks=16,
        iterations=150,
        max_tokens=512,
        max_turns=50,
        source="slea-rl examples/forge/run_alfworld.sh (ALFWorld)",
    ),
    home=Home("keydoor", level=1, iterations=10, tasks=8),
)
def slea_rl(
    n: int = 8,
    gamma: float = 0.95,
    omega: float = 1.0,
    scale: str = "none",
    similarity: float | None = None,
    library: LessonLibrary | None = LessonLibrary(),
    clip: float = 0.2,
    kl: float = 0.01,
    entropy: float = 0.001,
    invalid: float = 0.01,
    max_turns: int | None = None,
    mini_batches: int = 4,
) -> Method:
    """A = A_episode + omega · A_step as in `gigpo`, on prompts that show at most two lessons and one warning.

    Lessons are tied to the observations at which they were looked up; the library holds 500 of these and forgets the
    least used. `library=None` is `gigpo` with the same settings. The library grows by rules from the best successes and
    the worst failures, never by gradients; in a full level a lesson with a higher score replaces the one with the
    lowest. `LessonLibrary(extractor=…)` puts a model, or rules of your own, in place of the rules, and
    `LessonLibrary(embedder=WordEmbedder())` finds lessons by their meaning instead of by their scores:

        class LastAction(LessonExtractor):
            def from_success(self, actions, outcome, excellent):
                yield Lesson(f"end with {actions[-1]}", "method", outcome)

    The script for search has a step weight of 1, γ 0.95 and 4 turns, the README 0.5, 0.9 and 10
    (`slea-rl@search-readme`). The scripts take one optimiser step per 32 turns; here a batch is split into
    `mini_batches` of whole rollouts.

    Args:
        n: Rollouts per task (the group size).
        gamma: Discount factor per step.
        omega: Weight of the step-level advantage.
        scale: `std` divides both advantages by their std, `none` does not.
        similarity: Least share of matching characters at which two states count as the same; None: equal states.
        library: The memory of lessons; None: no lessons.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip]; dual clip 3.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        entropy: Coefficient of the entropy bonus, which is on by default in this code base.
        invalid: Price of an invalid action. The scripts charge 0.1 where success pays 10, and 0.01 where it pays 1.
        max_turns: Turn limit of an episode; None: the world's.
        mini_batches: Optimiser steps per batch.
    """
    reward, penalty = penalties(invalid)
    advantage = GroupInGroup(gamma=gamma, omega=omega, scale=scale, similarity=similarity, penalty=penalty)
    method = verl_agent(
        advantage,
        n,
        clip=clip,
        kl=kl,
        entropy=entropy,
        mini_batches=mini_batches,
        max_turns=max_turns,
        reward=reward,
    )
    if library is None:
        return method
    return method.with_(rollout=SampleAdvised(n=n, draw=Draw(max_turns=max_turns)), memories=(library,))
