"""What a reward model is fitted to: pairs (Bradley-Terry), ratings (regression), or feedback of 0 and 1."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from podium.analysis.reward_accuracy import pair_accuracy, r_squared
from podium.core.errors import PodiumError
from podium.evaluation.resample import Measure
from podium.parts.objective.feedback import (
    LEAST,
    check_noise,
    doubly_robust,
    imputed_loss,
    inverse_propensity,
    label_loss,
    noise_corrected,
    noise_rates,
)
from podium.parts.objective.preference import preference_loss
from podium.policy.roles.critic import ValueHeads
from podium.sessions.reward_data import RewardData, held_out_answers
from podium.worlds.graded import hashed_uniform

__all__ = ["FeedbackGoal", "Goal", "PairGoal", "RatingGoal"]

FEWEST = 10  # pairs or answers to train on, and to measure with
FIRST_STEPS, FIRST_RATE = 200, 2e-3  # of the networks that predict who reacts, and how
Item = tuple[int, ...]  # the numbers of the answers whose scores enter one loss
Scores = Callable[[Sequence[int]], Tensor]  # [answer, head]


@dataclass
class Goal:
    """Losses of items, and measures on held-out ones."""

    data: RewardData
    held_out: float
    train: list[Item] = field(default_factory=list)
    test: list[Item] = field(default_factory=list)

    def _divide(self, items: Sequence[Item], what: str) -> None:
        """Divide items into those to train on and those of held-out prompts."""
        chosen = held_out_answers(self.data, self.held_out)
        self.train = [item for item in items if not chosen[item[0]]]
        self.test = [item for item in items if chosen[item[0]]]
        if len(self.train) < FEWEST or len(self.test) < 2:
            raise PodiumError(
                f"{self.data.source} has {len(self.train)} {what} to train on and {len(self.test)} of held-out "
                f"prompts: too few to fit a reward model. Give at least {FEWEST} and 2."
            )

    def _prompts(self) -> list[object]:
        return [self.data.answers[item[0]].messages for item in self.test]

    def losses(self, items: Sequence[Item], scores: Scores) -> Tensor:
        """[item] whose mean over all items is minimised."""
        raise NotImplementedError

    def stepped(self) -> None:
        """The model has taken an optimiser step."""

    def finish(self, head: nn.Module) -> None:
        """Change the head so that its values are in the unit of the data."""

    def measures(self, scores: Scores) -> dict[str, Measure]:
        """What held-out items say of the model, by name."""
        raise NotImplementedError


@dataclass
class PairGoal(Goal):
    """−log σ(s_better − s_worse)."""

    def __post_init__(self) -> None:
        pairs = self.data.ranked()
        if not pairs:
            raise PodiumError(
                f"{self.data.source} has no pairs: no two different answers to one prompt of which one is rated higher."
            )
        self._divide(pairs, "pairs")

    def _sides(self, items: Sequence[Item], scores: Scores) -> tuple[Tensor, Tensor]:
        better, worse = scores([n for side in zip(*items, strict=True) for n in side]).squeeze(-1).chunk(2)
        return better, worse

    def losses(self, items: Sequence[Item], scores: Scores) -> Tensor:
        return preference_loss(*self._sides(items, scores))

    def measures(self, scores: Scores) -> dict[str, Measure]:
        better, worse = self._sides(self.test, scores)
        return {"pair accuracy": pair_accuracy(better.cpu(), worse.cpu(), self._prompts())}


@dataclass
class RatingGoal(Goal):
    """The squared error to each rating, divided by its spread; what was not rated does not count."""

    def __post_init__(self) -> None:
        if not self.data.names:
            raise PodiumError(f"{self.data.source} has no ratings: fit pairs to it (--estimator bt), or add ratings.")
        self._divide([(n,) for n in range(len(self.data.answers))], "answers")
        self.ratings = torch.tensor([answer.ratings for answer in self.data.answers])
        known = self.ratings[[n for (n,) in self.train]]
        self.shift = known.nanmean(0)
        self.scale = (known - self.shift).square().nanmean(0).sqrt()
        for name, scale in zip(self.data.names, self.scale.tolist(), strict=True):
            if not scale > 0:
                raise PodiumError(
                    f"{self.data.source}: all known values of {name!r} are equal, so there is nothing to predict."
                )

    def losses(self, items: Sequence[Item], scores: Scores) -> Tensor:
        numbers = [n for (n,) in items]
        value = scores(numbers)
        truth = ((self.ratings[numbers] - self.shift) / self.scale).to(value)
        return (value - truth.nan_to_num()).square().where(~truth.isnan(), 0).sum(-1)

    def finish(self, head: nn.Module) -> None:
        from podium import policy as policies

        policies.rescale(head, self.scale, self.shift)

    def measures(self, scores: Scores) -> dict[str, Measure]:
        numbers = [n for (n,) in self.test]
        value, truth, prompts = scores(numbers).cpu(), self.ratings[numbers], self._prompts()
        found = {}
        for head, name in enumerate(self.data.names):
            rated = ~truth[:, head].isnan()
            named = [prompt for prompt, yes in zip(prompts, rated.tolist(), strict=True) if yes]
            if len(named) > 1:
                found[f"R² of {name}"] = r_squared(value[rated, head], truth[rated, head], named)
        return found


@dataclass
class FeedbackGoal(Goal):
    """Squared error of σ(score) to feedback, corrected for errors (surrogate), for who reacts (ips), and both with
    imputed losses (dr); naive is neither."""

    estimator: str = "dr"
    states: Tensor = field(default_factory=lambda: torch.zeros(0))  # [answer, width] of the model before training
    noise: tuple[float, float] | None = None  # (rho_01, rho_10); None: estimated by anchors

    def __post_init__(self) -> None:
        answers = self.data.answers
        if not any(answer.observed for answer in answers):
            raise PodiumError(
                f"{self.data.source} has no feedback: add a field `feedback` (0, 1 or null), or simulate some with "
                "podium rewards observe."
            )
        every = self.estimator in ("ips", "dr")  # others see only what users reacted to
        self._divide([(n,) for n, answer in enumerate(answers) if every or answer.observed], "answers")
        reactions = sum(answers[n].observed for (n,) in self.train)
        if reactions < FEWEST:
            raise PodiumError(
                f"{self.data.source} has feedback on {reactions} of the answers to train on: too few to fit a reward "
                f"model. At least {FEWEST} are needed."
            )
        device = self.states.device
        self.feedback = torch.tensor([answer.feedback for answer in answers], device=device).nan_to_num()
        self.observed = torch.tensor([answer.observed for answer in answers], device=device)
        rows = torch.tensor([n for (n,) in self.train], device=device)
        weight = torch.ones_like(self.feedback)
        self.propensity = weight
        if every:
            reacts = self._predicted(rows, self.observed.float(), weight)
            self.propensity = reacts.clamp(min=LEAST)
        if self.estimator == "naive":
            self.noise = (0.0, 0.0)
        elif self.noise is None:
            proxy = self._predicted(rows, self.feedback, self.observed / self.propensity)
            self.noise = noise_rates(proxy[rows])
            if sum(self.noise) >= 1:
                raise PodiumError(
                    "{}: the noise rates are estimated as {:.2f} and {:.2f}, as if feedback said nothing of the true "
                    "label. Give the rates that you know (--noise .2,.1), or more feedback.".format(
                        self.data.source, *self.noise
                    )
                )
        check_noise(*self.noise)
        self.imputer = ValueHeads(self.states.shape[-1], 1).to(device)
        self.optimizer = torch.optim.Adam(self.imputer.parameters(), lr=FIRST_RATE)

    def _predicted(self, rows: Tensor, target: Tensor, weight: Tensor) -> Tensor:
        """[answer] the σ of small networks on the states, fitted by weighted squared error.

        Prompts are divided into halves. A network learns from the `rows` of one half, stops where it is best on the
        other one, and predicts that; so what it has memorised does not count.
        """
        first = torch.tensor([hashed_uniform("half", a.messages) < 0.5 for a in self.data.answers], device=rows.device)
        predicted = torch.zeros_like(target)
        for half in (first, ~first):
            predicted[~half] = self._of_other_half(rows[half[rows]], rows[~half[rows]], target, weight)[~half]
        return predicted

    def _of_other_half(self, fitted: Tensor, watched: Tensor, target: Tensor, weight: Tensor) -> Tensor:
        network = ValueHeads(self.states.shape[-1], 1).to(self.states.device)
        optimizer = torch.optim.Adam(network.parameters(), lr=FIRST_RATE)
        best, kept = math.inf, torch.zeros_like(target)
        for _ in range(FIRST_STEPS):
            guess = network(self.states).squeeze(-1).sigmoid()
            losses = weight * label_loss(guess, target)
            error = float(losses[watched].mean().detach())
            if error < best:
                best, kept = error, guess.detach()
            optimizer.zero_grad()
            losses[fitted].mean().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        return kept

    def losses(self, items: Sequence[Item], scores: Scores) -> Tensor:
        numbers = [n for (n,) in items]
        f = scores(numbers).squeeze(-1).sigmoid()
        assert self.noise is not None
        r, o, p = self.feedback[numbers], self.observed[numbers], self.propensity[numbers]
        loss = noise_corrected(f, r, *self.noise)
        if self.estimator != "dr":
            return inverse_propensity(loss, o, p)
        q = self.imputer(self.states[numbers]).squeeze(-1).sigmoid()
        # The imputation is fitted to the losses of today's model, weighted as they are; neither trains the other.
        miss = inverse_propensity((imputed_loss(f.detach(), q) - loss.detach()).square(), o, p)
        return doubly_robust(loss, o, p, imputed_loss(f, q.detach())) + (miss if miss.requires_grad else 0)

    def stepped(self) -> None:
        self.optimizer.step()
        self.optimizer.zero_grad()

    def measures(self, scores: Scores) -> dict[str, Measure]:
        """R² to the true labels where they are known, else to the feedback of those who reacted."""
        numbers = [n for (n,) in self.test]
        f, answers = scores(numbers).squeeze(-1).sigmoid().cpu(), [self.data.answers[n] for n in numbers]
        known = not any(math.isnan(answer.label) for answer in answers)
        truth = torch.tensor([answer.label if known else answer.feedback for answer in answers])
        rated = ~truth.isnan()
        prompts = [prompt for prompt, yes in zip(self._prompts(), rated.tolist(), strict=True) if yes]
        return {f"R² of {'labels' if known else 'feedback'}": r_squared(f[rated], truth[rated], prompts)}
