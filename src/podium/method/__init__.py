"""What a method is: parts, memories and roles as one value; methods in phases; and how they are checked."""

from podium.method.method import LISTS, STAGES, Method, Role
from podium.method.phases import Alternate, Phase, Phases
from podium.method.protocol import DEFAULTS, SCHEDULES, Home, Protocol
from podium.method.until import Iterations, Plateau, Reached, Until

__all__ = [
    "DEFAULTS",
    "LISTS",
    "SCHEDULES",
    "STAGES",
    "Alternate",
    "Home",
    "Iterations",
    "Method",
    "Phase",
    "Phases",
    "Plateau",
    "Protocol",
    "Reached",
    "Role",
    "Until",
]
