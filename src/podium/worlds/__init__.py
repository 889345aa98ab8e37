"""Worlds: tasks to train on, embedded ones and bridges to a person's own data and other packages."""

from podium.worlds.checker import check
from podium.worlds.countdown import Countdown
from podium.worlds.echo import Echo
from podium.worlds.graded import Graded, Verdict
from podium.worlds.gym import Gym
from podium.worlds.jsonl import Jsonl
from podium.worlds.names import EMBEDDED, FORMS, get
from podium.worlds.person import play
from podium.worlds.puzzle import Draft, Puzzle, Slip
from podium.worlds.rules import Rules
from podium.worlds.sums import Sums
from podium.worlds.world import Answer, Episode, Feedback, Task, World

__all__ = [
    "EMBEDDED",
    "FORMS",
    "Answer",
    "Countdown",
    "Draft",
    "Echo",
    "Episode",
    "Feedback",
    "Graded",
    "Gym",
    "Jsonl",
    "Puzzle",
    "Rules",
    "Slip",
    "Sums",
    "Task",
    "Verdict",
    "World",
    "check",
    "get",
    "play",
]
