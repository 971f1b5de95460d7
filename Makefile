# Two commands do all the set-up on a fresh machine: `make demo` and `make test`.
# Each makes what it needs and reuses what is there; stage environments live in the user's cache.
PYTHON ?= $(firstword $(foreach v,3.13 3.12 3.11,$(shell command -v python$(v) 2>/dev/null)) python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: setup demo test bench lint clean

setup: .venv/console.made

.venv/console.made: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Eyas needs Python 3.11 or newer here, not %d.%d: set PYTHON=…" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
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

test: lint
	@sh tests/tools.sh
	$(BIN)/python -m pytest

bench: .venv/tests.made
	$(BIN)/python -m pytest tests/bench -s -p no:cacheprovider

clean:
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache
