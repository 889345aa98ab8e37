"""A2PR: imitate the better of two actions."""

from __future__ import annotations

from podium.methods.catalogue import entry

entry(
    __name__,
    summary="Offline control that imitates the better of the data's action and a generative model's, if it beats "
    "the value.",
    citation="Adaptive Advantage-Guided Policy Regularization for Offline Reinforcement Learning, ICML 2024, "
    "https://arxiv.org/abs/2405.19909, code: https://github.com/ltlhuuu/A2PR",
    kind="tool",
    run="podium lab a2pr",
    tags=("offline rl", "behaviour cloning", "advantage filter"),
    notes="""
    The actor's loss is −λ · mean Q(s, π(s)) + mean((π(s) − a*)² · w), λ = α / mean |Q|. a* is the autoencoder's
    action if its advantage is at least that of the data's, else the data's; w is 1 where either beats the value.
    With w = 0 it is TD3, with the data's action and w = 1 TD3+BC, number for number.

    The code's: a* keeps its gradient, masks are 0 or 1, the autoencoder sees only pairs with Q > V. The paper's:
    best on D4RL among policy regularisation, by a larger margin on mixed data. Ours: gymnasium's Pendulum-v1 and a
    field with a wall, with data of three controllers, since D4RL must be downloaded; networks of width 64 and a few
    thousand updates.
    """,
)
