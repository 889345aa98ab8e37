"""Debate reward: are decisions rewarded for winning debates preferred by a judge, and what does that cost?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from podium.labs.findings import Claim, StudySize
from podium.labs.network_runs import trained_run
from podium.labs.trial import Quantity, Trial, TrialFindings
from podium.methods import get
from podium.policy.choose.chooser import Chooser
from podium.protocols.option_set import encode_set
from podium.report.chart import Series, chart
from podium.tables.justified import debate_bonus, justified_reward
from podium.worlds.debates import ARGUMENTS, argued_set
from podium.worlds.evidence_judge import common_judge
from podium.worlds.patients import ACTIONS, FEATURES, STEPS, Cohort, Numbers, Picks, clinician, treated

__all__ = ["STUDY", "DebateSize", "debated", "three_steps", "weighted_value"]

PREFERRED = Quantity("preferred", "preferred after a debate", (0.0, 1.0))
WHOLE = Quantity("whole", "preferred by a judge who sees all", (0.0, 1.0))
NEARLY_WHOLE = Quantity("nearly", "preferred by a judge who sees all, debates + 0.05")
VALUE = Quantity("value", "value in the simulator")
KEPT = Quantity("kept", "value in the simulator, plain less 0.05")
WEIGHTED = Quantity("weighted", "value by weighted importance")
GAMMA, LOOK, BATCH, RATE, COPIED = 0.99, 3, 256, 1e-3, 100
SOFT = 0.01  # how much of a greedy policy is spread over all doses where records are weighted
LEVEL = 1


class DebateSize(StudySize):
    """How many patients are recorded, how long debaters and policies learn, and on whom they are tried."""

    seeds: int = 6
    patients: int = 3000
    iterations: int = 30  # of the debaters
    updates: int = 1200  # of each policy
    tested: int = 1000


def debated(chooser: Chooser, state: Numbers, first: Picks, second: Picks, begins: Picks) -> Numbers:
    """[decision, feature] what two debaters reveal of each state, each time the likeliest."""
    revealed, every = np.zeros_like(state), np.arange(len(state))
    for turn in range(ARGUMENTS[LEVEL]):
        mine = (turn + begins) % 2 == 0
        own, other = np.where(mine, first, second), np.where(mine, second, first)
        left = 1 - turn / ARGUMENTS[LEVEL]
        rows = zip(state, revealed, own.tolist(), other.tolist(), strict=True)
        contexts = [encode_set(argued_set(x, shown, a, b, left)) for x, shown, a, b in rows]
        with torch.no_grad():
            scored = chooser.scored(contexts)
            picks = scored.row_logp()[scored.of_turn].argmax(-1).cpu().numpy()
        revealed[every, picks] = 1.0
    return revealed


def three_steps(reward: Tensor, gamma: float = GAMMA, look: int = LOOK) -> tuple[Tensor, Tensor]:
    """[patient, step] the discounted rewards of this decision and the next ones, and the number of the state from which
    the value is read; after the last decision that is the last state, which is worth nothing."""
    steps = reward.shape[1]
    summed = torch.zeros_like(reward)
    for ahead in range(look):
        summed[:, : steps - ahead] += gamma**ahead * reward[:, ahead:]
    return summed, torch.clamp(torch.arange(steps) + look, max=steps)


def _network(seed: int) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        hidden = (nn.Linear(len(FEATURES) + 1, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        return nn.Sequential(*hidden, nn.Linear(64, ACTIONS))


def _told(state: Numbers, step: ArrayLike) -> Tensor:
    """What a policy reads: the measurements, and how far the treatment has come."""
    time = np.broadcast_to(np.asarray(step) / STEPS, state.shape[:-1])
    return torch.as_tensor(np.concatenate([state, time[..., None]], -1), dtype=torch.float32)


def _learned(cohort: Cohort, reward: Tensor, updates: int, seed: int) -> nn.Sequential:
    """Double Q-learning over three steps from records alone."""
    draw = np.random.default_rng(seed)
    values, target = _network(seed), _network(seed)
    seen = _told(cohort.state, np.arange(STEPS + 1))
    action, (summed, place) = torch.as_tensor(cohort.action), three_steps(reward.float())
    lasting = (place < STEPS).float() * GAMMA**LOOK
    optimizer = torch.optim.Adam(values.parameters(), lr=RATE)
    for update in range(updates):
        if update % COPIED == 0:
            target.load_state_dict(values.state_dict())
        patient, step = (torch.as_tensor(draw.integers(n, size=BATCH)) for n in (len(seen), STEPS))
        with torch.no_grad():
            after = seen[patient, place[step]]
            best = values(after).argmax(-1, keepdim=True)
            goal = summed[patient, step] + lasting[step] * target(after).gather(1, best)[:, 0]
        found = values(seen[patient, step]).gather(1, action[patient, step][:, None])[:, 0]
        optimizer.zero_grad()
        torch.autograd.backward(nn.functional.smooth_l1_loss(found, goal))
        optimizer.step()
    return values


def _greedy(values: nn.Sequential, state: Numbers, step: ArrayLike) -> Picks:
    with torch.no_grad():
        return np.asarray(values(_told(state, step)).argmax(-1).numpy())


def weighted_value(cohort: Cohort, chosen: Picks) -> float:
    """The value of a policy from records of the clinician's: rewards of each patient, weighted by the ratio of the
    policy's and the clinician's probability of all that was done, over the sum of these weights."""
    p = SOFT / ACTIONS + (1 - SOFT) * (chosen == cohort.action)
    weight = np.exp(np.log(p / cohort.chance).sum(-1))
    return float((weight * cohort.reward.sum(-1)).sum() / weight.sum())


class _Hospital:
    """What the arms of a seed share: records, debaters, and the policy of rewards alone that they are held against."""

    def __init__(self, seed: int, size: DebateSize) -> None:
        self.seed, self.size = seed, size
        self.records, self.others = (
            treated(count, np.random.default_rng((seed, n))) for n, count in enumerate((size.patients, size.tested))
        )
        sizes = {"iterations": size.iterations, "tasks": 32, "level": LEVEL}
        with trained_run(get("debate-reward"), seed, world="evidence", model="podium/chooser", **sizes) as run:
            assert isinstance(run.policy, Chooser)
            self.chooser = run.policy
        reward = torch.as_tensor(self.records.reward)
        self.baseline = self.trained(reward * 15, seed + 1000)

    def trained(self, reward: Tensor, seed: int) -> nn.Sequential:
        return _learned(self.records, reward, self.size.updates, seed)

    def scores(self, state: Numbers, first: Picks, second: Picks, *, whole: bool) -> tuple[Numbers, Numbers]:
        """The judge's scores of two decisions, after a debate or of the whole state."""
        begins = np.random.default_rng((self.seed, 2)).integers(2, size=len(state))
        seen = np.ones_like(state) if whole else debated(self.chooser, state, first, second, begins)
        judge = common_judge()
        return judge(state, seen, first), judge(state, seen, second)

    def bonus(self, whole: bool) -> Tensor:
        """[patient, step] what recorded decisions earn against those of the baseline."""
        state = self.records.state[:, :-1]
        against = _greedy(self.baseline, state, np.arange(STEPS))
        flat = state.reshape(-1, len(FEATURES))
        scores = self.scores(flat, self.records.action.reshape(-1), against.reshape(-1), whole=whole)
        own, other = (torch.as_tensor(x) for x in scores)
        return debate_bonus(own, other).reshape(self.records.action.shape)

    def measured(self, chosen: Picks, policy: Callable[[Numbers], Numbers]) -> dict[str, float]:
        """How often the judge prefers decisions to the baseline's where they differ, and what a policy is worth."""
        states = self.others.state[:, :-1]
        plain = _greedy(self.baseline, states, np.arange(STEPS))
        differ = chosen != plain
        compared = (states[differ], chosen[differ], plain[differ])
        preferred = {
            name: float(np.mean(np.greater(*self.scores(*compared, whole=name == "whole"))))
            for name in ("preferred", "whole")
        }
        value = treated(2 * self.size.tested, np.random.default_rng((self.seed, 3)), policy).reward.sum(-1).mean()
        return {**preferred, "value": float(value)}


_hospital = cache(_Hospital)


def _arm(share: float, whole: bool, seed: int, size: DebateSize) -> Mapping[str, float]:
    """A policy of double Q-learning from records, whose reward is to this share what debates give its decisions; tried
    on other patients against one of rewards alone."""
    shared = _hospital(seed, size)
    reward = justified_reward(torch.as_tensor(shared.records.reward), shared.bonus(whole), share)
    values = shared.trained(reward, seed)
    step = iter(range(STEPS))

    def policy(state: Numbers) -> Numbers:
        return np.asarray(np.eye(ACTIONS)[_greedy(values, state, next(step))])

    chosen = _greedy(values, shared.others.state[:, :-1], np.arange(STEPS))
    found = shared.measured(chosen, policy)
    return {
        **found,
        "nearly": found["whole"] + (0.0 if whole else 0.05),
        "kept": found["value"] - (0.05 if share == 0 else 0.0),
        "weighted": weighted_value(shared.others, chosen),
    }


def _clinician(seed: int, size: DebateSize) -> Mapping[str, float]:
    """The simulated clinician, who recorded the treatments."""
    shared = _hospital(seed, size)
    found = shared.measured(shared.others.action, clinician)
    weighted = float(shared.others.reward.sum(-1).mean())
    return {**found, "nearly": found["whole"], "kept": found["value"], "weighted": weighted}


SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
BY_SHARE = {share: f"debates, λ = {share:g}" if share else "rewards alone" for share in SHARES}
SEES_ALL, RECORDED = "a judge who sees all, λ = 0.5", "the clinician"
HALF, NONE, ONLY = BY_SHARE[0.5], BY_SHARE[0.0], BY_SHARE[1.0]


def _over_shares(findings: TrialFindings) -> str:
    """How often a policy is preferred, and what it is worth, over the share of debates in its reward."""
    series = []
    for reading in (PREFERRED, WHOLE, VALUE, WEIGHTED):
        measured = [m for share in SHARES if (m := findings.measure(reading, BY_SHARE[share])) is not None]
        bounds = ([m.low for m in measured], [m.high for m in measured])
        series.append(Series(findings.label(reading), list(SHARES), [m.mean for m in measured], *bounds))
    return chart("preference and value of the policy", series, x_label="λ, share of debates in the reward")


ARMS: dict[str, Callable[[int, DebateSize], Mapping[str, float]]] = {
    **{name: partial(_arm, share, False) for share, name in BY_SHARE.items()},
    SEES_ALL: partial(_arm, 0.5, True),
    RECORDED: _clinician,
}

STUDY = Trial(
    "debate-reward",
    "Are decisions that are rewarded for winning debates preferred by the judge, and at what cost?",
    arms=ARMS,
    claims=(
        Claim("policies rewarded by debates are preferred more often", PREFERRED, HALF, NONE),
        Claim("at a value that is less than 0.05 lower", KEPT, HALF, NONE),
        Claim("debates are as good as a judge who sees all, within 0.05", NEARLY_WHOLE, HALF, SEES_ALL),
        Claim("debates alone, without rewards, lose value", VALUE, NONE, ONLY),
    ),
    readings=(PREFERRED, WHOLE, VALUE, WEIGHTED, NEARLY_WHOLE, KEPT),
    charts=(_over_shares,),
    size=DebateSize(),
    quick=DebateSize(seeds=3, iterations=6, tested=500),
)
