"""What is wrong with a run, by its metrics: each rule names what was seen, why it matters, and the remedy."""

from podium.analysis.health.course import Course, Machine, RunSetting
from podium.analysis.health.diagnose import RULES, diagnose, diagnose_seeds
from podium.analysis.health.rule import Diagnosis, Rule

__all__ = ["RULES", "Course", "Diagnosis", "Machine", "Rule", "RunSetting", "diagnose", "diagnose_seeds"]
