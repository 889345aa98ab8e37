"""The C kernels, built with AddressSanitizer and UndefinedBehaviorSanitizer, under their own tests.

    python -m tools.checks.sanitizers

A fault that is planted into a copy of the sources must be found first: a check that cannot fail shows nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
NATIVE = Path("podium/policy/native")
FLAGS = ("-O1", "-g", "-fopenmp", "-fPIC", "-shared", "-fno-omit-frame-pointer", "-fno-math-errno")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
# One element too many: the last row is written beyond its end.
SOUND = "for (int64_t j = 0; j < width; j++) y[j] = x[j] * scale * w[j];"
PLANTED = SOUND.replace("j < width", "j <= width")
FINDING = re.compile(r"(ERROR: AddressSanitizer: .*|.*runtime error: .*)")


def built(folder: Path, planted: bool) -> Path:
    """A copy of the package whose kernels are built with the sanitizers; returns the folder to import it from."""
    package = folder / "podium"
    shutil.copytree(ROOT / "src" / "podium", package, ignore=shutil.ignore_patterns("_kernels*.so", "__pycache__"))
    native = folder / NATIVE
    if planted:
        header = native / "kernels.h"
        text = header.read_text("utf-8")
        assert SOUND in text, "the line to plant a fault into is gone: choose another"
        header.write_text(text.replace(SOUND, PLANTED), "utf-8")
    command = ["gcc", *FLAGS, *SANITIZERS, "kernels.c", "-o", "_kernels.sanitized.so", "-lm"]
    subprocess.run(command, cwd=native, check=True)
    return folder


def tested(folder: Path, *arguments: str) -> tuple[int, int, list[str]]:
    """The exit code of the kernels' tests with that build, how many passed, and what the sanitizers found."""
    libraries = [
        subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]),
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter itself leaks at its end
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "OMP_NUM_THREADS": "2",
    }
    # Without capture, so that what a sanitizer says before it ends the process is not lost.
    options = ("-q", "-o", "addopts=", "-p", "no:cacheprovider", "--capture=no")
    command = [sys.executable, "-m", "pytest", *options, "tests/policy/native", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    findings = FINDING.findall(done.stdout + done.stderr)
    if done.returncode and not findings:
        print(done.stdout, done.stderr, f"pytest ended with exit code {done.returncode}", sep="\n")
    passed = re.search(r"(\d+) passed", done.stdout)
    return done.returncode, int(passed[1]) if passed else 0, findings


def main() -> int:
    if shutil.which("gcc") is None:
        print("not run: there is no gcc")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        code, _, findings = tested(built(Path(folder), planted=True), "-k", "test_a_step_is_that_of_torch")
    if not code or not findings:
        print("The planted fault was not found: the sanitizers do not see the kernels.")
        return 1
    print(f"planted fault: {findings[0]}")
    with tempfile.TemporaryDirectory() as folder:
        code, passed, findings = tested(built(Path(folder), planted=False))
    print("\n".join(findings))
    print(f"{passed} tests, {len(findings)} findings; a planted fault is found")
    return 1 if code or findings or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
