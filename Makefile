# Two commands do all the set-up on a fresh machine: `make demo` and `make test`.
# Each makes what it needs and reuses what is there; stage environments live in the user's cache.
# The first that runs and is new enough: a version manager's stand-in may be on PATH and not work.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: setup demo test test-matrix readme bench bench-logs fuzz-logs lint clean

setup: .venv/console.made

.venv/console.made: pyproject.toml
	@test -n "$(PYTHON)" || { echo "Eyas needs Python 3.11 or newer here: set PYTHON=/path/to/python3" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) install --editable .
	@touch $@

.venv/tests.made: .venv/console.made
	$(PIP) install --editable '.[dev]'
	@touch $@

demo: setup
	@$(BIN)/eyas demo

lint: .venv/tests.made
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Two files at a time, each file's tests in order: half of the time goes by while an engine starts on one core.
test: lint
	@sh tests/tools.sh
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

# Every release and target type that the catalogue is held against; tables go to build/reports.
test-matrix: .venv/tests.made
	$(BIN)/python -m pytest -m "matrix or not matrix" tests/matrix tests/engine

# The README's tables of backends, of patches and of the fault drill, from what the engine tests saw last.
readme: .venv/tests.made
	PYTHONPATH=tests $(BIN)/python tests/engine/agreement_table.py
	PYTHONPATH=tests $(BIN)/python tests/engine/patch_table.py
	PYTHONPATH=tests $(BIN)/python tests/engine/verify_table.py

bench: .venv/tests.made
	$(BIN)/python -m pytest tests/bench -s -p no:cacheprovider

# A log of 1 GB is made in a temporary folder; MB=100 for a smaller one.
MB ?= 1000
bench-logs: .venv/tests.made
	$(BIN)/python tests/bench/logs/bench_logs.py --mb $(MB)

SECONDS ?= 600
fuzz-logs: .venv/tests.made
	$(BIN)/python tests/fuzz/fuzz_logs.py --seconds $(SECONDS)

clean:
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache
