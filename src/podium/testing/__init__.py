"""The battery: every part, ours or yours, passes the same tests.

`podium.testing.check(MyAdvantage())` in a test, or `python -m podium.testing my_file.py:MyAdvantage` in a shell.
"""

from podium.testing.report import BatteryFailed, Report, check, examine, registered_parts
from podium.testing.synthetic import Scene, SceneDraw, synthetic

__all__ = ["BatteryFailed", "SceneDraw", "Report", "Scene", "check", "examine", "registered_parts", "synthetic"]
