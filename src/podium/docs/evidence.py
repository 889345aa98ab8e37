"""What the reference numbers of a method rest on, as the vector files of the checkout say it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import podium

__all__ = ["BASES", "VECTORS", "Evidence", "evidence"]

VECTORS = Path(podium.__file__).parents[2] / "tests" / "conformance" / "vectors"
NO_REPOSITORIES = ("sigmoid/tanh", "safe/controllers", "src/prefix_grouper", "verl-agent/gigpo")
BASES = {
    "code": "published code, run",
    "mixed": "published code, run, and in part our reading",
    "transcribed": "our transcription of published code",
    "reading": "our reading of the paper",
}


@dataclass(frozen=True)
class Evidence:
    """The reference cases of a method and where their numbers come from."""

    cases: int
    source: str  # in the words of the vector file

    @property
    def basis(self) -> str:
        """A key of `BASES`."""
        own = re.search(r"\b(own|stub|transcri|re-implemented|designed)", self.source) is not None
        if re.search(r"\breference (code|algorithm) ", self.source) and not self.source.startswith("own "):
            return "mixed" if own else "code"
        published = self.repositories or re.search(r"\.py\b|pseudocode", self.source)
        return "transcribed" if published else "reading"

    @property
    def repositories(self) -> tuple[str, ...]:
        """The repositories that the source names, as owner/name."""
        found = re.findall(r"(?<![\w./-])[A-Za-z0-9-]+/[A-Za-z0-9._-]*[A-Za-z0-9](?![\w/.])", self.source)
        return tuple(dict.fromkeys(name for name in found if name not in NO_REPOSITORIES and not name.endswith(".py")))

    def __str__(self) -> str:
        where = f" ({', '.join(self.repositories)})" if self.repositories else ""
        return f"{self.cases} reference {'case' if self.cases == 1 else 'cases'}: {BASES[self.basis]}{where}"


def evidence(slug: str) -> Evidence | None:
    """The evidence for a method; None where there are no vectors, or no checkout."""
    file = VECTORS / f"{slug}.json"
    if not file.exists():
        return None
    data = json.loads(file.read_text("utf-8"))
    return Evidence(len(data["cases"]), str(data.get("source", "")))
