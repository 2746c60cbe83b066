# `make run` demonstrates Holdfast, `make test` checks it, `make help` lists all targets.
#
# The targets use the active virtual environment, or else .venv, which is created if it is missing.

PYTHON ?= python3
VENV   := $(if $(VIRTUAL_ENV),$(VIRTUAL_ENV),.venv)
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.holdfast-installed
SEED   ?= 1
STEPS  ?= 3
COUNT  ?= 1
JOBS   ?= 3
STORE  ?= memory://
RUNS   ?= 1000000
KEYS   ?= 200
CELLS  ?= 10000 1000000
EVENTS ?= 20000
CORPORA := $(or $(HOLDFAST_CORPORA),../shared/data)
TRACES ?= $(wildcard $(CORPORA)/templates/traces $(CORPORA)/templates/mutants)

# JOBS is one process more than a small machine has processors: tests wait for clocks and processes now and then.

# Databases of tests live in memory where there is enough of it: waiting for a disk would be most of the time of a test.
MEMORY := /dev/shm
TESTS_IN_MEMORY := $(shell test -w $(MEMORY) && df -Pk $(MEMORY) | awk 'NR == 2 && $$4 > 8000000 { print "TMPDIR=$(MEMORY)" }')

TESTS = $(TESTS_IN_MEMORY) $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup --durations 10 -q

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore

# Tests start hundreds of processes. Without compiled modules each of them would compile what it loads of the package.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run incident claims orders serve browser screenshots test test-slice test-long test-failover lint format types imports constraints units spec sim sagas acts twins trees mixtures definitions traces fuzz mutants bench bench-gate bench-machines bench-schedules bench-serving bench-wakeups clean help
.DEFAULT_GOAL := help

help: ## List the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(STAMP) ## Kill a worker in the middle of a run and see the run finish
	@$(BIN)/python examples/survive.py

incident: $(STAMP) ## Triage an incident under a policy, reverse the change, and verify the evidence
	@$(BIN)/python examples/incident/run.py

claims: $(STAMP) ## Settle two claims by a definition, one with a person's approval
	@$(BIN)/python examples/claims/run.py

orders: $(STAMP) ## Take orders for many keys through payment, parcel, deadline and refund: make orders KEYS=100000
	@$(BIN)/python examples/orders/run.py --keys $(KEYS)

serve: $(STAMP) ## Serve the console with some runs to look at, and print the link to it
	@$(BIN)/python examples/console/serve.py

test: lint imports units ## All checks that must pass before a commit, in four minutes: make test SEED=7 DAY=2026-03-29

test-slice: $(STAMP) browser ## A seventh of the tests that `test` leaves out, another one each day: make test-slice DAY=2026-03-29
	@HOLDFAST_TESTS=slice $(TESTS)

test-long: ## All tests, and all that random tests can try (an hour)
	@HOLDFAST_TESTS=long $(MAKE) test

lint: $(STAMP) ## Style, by ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(STAMP) ## Format the code, and fix what ruff can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(STAMP) ## Types, by mypy
	$(BIN)/mypy

imports: $(STAMP) ## Layers, by import-linter
	$(BIN)/lint-imports

units: $(STAMP) browser ## The tests alone; types are checked by one of them
	@$(BIN)/python -m compileall -q -j 0 src
	@$(TESTS)

test-failover: $(STAMP) ## Kill, freeze, cut off, lag and pool real PostgreSQL servers under load, and print what it cost: make test-failover TRIALS="frozen network"
	@$(TESTS_IN_MEMORY) $(BIN)/python -W ignore::ResourceWarning -m tests.failover.trials $(TRIALS)

browser: $(STAMP) ## Fetch a Chromium for the tests of the console, where there is none (needs Node.js)
	@$(BIN)/python -m tests.browser

screenshots: $(STAMP) browser ## Take the pictures of the console in docs/ again
	$(BIN)/python -m tests.acceptance.console.screenshots

spec: ## Check the formal model (needs Node.js)
	test -d spec/node_modules || (cd spec && npm ci)
	spec/run.sh all

sim: $(STAMP) ## Simulate from a seed: make sim SEED=1 STEPS=3 COUNT=100, and beside another store with STORE=sqlite or postgres
	$(BIN)/python -m tests.simulation.simulate $(SEED) $(STEPS) $(COUNT)
	$(BIN)/python -m tests.simulation.scheduled $(SEED) $(COUNT)
	$(BIN)/python -m tests.simulation.templated $(SEED) $(COUNT)
	$(BIN)/python -m tests.simulation.machined $(SEED) $(COUNT)
	$(BIN)/python -m tests.simulation.told $(SEED) $(COUNT)
	$(BIN)/python -m tests.simulation.outages $(SEED) $(COUNT)

sagas: $(STAMP) ## Check random workflow programs from a seed: make sagas SEED=1 COUNT=1000
	$(BIN)/python -m tests.laws.sagas $(SEED) $(COUNT)

acts: $(STAMP) ## Check random acts, undos and reversals by a ledger outside the engine: make acts SEED=1 COUNT=1000
	$(BIN)/python -m tests.laws.acts $(SEED) $(COUNT)

twins: $(STAMP) ## Check random programs written both as a function and as a definition: make twins SEED=1 COUNT=1000
	$(BIN)/python -m tests.laws.twins $(SEED) $(COUNT)

trees: $(STAMP) ## Check random trees of runs by following the advice of explain: make trees SEED=1 COUNT=1000
	$(BIN)/python -m tests.laws.trees $(SEED) $(COUNT)

mixtures: $(STAMP) ## Check random histories of machines, all features together, from a seed: make mixtures SEED=1 COUNT=100
	$(BIN)/python -m tests.laws.machines.mixture $(SEED) $(COUNT)

definitions: $(STAMP) ## Check random definitions from a seed: make definitions SEED=1 COUNT=1000
	$(BIN)/python -m tests.laws.definitions $(SEED) $(COUNT)

traces: $(STAMP) ## Follow traces of the model of templates: make traces SEED=1 COUNT=300 STORE=memory:// TRACES=FOLDER
	$(BIN)/python -m holdfast.testing.model_traces $(TRACES) --random $(COUNT) --seed $(SEED) --store $(STORE)

fuzz: $(STAMP) ## Send random requests to every route of the server: make fuzz SEED=1 COUNT=50
	$(BIN)/python -W ignore -m tests.fuzz.fuzz_http $(SEED) $(COUNT)

mutants: $(STAMP) ## Break the code on purpose, and check that the tests notice
	$(BIN)/python -m tests.mutants.run

bench: $(STAMP) ## Measure Holdfast beside other engines
	$(BIN)/python bench/run.py

bench-gate: $(STAMP) ## Measure what the gate adds to a step
	$(BIN)/python bench/gate.py

bench-wakeups: $(STAMP) ## Measure how soon another process learns of a change
	$(BIN)/python bench/wakeups.py

bench-schedules: $(STAMP) ## Measure how fast many schedules that are due at once are started
	$(BIN)/python bench/schedules.py

bench-machines: $(STAMP) ## Measure events through machines: make bench-machines CELLS="10000 1000000" EVENTS=20000
	$(TESTS_IN_MEMORY) $(BIN)/python bench/machines.py --cells $(CELLS) --events $(EVENTS)

bench-serving: $(STAMP) ## Measure the server with a million runs in the store: make bench-serving RUNS=1000000
	$(TESTS_IN_MEMORY) $(BIN)/python bench/serving.py --runs $(RUNS)

clean: ## Delete the environment and all caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# The versions and hashes of what the image of deploy/Containerfile installs, for its Python, with the newest allowed ones.
UV_COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.12 --generate-hashes --no-annotate \
	--no-emit-index-url --custom-compile-command "make constraints" --upgrade

constraints: $(STAMP) ## Look up the newest versions that the image may have, with their hashes
	@$(BIN)/python -m pip install --quiet 'uv>=0.9'
	@$(UV_COMPILE) pyproject.toml --extra server --extra postgres --extra redis --extra otel -o deploy/constraints.txt
	@echo hatchling | $(UV_COMPILE) - -o deploy/constraints-build.txt

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -e '.[dev,postgres]'
	@touch $(STAMP)
