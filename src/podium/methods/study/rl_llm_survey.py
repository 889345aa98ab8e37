"""A survey of reinforcement learning for language models, as a list of what the catalogue covers."""

from __future__ import annotations

from podium.methods.catalogue import entry

entry(
    __name__,
    summary="A survey's axes as a coverage table: feedback, reward model, optimiser, each with a command.",
    citation="A Technical Survey of Reinforcement Learning Techniques for Large Language Models, 2025, "
    "https://arxiv.org/abs/2507.04136",
    kind="reading",
    run="podium methods coverage",
    tags=("survey", "overview", "taxonomy"),
    notes="""
    Three axes place every method:

    - feedback: human preference (RLHF), model preference (RLAIF), a verifier (RLVR), process rewards, tools and
      environments;
    - reward model: an explicit scalar (Bradley–Terry), implicit in the policy (DPO), a rule, a judge;
    - optimiser: PPO with a critic, critic-free baselines (GRPO, RLOO), offline pairwise losses (DPO, IPO, KTO),
      rejection sampling and imitation, Q-learning and actor-critic.

    `podium methods coverage` counts the methods of each and names a command; the tags are read off a method\'s parts
    (`podium methods show SLUG` prints them). Formulas that all of these share: KL to a reference with
    d = log π_ref − log π is estimated by k1 = −d, k2 = d²/2, k3 = e^d − d − 1; DPO is −log σ(β · difference of
    log-ratios), which is ln 2 where both policies are equal; a reward model is fitted by −log σ(R⁺ − R⁻).
    """,
)
