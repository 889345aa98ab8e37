"""What the catalogue says about itself: read by `podium methods show` and written as a page a method.

python -m podium.docs docs/methods
"""

from podium.docs.method_page import index, method_page, pages
from podium.docs.reading import Difference, MethodNeeds, Setting, differences, needs, settings_of

__all__ = [
    "Difference",
    "MethodNeeds",
    "Setting",
    "differences",
    "index",
    "needs",
    "method_page",
    "pages",
    "settings_of",
]
