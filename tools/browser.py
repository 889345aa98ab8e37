"""`make browser`: install Chromium and its driver where that is possible, and run the tests of the pages in it.

Where there is neither a browser nor a way to install one, a line says so and nothing is tested.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

PROGRAMS = ("chromium", "chromedriver")
PACKAGES = ("chromium", "chromium-driver", "fonts-dejavu-core")
QUICK = ("-o", "Acquire::http::Timeout=10", "-o", "Acquire::https::Timeout=10", "-o", "Acquire::Retries=0")
LIMIT_S = 100  # of each step of the installation


def missing() -> list[str]:
    return [program for program in PROGRAMS if shutil.which(program) is None]


def install() -> str:
    """Install Debian's packages; returns why that was not possible, or nothing."""
    if shutil.which("apt-get") is None:
        return "there is no apt-get"
    if os.geteuid() != 0:
        return "apt-get needs root"
    settings = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for step in (["update"], ["install", "-y", "--no-install-recommends", *PACKAGES]):
        try:
            ended = subprocess.run(
                ["apt-get", "-qq", *QUICK, *step], env=settings, timeout=LIMIT_S, capture_output=True, text=True
            )
        except subprocess.TimeoutExpired:
            return f"apt-get {step[0]} took longer than {LIMIT_S} seconds"
        if ended.returncode:
            return f"apt-get {step[0]} failed: {(ended.stderr.strip().splitlines() or ['no reason'])[-1]}"
    return ""


def main() -> int:
    if missing():
        why = install()
        if why or missing():
            print(f"make browser: skipped, no {' and no '.join(missing())} here, and {why or 'none was installed'}.")
            return 0
    packages = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "selenium>=4.20,<5"]
    packages += ["starlette>=0.40,<2", "uvicorn>=0.30,<1"]
    if subprocess.run(packages, check=False).returncode:
        print("make browser: skipped, selenium cannot be installed.")
        return 0
    tests = [sys.executable, "-m", "pytest", "tests/report/test_browser.py", *sys.argv[1:]]
    return subprocess.run(
        tests, env={**os.environ, "PODIUM_BROWSER": "1", "OMP_NUM_THREADS": "1"}, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
