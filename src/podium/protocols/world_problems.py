"""Mistakes in what a world answers, after which an episode cannot continue; each as a reason in words."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Mapping
from numbers import Real
from typing import Any

from podium.core.printable import error_text
from podium.protocols.world import Episode, Feedback, World

__all__ = [
    "can_be_written",
    "episode_problem",
    "feedback_problem",
    "opening_problem",
    "raised",
    "scores_problem",
    "unknown_agent",
    "unpaid_agent",
]

LARGEST = 1e30  # absolute value of a reward: sums of larger ones may overflow


def opening_problem(world: World, episode: Any) -> str:
    """Why an episode that a world has opened cannot be played; empty: it can."""
    if not isinstance(episode, Episode) or not isinstance(episode.observation, str):
        return f"the world's reset() gave {episode!r}, not an Episode that says something"
    if not can_be_written(episode.observation):
        return f"the world begins with characters that no encoding knows: {episode.observation[:40]!r}"
    return episode_problem(episode) or unknown_agent(world, episode.agent)


def unknown_agent(world: World, agent: str) -> str:
    """Why this agent cannot act in this world; empty: it can."""
    if agent in (world.agents or ("",)):
        return ""
    names = ", ".join(map(str, world.agents))
    return f"the world lets {agent!r} act, who is none of its agents: {names or 'it names none'}"


def unpaid_agent(world: World, agents: Iterable[str], acted: Container[str]) -> str:
    """Why one of these agents cannot be paid; empty: all of them have acted."""
    for agent in agents:
        if agent not in (world.agents or ("",)):
            names = ", ".join(map(str, world.agents))
            return f"the world pays {agent!r}, who is none of its agents: {names or 'it names none'}"
        if agent not in acted:
            return (
                f"the world pays {agent!r}, who has not acted yet: what an agent earns is booked to its last turn, so "
                "pay it after its first"
            )
    return ""


def raised(error: BaseException) -> str:
    """An error of a world as the reason for a failure."""
    return f"the world raised {error_text(error)}"


def episode_problem(episode: Episode) -> str:
    """Why an episode cannot continue as it is; empty: it can."""
    if not isinstance(episode.state, Hashable):
        return f"the world's state is {episode.state!r}, not text"
    for name, text in (("agent", episode.agent), ("recap", episode.recap)):
        if not isinstance(text, str) or not can_be_written(text):
            return f"the world's {name} is {text!r}, not text"
    return ""


def feedback_problem(feedback: Any) -> str:
    """Why an episode cannot continue with this answer of the world; empty: it can."""
    if not isinstance(feedback, Feedback):
        return f"the world answered {feedback!r}, not a Feedback"
    info = feedback.info
    if not isinstance(feedback.rewards, Mapping):
        return f"the world's rewards are {feedback.rewards!r}, not numbers by agent"
    for name, reward in (("reward", feedback.reward), *((f"reward of {k!r}", v) for k, v in feedback.rewards.items())):
        if isinstance(reward, bool) or not isinstance(reward, Real):
            return f"the world's {name} is {reward!r}, not a number"
        if not abs(reward) <= LARGEST:
            return f"the world's {name} is {reward!r}"
    if not isinstance(info, Mapping) or not isinstance(feedback.observation, str):
        return "the world's observation is not text, or its info no mapping"
    if not isinstance(feedback.state, Hashable):
        return f"the world's state is {feedback.state!r}, not text"
    for name, value, numbers in (
        ("done", feedback.done, ()),
        ("info['valid']", info.get("valid", True), ()),
        ("info['correct']", info.get("correct", False), ("0", "1", "0.0", "1.0", "None")),
    ):
        if str(value) not in ("True", "False", *numbers):  # NumPy's booleans are fine too
            return f"the world's {name} is {value!r}, not True or False"
    texts = {
        **info,
        "answer": str(info.get("answer", "")),
        "observation": feedback.observation,
        "state": feedback.state,
    }
    for name, text in texts.items():
        if isinstance(text, str) and not can_be_written(text):
            return f"the world's {name} has characters that no encoding knows: {text[:40]!r}"
    return ""


def scores_problem(scores: Any, count: int) -> str:
    """Why a judge's answer is not so many scores in [0, 1]; empty: it is."""
    wanted = f"not {count} numbers in [0, 1]" if count > 1 else "not a number in [0, 1]"
    given = tuple(scores) if isinstance(scores, (tuple, list)) else (scores,)
    if len(given) != count or any(
        isinstance(x, bool) or not isinstance(x, Real) or not 0 <= float(x) <= 1 for x in given
    ):
        return f"the judge's verdict is {scores!r}, {wanted}"
    return ""


def can_be_written(text: str) -> bool:
    """Whether a text can be encoded, and so be written to a file."""
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return True
