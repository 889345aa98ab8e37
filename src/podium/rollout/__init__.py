"""The rollout stage: how rollouts are made."""

from podium.rollout.adaptive import SampleMore
from podium.rollout.continuations import Continuations
from podium.rollout.probes import StepProbes
from podium.rollout.recorded import Recorded
from podium.rollout.sample import Sample
from podium.rollout.windowed import InFlight, ResumeFirst, Windowed

__all__ = ["Continuations", "InFlight", "Recorded", "ResumeFirst", "Sample", "SampleMore", "StepProbes", "Windowed"]
