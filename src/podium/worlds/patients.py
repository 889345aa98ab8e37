"""Simulated patients: twelve measurements that worsen under wrong doses, and a clinician whose records are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ACTIONS",
    "DOSES",
    "FEATURES",
    "STEPS",
    "Cohort",
    "dose_number",
    "admitted",
    "clinician",
    "doses",
    "treated",
]

# What is measured, each as a deviation from normal: above 0 is worse. The first ten respond to treatment.
FEATURES = (
    *("pressure", "pulse", "lactate", "urine", "creatinine", "oxygen"),
    *("breathing", "fever", "white cells", "glucose", "age", "weight"),
)
DOSES = 3  # of fluids and of pressors: none, some, much
ACTIONS = DOSES * DOSES
STEPS = 6  # decisions for a patient
PRESSURE, PULSE, LACTATE, URINE, CREATININE, AGE = 0, 1, 2, 3, 4, 10
HARM = np.array([1.0, 0.5, 1.0, 0.8, 0.9, 0.4, 0.3, 0.2, 0.2, 0.2, 0.0, 0.0])  # of a wrong dose, on each measurement
KEPT, NOISE = 0.85, 0.25  # of a measurement from step to step
CARE = 0.35  # spread of the clinician's doses around what they believe is needed
SHAPING = 0.1  # reward per step for a lower severity
Numbers = NDArray[np.float64]
Picks = NDArray[np.int64]


@dataclass(frozen=True)
class Cohort:
    """Recorded treatments of some patients."""

    state: Numbers  # [patient, step, feature], with the last state after all decisions
    action: Picks  # [patient, step] numbers of the doses
    chance: Numbers  # [patient, step] the clinician's probability of them
    reward: Numbers  # [patient, step] small ones for a lower severity, and 1 or −1 for life or death at the end


def doses(action: Any) -> tuple[Any, Any]:
    """Fluids and pressors of an action by number."""
    return action // DOSES, action % DOSES


def dose_number(fluids: int, pressors: int) -> int:
    """The number of an action."""
    return fluids * DOSES + pressors


def _needed(state: Numbers, *, kidneys: float) -> tuple[Numbers, Numbers]:
    """[…] how much of each a patient needs, where the kidneys count so much: fluids harm those that are weak."""
    x = state
    fluids = 1 + 0.7 * (x[..., LACTATE] + x[..., URINE]) - kidneys * x[..., CREATININE]
    pressors = 1 + 0.8 * x[..., PRESSURE] + 0.4 * x[..., LACTATE] - 0.5 * x[..., PULSE]
    return fluids.clip(0, DOSES - 1), pressors.clip(0, DOSES - 1)


def severity(state: Numbers) -> Numbers:
    """[…] how ill a patient is."""
    return np.asarray(state @ (HARM / HARM.sum()) + 0.15 * state[..., AGE])


def clinician(state: Numbers) -> Numbers:
    """[…, action] the probabilities of the clinician's doses, who underrates weak kidneys."""
    each = []
    for need in _needed(state, kidneys=0.1):
        fit = np.exp(-((np.arange(DOSES) - need[..., None]) ** 2) / (2 * CARE**2))
        each.append((fit + 0.02) / (fit + 0.02).sum(-1, keepdims=True))
    fluids, pressors = each
    return np.asarray((fluids[..., :, None] * pressors[..., None, :]).reshape(*state.shape[:-1], ACTIONS))


def admitted(count: int, draw: np.random.Generator) -> Numbers:
    """[patient, feature] patients as they come in."""
    return draw.normal(0.2, 0.8, (count, len(FEATURES)))


def treated(count: int, draw: np.random.Generator, policy: Any = clinician) -> Cohort:
    """Patients that are treated by a policy, from states to probabilities [patient, action]."""
    x = admitted(count, draw)
    states, actions, chances, rewards = [x], [], [], []
    for step in range(STEPS):
        p = policy(x)
        action = np.minimum((p.cumsum(-1) < draw.random((count, 1))).sum(-1), ACTIONS - 1)
        fluids, pressors = doses(action)
        need_fluids, need_pressors = _needed(x, kidneys=0.8)
        wrong = ((fluids - need_fluids) ** 2 + (pressors - need_pressors) ** 2) / 2
        after = KEPT * x + 0.4 * (wrong - 0.5)[:, None] * HARM + NOISE * draw.normal(size=x.shape)
        after[:, 10:] = x[:, 10:]
        reward = SHAPING * (severity(x) - severity(after))
        if step == STEPS - 1:
            reward = reward + np.where(draw.random(count) < 1 / (1 + np.exp(3 * severity(after))), 1.0, -1.0)
        states.append(after)
        actions.append(action)
        chances.append(np.take_along_axis(p, action[:, None], 1)[:, 0])
        rewards.append(reward)
        x = after
    return Cohort(*(np.stack(column, 1) for column in (states, actions, chances, rewards)))
