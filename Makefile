# The whole project in a few words: `make run` shows it, `make test` proves it.
#
# Every target first makes sure of a virtual environment: the active one if there is one, else .venv, made on demand.

PYTHON ?= python3
VENV   := $(if $(VIRTUAL_ENV),$(VIRTUAL_ENV),.venv)
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.holdfast-installed
SEED   ?= 1
STEPS  ?= 3
COUNT  ?= 1
JOBS   ?= 2

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore

.PHONY: run incident test lint format types imports units spec sim sagas mutants bench bench-gate clean help
.DEFAULT_GOAL := help

help: ## List the targets
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(STAMP) ## Kill a worker in the middle of a run and see the run finish
	@$(BIN)/python examples/survive.py

incident: $(STAMP) ## Triage an incident under a policy, take the change back, and prove it all
	@$(BIN)/python examples/incident/run.py

test: lint types imports units ## Everything that must hold before a commit

lint: $(STAMP) ## Style, by ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(STAMP) ## Mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(STAMP) ## Types, by mypy
	$(BIN)/mypy

imports: $(STAMP) ## Layers, by import-linter
	$(BIN)/lint-imports

units: $(STAMP) ## All tests
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup --durations 10 -q

spec: ## Check the formal model (needs Node.js)
	test -d spec/node_modules || (cd spec && npm ci)
	spec/run.sh all

sim: $(STAMP) ## Simulate from a seed: make sim SEED=1 STEPS=3 COUNT=100
	$(BIN)/python -m tests.simulation.simulate $(SEED) $(STEPS) $(COUNT)

sagas: $(STAMP) ## Judge random workflow programs from a seed: make sagas SEED=1 COUNT=1000
	$(BIN)/python -m tests.laws.sagas $(SEED) $(COUNT)

mutants: $(STAMP) ## Break the code on purpose, and see the tests notice
	$(BIN)/python -m tests.mutants.run

bench: $(STAMP) ## Measure
	$(BIN)/python bench/run.py

bench-gate: $(STAMP) ## Measure what the gate adds to a step
	$(BIN)/python bench/gate.py

clean: ## Forget the environment and all caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -e '.[dev,postgres]'
	@touch $(STAMP)
