"""Build the wheel and the sdist, install each outside the checkout without a compiler, and run the demonstration.

    python -m tools.dist [--keep dist]

Dependencies come from the environment that runs this; Podium itself comes from the built file alone.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
NO_COMPILER = {"CC": "/bin/false", "CXX": "/bin/false"}


def run(command: Sequence[str | Path], cwd: Path, **environment: str) -> str:
    """What a command prints; its failure is ours."""
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env={**inherited, **environment}, capture_output=True, text=True
    )
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n")
        raise SystemExit(f"{' '.join(map(str, command))} failed with exit code {done.returncode}")
    return done.stdout


def build(out: Path) -> list[Path]:
    """The wheel and the sdist of what git tracks: a checkout's leftovers must not get in."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "podium"
        files = run(("git", "ls-files", "-z"), ROOT).split("\0")
        for name in filter(None, files):
            if (ROOT / name).exists():
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, tree / name)
        run((sys.executable, "-m", "build", "--no-isolation", "--outdir", out), tree)
    return sorted(out.glob("podium_rl-*"))


def try_out(built: Path, folder: Path) -> str:
    """Install a built file into an environment of its own and train there; the demonstration's last line."""
    home = folder / "environment"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    site = Path(run((python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"), folder).strip())
    # The line of a .pth file adds a folder without reading that folder's own .pth files: an editable Podium stays out.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
    install = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--force-reinstall")
    run((python, *install, built), folder, **NO_COMPILER)
    place = Path(run((python, "-c", "import podium; print(podium.__file__)"), folder).strip())
    if site not in place.parents:
        raise SystemExit(f"{built.name} was not installed: podium is {place}")
    run((home / "bin" / "podium", "methods", "show", "grpo"), folder)
    said = run((home / "bin" / "podium", "train", "--iterations", "2", "--out", "run"), folder)
    return said.strip().splitlines()[-1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="a folder for the built files")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "dist"
        built = build(out)
        for file in built:
            place = Path(folder) / file.suffix.strip(".")
            place.mkdir()
            print(f"{file.name}, {file.stat().st_size / 1e6:.1f} MB: {try_out(file, place)}", flush=True)
        if given.keep:
            shutil.copytree(out, given.keep, dirs_exist_ok=True)
    print(f"{len(built)} files install and train outside the checkout")
    return 0 if len(built) == 2 else 1


if __name__ == "__main__":
    sys.exit(main())
