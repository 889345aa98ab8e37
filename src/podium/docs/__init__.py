"""What the catalogue says about itself: read by `podium methods show` and written as a page a method.

python -m podium.docs docs/methods
"""

from podium.docs.page import index, page, pages
from podium.docs.reading import Difference, Needs, Setting, differences, needs, settings

__all__ = ["Difference", "Needs", "Setting", "differences", "index", "needs", "page", "pages", "settings"]
