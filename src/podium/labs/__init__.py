"""Labs: the controlled experiments of studies, on embedded worlds, with their figures."""

from podium.labs.lab import Claim, Findings, Lab, LabSize
from podium.labs.reading import Logged, Mean, PassAt, Reading, Share
from podium.labs.run_lab import lab
from podium.labs.studies import LABS

__all__ = ["LABS", "Claim", "Findings", "Lab", "Logged", "Mean", "PassAt", "Reading", "Share", "LabSize", "lab"]
