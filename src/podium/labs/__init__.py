"""Labs: the controlled experiments of studies, on embedded worlds, with their figures."""

from podium.labs.findings import Claim, Findings, Study, StudySize
from podium.labs.lab import Lab, LabSize
from podium.labs.reading import Logged, Mean, PassAt, Reading, RunReading, Share
from podium.labs.run_lab import lab
from podium.labs.studies import LABS
from podium.labs.trial import Quantity, Trial

__all__ = [
    "LABS",
    "Claim",
    "Findings",
    "Lab",
    "LabSize",
    "Logged",
    "Mean",
    "PassAt",
    "Quantity",
    "Reading",
    "RunReading",
    "Share",
    "Study",
    "StudySize",
    "Trial",
    "lab",
]
