"""What Podium is built on: the lock file, what is installed, and known vulnerabilities.

    python -m tools.checks.supply          what can be known without a network
    python -m tools.checks.supply audit    known vulnerabilities of the locked versions, by pip-audit

The first fails if the lock file breaks a bound of pyproject.toml, differs from what is installed, or a dependency is
unused, undeclared, from elsewhere than the index, or under a licence that would bind users. The second ends with the
exit code for a skipped check where pip-audit or the advisory service cannot be reached.
"""

from __future__ import annotations

import ast
import importlib.metadata as metadata
import json
import re
import subprocess
import sys
import tomllib
import venv
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements-dev.lock"
SKIPPED = 77  # the exit code of a check that could not be made
WITH_OTHERS = {"triton": "torch"}  # modules that come with a dependency under another name
BINDING = re.compile(r"\bA?GPL|General Public License", re.IGNORECASE)  # LGPL and MPL bind their own files alone
LESSER = re.compile(r"LGPL|Lesser", re.IGNORECASE)


def locked(text: str) -> dict[str, str]:
    """The versions of a lock file by name."""
    pairs = (line.strip().split("==") for line in text.splitlines() if "==" in line and not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pairs}


def declared() -> tuple[list[Requirement], list[Requirement], list[Requirement]]:
    """What pyproject.toml asks for: to run, to develop, and for the other extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    others = [text for name, group in extras.items() if name != "dev" for text in group]
    run, develop, more = ([Requirement(t) for t in g] for g in (project["dependencies"], extras["dev"], others))
    return run, develop, more


def installed() -> dict[str, metadata.Distribution]:
    """The packages of this environment by name, without Podium itself and what made the environment."""
    packages = {canonicalize_name(d.metadata["Name"]): d for d in metadata.distributions()}
    return {name: d for name, d in packages.items() if name not in ("podium-rl", "pip", "setuptools", "wheel")}


def broken_bounds(lock: dict[str, str], wanted: Iterable[Requirement]) -> Iterator[str]:
    for requirement in wanted:
        version = lock.get(canonicalize_name(requirement.name))
        if version is None:
            if requirement.name not in ("setuptools", "podium-rl"):  # which pip freeze leaves out
                yield f"{requirement.name} is not in the lock file"
        elif not requirement.specifier.contains(version, prereleases=True):
            yield f"{requirement.name} is locked at {version}, outside {requirement.specifier}"


def drift(lock: dict[str, str], here: dict[str, str]) -> Iterator[str]:
    for name in sorted(lock.keys() | here.keys()):
        if lock.get(name) != here.get(name):
            yield f"{name}: locked {lock.get(name, 'not at all')}, installed {here.get(name, 'not at all')}"


def closure(roots: Iterable[str], packages: dict[str, metadata.Distribution]) -> set[str]:
    """The packages that these need, and those that they need, as far as they are installed."""
    reached, waiting = set(), [canonicalize_name(name) for name in roots]
    while waiting:
        name = waiting.pop()
        if name in packages and name not in reached:
            reached.add(name)
            for text in packages[name].requires or ():
                requirement = Requirement(text)
                if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                    waiting.append(canonicalize_name(requirement.name))
    return reached


def imported(folder: Path) -> set[str]:
    """The modules that the files of a folder import, by their first name."""
    modules = set()
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                modules |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                modules.add(node.module.partition(".")[0])
    return modules


def imports_and_needs(runtime: Iterable[str], allowed: Iterable[str]) -> Iterator[str]:
    """Dependencies that nothing imports, and imports that no dependency or extra provides."""
    modules = imported(ROOT / "src" / "podium") - set(sys.stdlib_module_names) - {"podium"}
    owners = {m: {canonicalize_name(d) for d in ds} for m, ds in metadata.packages_distributions().items()}
    owned = {m: owners.get(m, {canonicalize_name(WITH_OTHERS.get(m, m))}) for m in modules}
    for name in sorted(set(runtime) - set().union(*owned.values())):
        yield f"{name} is declared, but nothing in src/podium imports it"
    for module, names in sorted(owned.items()):
        if not names & set(allowed):
            yield f"src/podium imports {module}, which neither the dependencies nor an extra declare"


def licence(package: metadata.Distribution) -> str:
    """The licence that a package states, in short."""
    fields = package.metadata
    stated = fields.get("License-Expression") or next(
        (c.rpartition(":: ")[2] for c in fields.get_all("Classifier") or () if c.startswith("License ::")), ""
    )
    return stated or (fields.get("License") or "").strip().partition("\n")[0]


def origins_and_licences(packages: dict[str, metadata.Distribution], runtime: set[str]) -> Iterator[str]:
    for name, package in sorted(packages.items()):
        if package.read_text("direct_url.json"):
            yield f"{name} was installed from elsewhere than the index"
        text = licence(package)
        if name in runtime and not text:
            yield f"{name} states no licence"
        elif name in runtime and BINDING.search(text) and not LESSER.search(text):
            yield f"{name} is under {text}, which would bind users of Podium"


def check() -> int:
    lock, packages = locked(LOCK.read_text("utf-8")), installed()
    runtime, develop, others = declared()
    names = {canonicalize_name(r.name) for r in runtime}
    needed = closure(names, packages)
    # What other extras brought along may be newer or older: the lock file is about running and developing.
    ours = closure([r.name for r in (*runtime, *develop)], packages) | lock.keys()
    here = {name: package.version.partition("+")[0] for name, package in packages.items() if name in ours}
    faults = [
        *broken_bounds(lock, [*runtime, *develop]),
        *drift(lock, here),
        *imports_and_needs(names, names | {canonicalize_name(r.name) for r in others}),
        *origins_and_licences(packages, needed),
    ]
    counts = Counter(licence(packages[name]) for name in needed)
    print("licences at run time:", ", ".join(f"{text} {count}" for text, count in counts.most_common()))
    print(*faults, sep="\n")
    print(
        f"{len(names)} direct dependencies, {len(needed)} with theirs, {len(lock)} locked for development: "
        f"{len(faults)} faults"
    )
    return 1 if faults else 0


def audit() -> int:
    """Known vulnerabilities, asked for by pip-audit in an environment of its own."""
    home = ROOT / ".cache" / "audit"
    program = home / "bin" / "pip-audit"
    if not program.exists():
        venv.create(home, with_pip=True)
        command = [home / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "pip-audit"]
        if subprocess.run(command, check=False).returncode:
            print("not reachable: pip-audit cannot be installed; not audited")
            return SKIPPED
    command = [program, "--disable-pip", "--no-deps", "-r", LOCK, "-f", "json", "--progress-spinner", "off"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        print(done.stderr)
        print("not reachable: the advisory service does not answer; not audited")
        return SKIPPED
    return judged(packages)


def judged(packages: list[dict[str, Any]]) -> int:
    """The outcome of pip-audit, which itself passes packages that it could not look up."""
    known = [f"{p['name']} {p['version']}: {v['id']}" for p in packages for v in p.get("vulns", ())]
    unknown = [p["name"] for p in packages if "skip_reason" in p]
    print(*known, sep="\n")
    if unknown:
        print(
            f"not reachable, so not audited: {len(unknown)} of {len(packages)} packages ({', '.join(unknown[:3])}, …)"
        )
    else:
        print(f"{len(packages)} packages audited, {len(known)} known vulnerabilities")
    return 1 if known else SKIPPED if unknown else 0


if __name__ == "__main__":
    sys.exit(audit() if sys.argv[1:] == ["audit"] else check())
