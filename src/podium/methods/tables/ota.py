"""OTA: values over options."""

from __future__ import annotations

from podium.methods.catalogue import entry

entry(
    __name__,
    summary="Values over options of n steps, each discounted once, which keep the sign of advantages toward far goals.",
    citation="Option-aware Temporally Abstracted Value for Offline Goal-Conditioned Reinforcement Learning, 2025, "
    "https://arxiv.org/abs/2505.12737",
    kind="tool",
    run="podium lab ota",
    tags=("offline rl", "goal-conditioned", "options", "long horizons"),
    notes="""
    An option of n steps ends at the goal or after n steps; its reward is −1 (0 at the goal) and it is discounted
    once: q = r + γ · mask · min(V₁′, V₂′) at its end, regressed by expectiles (τ = 0.7) on both heads. n = 1 is
    HIQL's value.

    The code's (public forks; the home repository was not read): n = 5, γ = 0.99, subgoals 25 steps ahead, half of
    the goals from the walk's own future. The paper's: large gains over HIQL on OGBench. Ours: random mazes and
    walks of a noisy expert, an exact low level so that only the high-level value decides, target copies that move
    ten times as fast for runs of a few thousand updates.

    In training runs `OptionTarget` gives advantages over options of n turns from a critic's values: `podium train
    ppo --world keydoor --with 'OptionTarget: {steps: 3}'`.
    """,
)
