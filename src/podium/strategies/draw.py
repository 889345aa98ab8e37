"""How rollouts are drawn: the distribution of each token, the limits of an episode, and the context of each turn."""

from __future__ import annotations

from typing import Any

from podium.core.errors import PodiumError, within
from podium.core.schedule import Number
from podium.core.signal import Signal
from podium.core.value import Value
from podium.protocols.context import Context, Full
from podium.protocols.format import Format
from podium.protocols.grammar import Grammar
from podium.protocols.sampling import Sampling, Warmth
from podium.protocols.seats import Seat
from podium.strategies.requests import Play, TaskRequest

__all__ = ["Draw", "refuse_settings"]


class Draw(Value):
    """How each rollout of a strategy is drawn: by default from the model's own distribution, as the world has it.

    Truncation (top_p, top_k, min_p) and a grammar decide which tokens can be drawn. The sampler records them, and every
    model scores a token within the set it was drawn from: with no drift of the policy, every importance ratio is 1. A
    warmth changes the temperature alone: the objective remains that of softmax(logits / temperature), in whose terms
    the sampler's log-probabilities are restated where a part reads them.
    """

    temperature: Number = 1.0  # above 0
    top_p: Number = 1.0  # nucleus sampling: the probability mass of the likeliest tokens that is kept; 1: all
    top_k: int = 0  # how many of the likeliest tokens are kept; 0: all
    min_p: Number = 0.0  # tokens less likely than this share of the likeliest are dropped; 0: none
    grammar: Grammar | None = None  # which tokens may come next; None: all
    warmth: Warmth | None = None  # lets the temperature follow the entropy of each token
    token_share: Number = 1.0  # the share of the run's token limit that a turn may take
    max_turns: int | None = None  # of an episode; None: the world's limit
    context: Context | None = None  # what each turn is sampled after: Full(), Window(2), …; None: the world's
    train_context: Context | None = None  # what each turn is trained after; None: the same
    format: Format | None = None  # how turns are asked for and read, and demonstrations written; None: plain text
    seats: tuple[Seat, ...] = ()  # who plays an agent of a world with several, where it is not the policy

    def __post_init__(self) -> None:
        within(self, "temperature", 0, open_low=True)
        within(self, "top_p", 0, 1, open_low=True)
        within(self, "top_k", 0)
        within(self, "min_p", 0, 1)
        within(self, "token_share", 0, 1, open_low=True)
        within(self, "max_turns", 1, optional=True)
        taken = [seat.agent for seat in self.seats]
        if len(set(taken)) < len(taken):
            raise PodiumError(f"Draw.seats name an agent twice: {', '.join(taken)}. Give each agent one seat.")

    @property
    def shift(self) -> Signal | None:
        """log π − log μ of a token, where it is drawn at another temperature, from μ, than the one that the trainer
        scores it at, under π; None where it is not."""
        if self.warmth is None:
            return None
        strength, pivot, above, below = self.warmth.numbers()
        return Signal("draw_shift", of="old", strength=strength, pivot=pivot, above=above, below=below)

    @property
    def restricts(self) -> bool:
        """Whether some tokens cannot be drawn at some place."""
        # A schedule may restrict later: what is scheduled counts as restricting.
        whole = self.top_k == 0 and self.top_p == 1 and self.min_p == 0
        return not whole or self.grammar is not None

    def sampling(self, default: Sampling) -> Sampling:
        """How a sampler is to draw tokens, within the run's limits."""
        return default.replace(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            grammar=self.grammar,
            warmth=self.warmth,
            max_tokens=max(int(self.token_share * default.max_tokens), 1),
        )

    def context_of(self, task: TaskRequest) -> Context:
        """What turns are sampled after unless a strategy adds to it: this context, or else the world's."""
        if self.context is not None:
            return self.context
        return Full() if task.world is None else task.world.context

    def play(self, task: TaskRequest, n: int = 1, **settings: Any) -> Play:
        """A request for `n` rollouts of a task, drawn like this except for the given settings of `Play`."""
        drawn = {
            "sampling": self.sampling(task.sampling),
            "max_turns": self.max_turns,
            "context": self.context,
            "train_context": self.train_context,
            "seats": self.seats,
        }
        return Play(task, n, **{**drawn, **settings})


def refuse_settings(strategy: Value, draw: Draw, *names: str) -> None:
    """Refuse settings of a draw that a strategy decides for itself."""
    for name in names:
        if getattr(draw, name) is not None:
            raise PodiumError(f"{type(strategy).__name__} decides on {name} itself: leave draw.{name} out.")
