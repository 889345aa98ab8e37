"""The index of the package as data: what the command line shows and YAML may name, without importing torch.

`python -m podium.docs` writes it to `podium/index.json`; a test fails where it is out of date.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from pathlib import Path
from typing import Any

import podium
from podium.core.value import REGISTRY

__all__ = ["INDEX", "index_data", "write_index"]

INDEX = Path(podium.__file__).parent / "index.json"
# Their modules run when they are imported, or need a GPU; they define no values.
PASSED_OVER = ("__main__", "podium.policy.cuda", "podium.policy.native", "podium.testing")


def index_data() -> dict[str, Any]:
    """Every class that YAML may name, by its module."""
    for module in pkgutil.walk_packages(podium.__path__, "podium."):
        if not any(name in module.name for name in PASSED_OVER):
            importlib.import_module(module.name)
    classes = {name: cls.__module__ for name, cls in sorted(REGISTRY.items())}
    return {"classes": classes}


def write_index() -> None:
    INDEX.write_text(json.dumps(index_data(), indent=1, ensure_ascii=False) + "\n", "utf-8")
