"""Worlds: the tasks that models train on, embedded ones and bridges to your own data and to other packages.

Start with `names.py` (worlds by name) and `puzzle.py` (questions with one answer) or `quest.py` (several turns);
`podium.protocols.world` declares the interface, and `check_world` tests a world of your own.
"""

from podium.protocols.context import Context, Full, History, Latest, Rebuild, Window
from podium.protocols.pieces import ModelTokens, Picture, Pieces
from podium.protocols.world import Answer, Episode, Feedback, Task, World
from podium.worlds.badges import Badges
from podium.worlds.calculator import Calculator
from podium.worlds.carry import Carry
from podium.worlds.cases import Cases
from podium.worlds.checker import check_world
from podium.worlds.clarify import Clarify
from podium.worlds.clips import Clips
from podium.worlds.code import Code
from podium.worlds.code_file import CodeFile
from podium.worlds.countdown import Countdown
from podium.worlds.dataset import Dataset
from podium.worlds.digits import Digits
from podium.worlds.echo import Echo
from podium.worlds.graded import Graded, Verdict
from podium.worlds.gym import Gym
from podium.worlds.isolated import isolated
from podium.worlds.jsonl import Jsonl
from podium.worlds.judge import Judged
from podium.worlds.keydoor import KeyDoor
from podium.worlds.lookup import Lookup
from podium.worlds.lookup_folder import LookupFolder
from podium.worlds.mix import Mix
from podium.worlds.names import BRIDGES, EMBEDDED, FORMS, get
from podium.worlds.opinions import Opinions
from podium.worlds.person import play
from podium.worlds.puzzle import Draft, Procedural, Puzzle, Slip
from podium.worlds.quest import Quest
from podium.worlds.rules import Rules
from podium.worlds.scenes import Scenes
from podium.worlds.scienceworld import ScienceWorld
from podium.worlds.sheet import Sheet
from podium.worlds.shop import Shop
from podium.worlds.sorting import Sorting
from podium.worlds.sums import Sums
from podium.worlds.textworld import TextWorld
from podium.worlds.tools import Tools
from podium.worlds.trips import Trips
from podium.worlds.vault import Vault
from podium.worlds.verdicts import Verdicts
from podium.worlds.zoom import Zoom

__all__ = [
    "BRIDGES",
    "EMBEDDED",
    "FORMS",
    "Answer",
    "Cases",
    "Badges",
    "Calculator",
    "Carry",
    "Clarify",
    "Clips",
    "Code",
    "CodeFile",
    "Context",
    "Countdown",
    "Dataset",
    "Digits",
    "Draft",
    "Echo",
    "Episode",
    "Feedback",
    "Full",
    "Graded",
    "Gym",
    "History",
    "Jsonl",
    "Judged",
    "KeyDoor",
    "Latest",
    "Lookup",
    "LookupFolder",
    "Mix",
    "Opinions",
    "Picture",
    "Pieces",
    "Procedural",
    "Puzzle",
    "Quest",
    "Rebuild",
    "Rules",
    "Scenes",
    "ScienceWorld",
    "Sheet",
    "Shop",
    "Slip",
    "Sorting",
    "Sums",
    "Task",
    "TextWorld",
    "ModelTokens",
    "Tools",
    "Trips",
    "Vault",
    "Verdicts",
    "Verdict",
    "Window",
    "World",
    "Zoom",
    "check_world",
    "get",
    "isolated",
    "play",
]
