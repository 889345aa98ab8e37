"""Offline control from data of mixed quality: TD3, TD3+BC and A2PR, on a pendulum and in a field with a wall."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from podium.labs.charts import traced
from podium.labs.findings import Claim, StudySize
from podium.labs.people import optional_package
from podium.labs.trial import Quantity, Trial
from podium.tables.better_action import actor_loss, better_action, filtered

__all__ = ["STUDY", "ControlSize", "OfflineData", "offline_actor"]

Floats = NDArray[np.float64]
WIDTH, BATCH, GAMMA, DELAY = 64, 256, 0.99, 2
RATE, TAU = 1e-3, 0.01  # above the papers', 3e-4 and 0.005, which are for a million updates
NOISE, NOISE_CLIP, ALPHA = 0.2, 0.5, 2.5
QUALITIES = (0.0, 0.5, 1.0)  # how often the good controller acts, in thirds of the data
RETURN = Quantity("score", "share of the good controller's return")


class ControlSize(StudySize):
    """How many episodes of data, updates, and episodes of the trained policy."""

    episodes: int = 60
    updates: int = 3000
    tested: int = 8


@dataclass(frozen=True)
class OfflineData:
    """Offline data: states are standardised, actions are in [−1, 1]."""

    state: Tensor
    action: Tensor
    reward: Tensor
    following: Tensor
    going: Tensor  # 0 where the episode ended at its goal


class Pendulum:
    """gymnasium's Pendulum-v1: swing up and hold."""

    steps = 200

    def __init__(self) -> None:
        self.env = optional_package("gymnasium", "podium lab a2pr").make("Pendulum-v1")

    def reset(self, seed: int) -> Floats:
        return np.asarray(self.env.reset(seed=seed)[0], dtype=float)

    def step(self, action: Floats) -> tuple[Floats, float, bool]:
        state, reward, _, _, _ = self.env.step(2.0 * np.clip(action, -1, 1))
        return np.asarray(state, dtype=float), float(reward) / 10, False

    def good(self, state: Floats) -> Floats:
        """Pump energy while hanging, and hold near the top."""
        cosine, sine, speed = state
        angle = np.arctan2(sine, cosine)
        if cosine > 0.7:
            return np.clip(np.array([-(8.0 * angle + 1.5 * speed) / 2]), -1, 1)
        energy = speed**2 / 6 + 5.0 * (cosine - 1.0)  # of a rod of mass and length 1; 0 at rest on top
        return np.array([1.0 if energy * speed < 0 else -1.0]) if abs(speed) > 1e-3 else np.array([1.0])


class Field:
    """A square with a wall that leaves a gap on one side: go from the left to the right. Each step costs 0.05, and the
    goal earns 1."""

    steps = 80

    def __init__(self) -> None:
        self.place = np.zeros(2)

    def reset(self, seed: int) -> Floats:
        draw = np.random.default_rng(seed)
        self.place = np.array([-0.8, draw.uniform(-0.8, 0.8)])
        return self.place.copy()

    def step(self, action: Floats) -> tuple[Floats, float, bool]:
        new = np.clip(self.place + 0.08 * np.clip(action, -1, 1), -1, 1)
        if self.place[0] < 0 <= new[0] and new[1] < 0.5:
            new[0] = -0.02  # the wall
        self.place = new
        arrived = bool(np.linalg.norm(new - np.array([0.8, 0.0])) < 0.12)
        return new.copy(), 1.0 if arrived else -0.05, arrived

    def good(self, state: Floats) -> Floats:
        target = np.array([0.8, 0.0]) if state[0] >= 0 else np.array([0.1, 0.75])
        way = target - state
        return np.clip(way / max(float(np.abs(way).max()), 1e-6), -1, 1)


Control = Pendulum | Field


def _episode(world: Control, act: Callable[[Floats], Floats], seed: int) -> tuple[list[Any], float]:
    """What happened, and the return."""
    state, rows, total = world.reset(seed), [], 0.0
    for _ in range(world.steps):
        action = act(state)
        following, reward, done = world.step(action)
        rows.append((state, action, reward, following, 0.0 if done else 1.0))
        state, total = following, total + reward
        if done:
            break
    return rows, total


@lru_cache(maxsize=2)
def _data(make: Callable[[], Control], seed: int, episodes: int) -> tuple[OfflineData, Tensor, Tensor]:
    """Thirds of random, half-good and good control, with noise; and the mean and scale of states."""
    world, rows = make(), []
    for episode in range(episodes):
        draw, quality = np.random.default_rng((seed, episode)), QUALITIES[episode % len(QUALITIES)]

        def act(state: Floats, draw: np.random.Generator = draw, quality: float = quality) -> Floats:
            good = world.good(state)
            drawn = good if draw.random() < quality else draw.uniform(-1, 1, good.shape)
            return np.clip(drawn + 0.1 * draw.standard_normal(good.shape), -1, 1)

        rows += _episode(world, act, 1000 * seed + episode)[0]
    state, action, reward, following, going = (torch.tensor(np.array(x)).float() for x in zip(*rows, strict=True))
    mean, scale = state.mean(0), state.std(0) + 1e-3
    made = OfflineData((state - mean) / scale, action, reward, (following - mean) / scale, going)
    return made, mean, scale


def _net(inputs: int, outputs: int, bounded: bool = False) -> nn.Sequential:
    layers = [nn.Linear(inputs, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, outputs)]
    return nn.Sequential(*layers, *([nn.Tanh()] if bounded else []))


class _Imitator(nn.Module):
    """A variational autoencoder of actions given states."""

    def __init__(self, states: int, actions: int) -> None:
        super().__init__()
        self.latent = 2 * actions
        self.encoder = _net(states + actions, 2 * self.latent)
        self.decoder = _net(states + self.latent, actions, bounded=True)

    def forward(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """A reconstruction, and the divergence of the latent from a standard normal, averaged over its entries."""
        mean, log_std = self.encoder(torch.cat([state, action], -1)).chunk(2, -1)
        log_std = log_std.clamp(-4, 4)
        drawn = mean + log_std.exp() * torch.randn_like(mean)
        divergence = -0.5 * (1 + 2 * log_std - mean**2 - (2 * log_std).exp()).mean()
        return self.decoder(torch.cat([state, drawn], -1)), divergence


def offline_actor(data: OfflineData, how: str, updates: int, seed: int, gate: bool = True) -> nn.Module:
    """`how` is td3 (no imitation), td3_bc (imitates the data) or a2pr (imitates the better of the data's action and the
    autoencoder's, where one is better than the value). Without `gate` A2PR imitates the data everywhere."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        states, actions = data.state.shape[1], data.action.shape[1]
        actor, slow_actor = _net(states, actions, bounded=True), _net(states, actions, bounded=True)
        critics, slow = ([_net(states + actions, 1) for _ in range(2)] for _ in range(2))
        slow_actor.load_state_dict(actor.state_dict())
        for mine, theirs in zip(slow, critics, strict=True):
            mine.load_state_dict(theirs.state_dict())
        actor_step = torch.optim.Adam(actor.parameters(), lr=RATE)
        critic_step = torch.optim.Adam([p for c in critics for p in c.parameters()], lr=RATE)
        draw = torch.Generator().manual_seed(seed)  # of batches and of the target's noise: the same in every arm
        value, imitator = _net(states, 1), _Imitator(states, actions)
        value_step = torch.optim.Adam(value.parameters(), lr=RATE)
        imitator_step = torch.optim.Adam(imitator.parameters(), lr=RATE)
        for update in range(updates):
            rows = torch.randint(len(data.state), (BATCH,), generator=draw)
            s, a, r, s2, going = (x[rows] for x in (data.state, data.action, data.reward, data.following, data.going))
            with torch.no_grad():
                noise = (NOISE * torch.randn(a.shape, generator=draw)).clamp(-NOISE_CLIP, NOISE_CLIP)
                after = torch.cat([s2, (slow_actor(s2) + noise).clamp(-1, 1)], -1)
                target = r + GAMMA * going * torch.minimum(*(c(after)[:, 0] for c in slow))
                current = r + GAMMA * going * torch.minimum(*(c(after)[:, 0] for c in critics))
            pair = torch.cat([s, a], -1)
            critic_step.zero_grad()
            torch.autograd.backward(sum((c(pair)[:, 0] - target).square().mean() for c in critics))
            critic_step.step()
            if how == "a2pr":
                value_step.zero_grad()
                torch.autograd.backward((value(s)[:, 0] - torch.minimum(current, target)).square().mean())
                value_step.step()
                with torch.no_grad():
                    better = filtered(critics[0](pair)[:, 0], value(s)[:, 0])
                again, divergence = imitator(s, a)
                imitator_step.zero_grad()
                torch.autograd.backward(((again - a) ** 2 * better[:, None]).mean() + 0.5 * divergence)
                imitator_step.step()
            if update % DELAY == 0:
                chosen = actor(s)
                q = critics[0](torch.cat([s, chosen], -1))[:, 0]
                weight, goal = torch.full_like(q, 0.0 if how == "td3" else 1.0), a
                if how == "a2pr" and gate:
                    candidate, _ = imitator(s, chosen)
                    with torch.no_grad():
                        of_data, of_candidate = (critics[0](torch.cat([s, x], -1))[:, 0] for x in (a, candidate))
                        v = value(s)[:, 0]
                    goal, weight = better_action(of_data, of_candidate, v, a, candidate)
                actor_step.zero_grad()
                torch.autograd.backward(actor_loss(q, chosen, goal, weight, ALPHA).total)
                actor_step.step()
                with torch.no_grad():
                    for mine, theirs in zip([slow_actor, *slow], [actor, *critics], strict=True):
                        for x, y in zip(mine.parameters(), theirs.parameters(), strict=True):
                            x.lerp_(y, TAU)
    return actor


def _arm(make: Callable[[], Control], how: str, seed: int, size: ControlSize) -> Mapping[str, Any]:
    """Trained on the mixed data and played; scores are 0 for the random controller and 1 for the good one."""
    data, mean, scale = _data(make, seed, size.episodes)
    actor = offline_actor(data, how, size.updates, seed)
    world, draw = make(), np.random.default_rng((seed, 7))

    def trained(state: Floats) -> Floats:
        with torch.no_grad():
            return actor((torch.tensor(state).float() - mean) / scale).double().numpy()

    def random(state: Floats) -> Floats:
        return draw.uniform(-1, 1, data.action.shape[1])

    played, low, high = (
        np.array([_episode(world, act, 10**6 + 100 * seed + n)[1] for n in range(size.tested)])
        for act in (trained, random, world.good)
    )
    score = (played - low.mean()) / (high.mean() - low.mean())
    return {"score": score, "episode": np.arange(1.0, size.tested + 1), "curve": np.sort(score)}


STUDY = Trial(
    "a2pr",
    "Does imitating the better of two actions help on data of mixed quality?",
    arms={
        f"{place}, {name}": partial(_arm, make, how)
        for place, make in (("pendulum", Pendulum), ("field", Field))
        for name, how in (("TD3", "td3"), ("TD3+BC", "td3_bc"), ("A2PR", "a2pr"))
    },
    claims=(
        Claim("on the pendulum A2PR is above TD3+BC", RETURN, "pendulum, A2PR", "pendulum, TD3+BC"),
        Claim("in the field A2PR is above TD3+BC", RETURN, "field, A2PR", "field, TD3+BC"),
        Claim("in the field TD3+BC is above TD3", RETURN, "field, TD3+BC", "field, TD3"),
    ),
    readings=(RETURN,),
    charts=(traced("curve", over="episode", title="scores of episodes, sorted", x_label="episode"),),
    size=ControlSize(seeds=4),
    quick=ControlSize(seeds=2, episodes=24, updates=400, tested=4),
)
