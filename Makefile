# demo: the main job, from nothing.  test, check: what CI runs.  lock: refresh the exact versions.
PYTHON ?= python3
VENV ?= .venv
TORCH ?= torch==2.13.0
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: demo test check bench lock

demo: $(VENV)/.installed
	$(BIN)/ceiling demo --out demo

test: $(VENV)/.installed
	-$(BIN)/ceiling models --fetch smollm2-135m
	$(BIN)/python -m pytest

check: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

bench: $(VENV)/.installed
	$(BIN)/python -m pytest tests/bench --override-ini addopts=

$(VENV)/.installed: pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint requirements.lock --editable '.[dev]'
	touch $@

lock:
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet $(TORCH) --editable '.[audit,bench,dev]'
	(sed -n '/^#/p' requirements.lock; \
	 build/lock/bin/python -m pip freeze --exclude-editable --exclude setuptools | sed 's/+cpu$$//') > build/new.lock
	mv build/new.lock requirements.lock
