"""TP-GRPO: do scores of finished pictures pay, once the evaluations that they cost are counted?"""

from __future__ import annotations

from functools import partial

from podium.labs.drawn_pictures import DISTANCE, DIVERSITY, EVALUATIONS, REWARD, DrawnSize, drawn_arm
from podium.labs.findings import Claim
from podium.labs.trial import Trial
from podium.methods import get

__all__ = ["STUDY"]

# A picture takes 10 evaluations, and 55 if it is also finished from before each of its steps.
MORE = 5.5
TURNING, GAINS, WIDE, LONG = "turning points", "increments", "flow-grpo, larger batches", "flow-grpo, more iterations"
PLAIN = get("flow-grpo", clip=3e-4, kl=1e-5)  # with the clip range and the KL of tp-grpo

STUDY = Trial(
    "tp-grpo",
    "At equal network evaluations, do step rewards and turning points train a flow better than one reward per picture?",
    arms={
        TURNING: partial(drawn_arm, get("tp-grpo"), 1, 1),
        GAINS: partial(drawn_arm, get("tp-grpo@increments"), 1, 1),
        WIDE: partial(drawn_arm, PLAIN, MORE, 1),
        LONG: partial(drawn_arm, PLAIN, 1, MORE),
    },
    claims=(
        Claim("turning points earn more than Flow-GRPO with larger batches", REWARD, TURNING, WIDE),
        Claim("turning points earn more than Flow-GRPO with more iterations", REWARD, TURNING, LONG),
        Claim("turning points earn more than increments alone", REWARD, TURNING, GAINS),
        Claim("Flow-GRPO with more iterations is farther from real digits", DISTANCE, LONG, TURNING),
    ),
    readings=(REWARD, DISTANCE, DIVERSITY, EVALUATIONS),
    size=DrawnSize(),
    quick=DrawnSize(seeds=3, iterations=4, tasks=4, eval_tasks=20),
)
