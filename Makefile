# Each target is the one command a newcomer needs; all of them install what they need first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# Installed first and pinned: a newer release would bring gigabytes of CUDA packages along.
TORCH ?= torch==2.13.0

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: setup demo demo-deploy test test-fast test-times lint clean

setup: $(INSTALLED)

$(INSTALLED): pyproject.toml experiments/pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet '$(TORCH)'
	$(BIN)/pip install --quiet --editable '.[simulation,dev]' --editable ./experiments
	touch $(INSTALLED)

demo: setup
	$(BIN)/fedgt demo

demo-deploy: setup
	$(BIN)/fedgt demo --deploy

# The files of tests run on both cores; those of one file stay together and in their order.
test: setup
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile -m 'not alone'

test-fast: setup
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile -m 'not slow'

test-times: setup
	$(BIN)/python -m pytest -m alone -s

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
