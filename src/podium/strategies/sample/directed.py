"""A direction told in the prompt: what the answer is to be good at, as weights of the ratings it will get."""

from __future__ import annotations

import dataclasses
import math

from podium.core.columns import Purpose
from podium.core.errors import PodiumError, within
from podium.core.part import Need, Strategy
from podium.core.streams import key, uniforms
from podium.strategies.draw import Draw
from podium.strategies.requests import Plan, Recite, TaskRequest, Wave, rollouts_of

__all__ = ["PAPER_TEXT", "Directed", "prompt_weights", "unit_vector"]

# The system text of the authors' release, for the ratings that they control.
PAPER_TEXT = (
    "You are a helpful, respectful, and honest assistant who always responds to the user in a harmless way. Your "
    "response should maximize weighted rating = helpfulness*{first} + verbosity*{second}\n{question}"
)


def unit_vector(degrees: float) -> tuple[float, float]:
    """(cos φ, sin φ): the direction at an angle from the first rating towards the second."""
    return math.cos(math.radians(degrees)), math.sin(math.radians(degrees))


def prompt_weights(degrees: float) -> tuple[int, int]:
    """The direction in hundredths, as whole numbers; halves are rounded to even."""
    first, second = unit_vector(degrees)
    return round(100 * first), round(100 * second)


class Directed(Strategy):
    """`n` rollouts of each task, all after a prompt that tells a direction: weights of two ratings.

    The angle φ of a group is uniform in [low, high] degrees, and the prompt is `text` with `{first}` = 100 cos φ,
    `{second}` = 100 sin φ and `{question}`. With `styles`, the rollouts are the world's solutions in these styles
    instead, of which the later stages choose. Every rollout has its angle in `rollout.angle`.
    """

    reference = "DPA, https://github.com/RLHFlow/Directional-Preference-Alignment"
    n: int = 16
    low: float = -45.0  # degrees
    high: float = 45.0
    text: str = "weights: {first} {second}\n{question}"
    styles: tuple[str, ...] = ()  # of the world's solutions; empty: rollouts are sampled
    draw: Draw = Draw()

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "low", -180, 180)
        within(self, "high", self.low, 180)
        for name in ("{first}", "{second}", "{question}"):
            if name not in self.text:
                raise PodiumError(f"Directed.text = {self.text!r} does not say where {name} is to stand.")

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("task.solution",) if self.styles else ()

    @property
    def provides(self) -> tuple[str, ...]:
        return ("rollout.angle",)

    def told(self, task: TaskRequest, degrees: float) -> TaskRequest:
        """The task with the direction in its prompt."""
        first, second = prompt_weights(degrees)
        prompt = self.text.format(first=first, second=second, question=task.task.prompt)
        return dataclasses.replace(task, task=dataclasses.replace(task.task, prompt=prompt))

    def plan(self, task: TaskRequest) -> Plan:
        seed, *name = task.stream
        ((u,),) = uniforms([key(seed, (*name, 1))], [0], 1).tolist()
        degrees = self.low + (self.high - self.low) * u
        told, columns = self.told(task, degrees), {"angle": degrees}
        if not self.styles:
            return rollouts_of((yield [self.draw.play(told, self.n, columns=columns)]))
        wave: Wave = [
            Recite(told, style=style, purpose=Purpose.train, index=index, columns=columns, context=self.draw.context)
            for index, style in enumerate(self.styles)
        ]
        return rollouts_of((yield wave))
