"""The battery: every part, ours or yours, passes the same tests. See `check`.

    podium.testing.check(MyAdvantage())
    python -m podium.testing my_file.py:MyAdvantage
"""

from podium.testing.report import BatteryFailed, Report, check, examine, registered_parts
from podium.testing.synthetic import Draw, Scene, synthetic

__all__ = ["BatteryFailed", "Draw", "Report", "Scene", "check", "examine", "registered_parts", "synthetic"]
