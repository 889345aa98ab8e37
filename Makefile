# Everything lives in .venv, which the first target makes; later runs only look at its stamp.

PYTHON := .venv/bin/python
STAMP := .venv/.installed
# Pinned: a range would let pip take another build of torch, which may be gigabytes.
TORCH := torch==2.13.0

.PHONY: help demo test test-fast check format slow mutate gpu bench docs site browser parity dist lock

help:
	@echo "make demo       a small language model learns to add, in about a minute"
	@echo "make test       all tests"
	@echo "make test-fast  the tests that take under three minutes on two cores"
	@echo "make check      format, lint, types, import contracts, dead code, spelling"
	@echo "make format     format the code and sort imports"
	@echo "make slow       what is too long for every change; writes checks/slow.md"
	@echo "make mutate     change every entry point in turn: the vectors and tests that run it must notice"
	@echo "make gpu        what needs a GPU; writes checks/gpu.md"
	@echo "make docs       write the index and the page of each method"
	@echo "make site       build the documentation site into .cache/site; a dead link fails"
	@echo "make browser    install Chromium, and try the live page and reports in it"
	@echo "make parity     compare numbers with trl and verl, and train on verifiers, in environments of their own"
	@echo "make bench      time against verl's own functions, once make parity has installed it"
	@echo "make dist       build the wheel and the sdist, and try them outside the checkout"
	@echo "make lock       write requirements-dev.lock from what is installed"

demo: $(STAMP)
	@.venv/bin/podium train --out runs/demo-$$(date +%Y%m%d-%H%M%S)

test: $(STAMP)
	OMP_NUM_THREADS=1 $(PYTHON) -m pytest -n 2

test-fast: $(STAMP)
	OMP_NUM_THREADS=1 $(PYTHON) -m pytest -n 2 -m "not long"

check: $(STAMP)
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	.venv/bin/vulture
	.venv/bin/codespell

format: $(STAMP)
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

slow: $(STAMP)
	OMP_NUM_THREADS=1 $(PYTHON) -m tools.checks slow

mutate: $(STAMP)
	OMP_NUM_THREADS=1 $(PYTHON) -m tools.numbers mutate

gpu:
	$(shell ls $(PYTHON) 2>/dev/null || echo python3) -m tools.checks gpu

# verl lives in the environment that `make parity` makes; without it the benchmark prints our times alone.
bench: $(STAMP)
	PYTHONPATH=src $$(ls .cache/parity/verl/bin/python 2>/dev/null || echo $(PYTHON)) benchmarks/core.py

docs: $(STAMP)
	$(PYTHON) -m podium.docs docs/methods

site: $(STAMP)
	@$(PYTHON) -m pip install -qq --disable-pip-version-check $(TORCH) --editable '.[site]'
	$(PYTHON) -m mkdocs build --strict --quiet
	@echo "The site is in .cache/site: open .cache/site/index.html, or run $(PYTHON) -m mkdocs serve"

browser: $(STAMP)
	@$(PYTHON) -m tools.browser

parity: $(STAMP)
	$(PYTHON) tests/parity/run.py

dist: $(STAMP)
	$(PYTHON) -m tools.dist

lock: $(STAMP)
	@{ echo "# The versions that the last full run used; make lock writes it."; $(PYTHON) -m pip freeze --exclude-editable --local | sed "s/+cpu//"; } > requirements-dev.lock

$(STAMP): pyproject.toml src/podium/policy/native/kernels.c src/podium/policy/native/kernels.h
	@if [ ! -x $(PYTHON) ]; then \
	  for python in python3.11 python3.12 python3; do \
	    if $$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	      echo "Making .venv with $$($$python --version)"; exec $$python -m venv .venv; \
	    fi; \
	  done; \
	  echo "Podium needs Python 3.11 or 3.12 with its venv module, and found none." >&2; exit 1; \
	fi
	@echo "Installing into .venv (the first time takes some minutes)"
	@$(PYTHON) -m pip install -qq --disable-pip-version-check $(TORCH)
	@$(PYTHON) -m pip install -qq --disable-pip-version-check $(TORCH) --editable '.[dev]'
	@touch $@
