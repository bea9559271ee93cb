# One way to run things. Every target works in a fresh clone: it makes the environment that it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := -m pytest -n 3 --dist loadfile --no-loadscope-reorder
NATIVE := CMakeLists.txt $(wildcard platform/ps/native/* algorithms/layers/native/*)

.PHONY: demo test test-slow test-torch oldest check docs bench scale chaos fuzz simulate sanitize format clean

$(VENV)/.demo: pyproject.toml $(NATIVE)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[examples]'
	touch $@

$(VENV)/.dev: pyproject.toml $(NATIVE)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev,examples]'
	touch $(VENV)/.demo $@

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --editable '.[dev,bench]'
	touch $@

$(VENV)/.torch: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --editable '.[dev,torch]'
	touch $@

$(VENV)/.docs: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --editable '.[dev,docs]'
	touch $@

$(VENV)/.fuzz: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --editable '.[dev,fuzz]'
	touch $@

demo: $(VENV)/.demo  ## Train on all flights that left New York in 2013, from SQL.
	$(BIN)/python examples/flights_data.py demo_data
	rm -rf demo_warehouse
	$(BIN)/xpsql run examples/flights.sql -D data=demo_data --warehouse demo_warehouse

test: $(VENV)/.dev  ## Run every test but the slow ones, three files at a time.
	$(BIN)/python $(PYTEST) -m 'not slow'

test-slow: $(VENV)/.dev  ## Run the tests that start clusters and builds, or kill processes: `SLOW` of tests/conftest.py.
	$(BIN)/python $(PYTEST) -m slow

test-torch: $(VENV)/.torch  ## Run the tests of networks in PyTorch, which others skip; PIP_EXTRA_INDEX_URL may name one of CPU builds.
	$(BIN)/python -m pytest tests/algorithms/bridges tests/examples/test_networks.py

oldest:  ## Run every test on the oldest versions of packages that pyproject.toml allows, in an environment of its own.
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip install --quiet uv
	$(VENV)-oldest/bin/uv pip install --quiet --python $(VENV)-oldest/bin/python --resolution lowest-direct --editable '.[dev,examples]'
	$(VENV)-oldest/bin/python $(PYTEST) -W default

check: $(VENV)/.dev  ## Lint, format and types.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict -p xpsql

docs: $(VENV)/.docs  ## Make a site of docs/ in build/site.
	$(BIN)/mkdocs build --quiet --strict

bench: $(VENV)/.bench  ## Print the figures that docs/benchmarks.md shows; ONLY="training cores": of some groups.
	$(BIN)/python -m benchmarks $(if $(ONLY),--only $(ONLY))

scale: $(VENV)/.dev  ## Calibrate, validate and run the simulation of many machines, for docs/how_far.md; ONLY="curves": some steps.
	$(BIN)/python -m benchmarks.scale $(if $(ONLY),--only $(ONLY)) $(if $(FORCE),--force)
	$(BIN)/python docs/results.py

chaos: $(VENV)/.dev  ## Try every fault, for hours, and write the tables of docs/reliability.md; PARTS=faults EVERY=51 takes minutes.
	PYTHON=$(BIN)/python scripts/chaos

SEEDS ?= 0-500
simulate: $(VENV)/.dev  ## Train in simulated worlds; SEEDS=1234 tells what happened in one, MUTATION='...' plants a fault of the product.
	$(BIN)/python -m tests.simulation --seeds $(SEEDS) $(if $(MUTATION),--mutation '$(MUTATION)')

fuzz: $(VENV)/.fuzz  ## Feed readers of others' bytes with what atheris makes of tests/fuzz/corpus; SECONDS_EACH for each target.
	PYTHON=$(BIN)/python scripts/fuzz

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

sanitize: $(VENV)/.dev  ## Run the native tests under ASan and UBSan.
	PYTHON=$(BIN)/python scripts/sanitize

clean:
	rm -rf $(VENV) $(VENV)-oldest build demo_data demo_warehouse
