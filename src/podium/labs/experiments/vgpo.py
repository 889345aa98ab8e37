"""VGPO: do values of steps help a flow at equal network evaluations, and are its pictures as good?"""

from __future__ import annotations

from functools import partial

from podium.labs.drawn_pictures import DISTANCE, DIVERSITY, EVALUATIONS, REWARD, DrawnSize, drawn_arm
from podium.labs.findings import Claim
from podium.labs.trial import Trial
from podium.methods import get

__all__ = ["STUDY"]

VALUES, RELATIVE, PLAIN = "values", "values, no absolute term", "flow-grpo"
LONGER = 3  # times the iterations of a size, since pictures are not finished for scores

STUDY = Trial(
    "vgpo",
    "Do values of a flow's steps earn more than one reward per picture, and at what price in quality and diversity?",
    arms={
        VALUES: partial(drawn_arm, get("vgpo"), 1, LONGER),
        RELATIVE: partial(drawn_arm, get("vgpo@relative"), 1, LONGER),
        PLAIN: partial(drawn_arm, get("flow-grpo"), 1, LONGER),
    },
    claims=(
        Claim("values earn more than Flow-GRPO", REWARD, VALUES, PLAIN),
        Claim("the absolute term earns more", REWARD, VALUES, RELATIVE),
        Claim("Flow-GRPO's pictures are farther from real digits", DISTANCE, PLAIN, VALUES),
    ),
    readings=(REWARD, DISTANCE, DIVERSITY, EVALUATIONS),
    size=DrawnSize(),
    quick=DrawnSize(seeds=3, iterations=4, tasks=4, eval_tasks=20),
)
