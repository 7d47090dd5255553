# demo: the main job, from nothing.  panel: every per-head table on two families, resumable at every step.
# paper: the panel, held-out loss, the audit, and the gallery of all their figures; hours, resumable.
# audit: published eviction methods at matched budgets, and its figures; resumable.
# test, check: what CI runs.  lock: refresh the exact versions.
PYTHON ?= python3
VENV ?= .venv
TORCH ?= torch==2.13.0
BIN := $(VENV)/bin
PANEL ?= panel
GROUP ?= paper
AUDIT ?= audit
GRID ?=
LOSS ?=
LOSS_TEXTS ?= python-docs
GALLERY ?= figures
CERTIFY ?= --instances 40 --mass-floor none,0.9 --seconds 10
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: demo panel audit paper test check bench lock

demo: $(VENV)/.installed
	$(BIN)/ceiling demo --out demo

panel: $(VENV)/.installed
	$(BIN)/python jobs/capture.py --panel jobs/panel.toml --group $(GROUP) --out $(PANEL)/dumps
	for dump in $(PANEL)/dumps/*/; do \
		$(BIN)/python jobs/enumerate.py --dump "$$dump" --store $(PANEL)/store && \
		$(BIN)/python jobs/certify.py --dump "$$dump" --store $(PANEL)/store $(CERTIFY) && \
		$(BIN)/python jobs/score.py --dump "$$dump" --store $(PANEL)/store || exit; \
	done
	$(BIN)/ceiling figures --store $(PANEL)/store --out $(PANEL)/figures

audit: $(VENV)/.installed
	$(BIN)/python jobs/audit.py --store $(AUDIT)/store $(GRID)
	$(BIN)/ceiling figures --store $(AUDIT)/store --out $(AUDIT)/figures

paper: panel audit
	for dump in $(PANEL)/dumps/*$(LOSS_TEXTS)*/; do \
		$(BIN)/python jobs/zero_error.py --dump "$$dump" --store $(PANEL)/store --bits 8 --rows 1 && \
		$(BIN)/python jobs/loss.py --dump "$$dump" --store $(PANEL)/store $(LOSS) || exit; \
	done
	$(BIN)/ceiling figures --store $(PANEL)/store --out $(PANEL)/figures --only figure4,zero_error
	$(BIN)/ceiling gallery --figures $(PANEL)/figures --figures $(AUDIT)/figures --out $(GALLERY)

test: $(VENV)/.installed
	-$(BIN)/ceiling models --fetch smollm2-135m
	-$(BIN)/ceiling models --fetch gemma3-270m
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
	$(BIN)/python -m pip install --quiet --constraint requirements.lock --editable '.[audit,dev]'
	touch $@

lock:
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet $(TORCH) --editable '.[audit,bench,dev]'
	(sed -n '/^#/p' requirements.lock; \
	 build/lock/bin/python -m pip freeze --exclude-editable --exclude setuptools | sed 's/+cpu$$//') > build/new.lock
	mv build/new.lock requirements.lock
