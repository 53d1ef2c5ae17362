# Each target is the one command a newcomer needs; all of them install what they need first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# Installed first and pinned: a newer release would bring gigabytes of CUDA packages along.
TORCH ?= torch==2.13.0

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: setup demo demo-deploy test test-fast test-times lint lock clean

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

# Tests of one file stay together and in their order, files with slow ones first. Four processes on
# two cores: tests of a deployment mostly wait for Flower, which polls every three seconds.
test: setup
	$(BIN)/python -m pytest --numprocesses 4 --dist loadfile --no-loadscope-reorder -m 'not alone'

test-fast: setup
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile -m 'not slow'

test-times: setup
	$(BIN)/python -m pytest -m alone -s

.PHONY: fuzz
# Mutated input for every parser of bytes that others wrote.
CASES ?= 100000
fuzz: setup
	$(BIN)/python -m tests.fuzz.run --cases $(CASES)
	$(BIN)/pip install --quiet 'atheris>=2.3'
	$(BIN)/python -m tests.fuzz.guided --cases $(CASES)

.PHONY: soak
# Long runs, about an hour: memory, files, processes, and every round accounted for.
soak: setup
	$(BIN)/python -m tests.soak.in_process --rounds 2000
	$(BIN)/python -m tests.soak.over_tls --rounds 200

.PHONY: audit
# Known weaknesses of what the images install; --strict: what cannot be looked up is a failure.
audit: setup
	$(BIN)/pip install --quiet pip-audit
	$(BIN)/pip-audit --strict --disable-pip --require-hashes \
	  --requirement deploy/docker/requirements-client.lock \
	  --requirement deploy/docker/requirements-server.lock

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Versions and hashes of all that the images install, and of what builds FedGT's wheel in them.
LOCK := $(BIN)/uv pip compile --quiet --upgrade --generate-hashes --no-annotate \
	--python-version 3.11 --python-platform x86_64-unknown-linux-gnu \
	--custom-compile-command 'make lock' -
lock: setup
	printf 'hatchling>=1.25\n' | $(LOCK) deploy/docker/server-requirements.txt \
		--output-file deploy/docker/requirements-server.lock
	printf 'hatchling>=1.25\n$(TORCH)\n' | $(LOCK) pyproject.toml \
		--output-file deploy/docker/requirements-client.lock

.PHONY: docs
# What is generated in docs/: settings from the code, tables from the records and results. Then the
# site of all documents, in site/.
docs: setup
	$(BIN)/fedgt config --markdown > docs/settings.md
	$(BIN)/fedgt experiment readme
	$(BIN)/fedgt experiment readme --file README.md
	$(BIN)/fedgt experiment privacy
	$(BIN)/fedgt bench docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

.PHONY: picture
# The README's picture: the page of the demo, in a browser (apt-get install chromium).
picture: setup
	$(BIN)/fedgt demo
	$(BIN)/python -m tests.harness.picture runs/demo/report.html docs/pictures/page.png

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
