# One way to run things. Every target works in a fresh clone: it makes the environment that it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := -m pytest -n 3 --dist loadfile --no-loadscope-reorder
NATIVE := CMakeLists.txt $(wildcard platform/native/* platform/ps/native/* algorithms/layers/native/*)

.PHONY: demo wheel release test test-slow test-rest test-torch oldest check docs bench gpu sequences auto scale chaos fuzz simulate sanitize format clean

# The environment is made once, and what a target takes is added to it: the package for editing, and groups of pyproject.toml.
# uv installs in a fraction of pip's time. Where it finds less, pip does it, which has the machine's own settings.
$(VENV)/.made:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet uv || $(BIN)/python -m pip install --quiet "pip>=25.1"
	touch $@

INSTALL = $(BIN)/uv pip install --quiet --python $(BIN)/python --editable $(1) 2>/dev/null || { \
	$(BIN)/python -m pip install --quiet "pip>=25.1" && $(BIN)/python -m pip install --quiet --editable $(1); }

$(VENV)/.demo: pyproject.toml $(NATIVE) | $(VENV)/.made
	$(call INSTALL,. --group examples)
	touch $@

$(VENV)/.dev: pyproject.toml $(NATIVE) | $(VENV)/.made
	$(call INSTALL,. --group dev)
	touch $(VENV)/.demo $@

$(VENV)/.bench $(VENV)/.fuzz: $(VENV)/.%: $(VENV)/.dev
	$(call INSTALL,. --group dev --group $*)
	touch $@

$(VENV)/.torch: $(VENV)/.dev
	$(call INSTALL,'.[torch]' --group dev)
	touch $@

demo: $(VENV)/.demo  ## Train on all flights that left New York in 2013, from SQL.
	$(BIN)/python examples/flights_data.py demo_data
	rm -rf demo_warehouse
	$(BIN)/xpsql run examples/flights.sql -D data=demo_data --warehouse demo_warehouse

wheel:  ## Build the wheels and the source distribution in dist/, check and try them; ARCHES=x86_64, PYTHONS=3.11: some of them.
	$(PYTHON) -m venv $(VENV)-wheel
	$(VENV)-wheel/bin/python -m pip install --quiet uv
	$(VENV)-wheel/bin/python scripts/wheels.py

release:  ## Check everything and build what a release has; publishes nothing.
	scripts/release

test: $(VENV)/.dev  ## Run every test but the lengthy and slow ones, three files at a time.
	$(BIN)/python $(PYTEST) -m 'not lengthy and not slow and not costly'

test-slow: $(VENV)/.dev  ## Run the lengthy tests, those of Spark behind Spark Connect, and the slow ones, compiled as for users.
	$(BIN)/python $(PYTEST) -m 'lengthy and not slow and not costly'
	XPSQL_TEST_REMOTE=local $(BIN)/python $(PYTEST) -m 'not slow and not costly'
	XPSQL_TEST_FUSED=1 $(BIN)/python $(PYTEST) -m '(slow or twice) and not costly'

test-rest: $(VENV)/.dev  ## Run what the other two leave: further cases that take seconds.
	$(BIN)/python $(PYTEST) -m costly

test-torch: $(VENV)/.torch  ## Run the tests with PyTorch, which others skip; PIP_EXTRA_INDEX_URL may name one of CPU builds.
	$(BIN)/python -m pytest tests/algorithms/bridges tests/examples/test_networks.py tests/parameters tests/examples/test_dlrm.py

oldest:  ## Run every test on the oldest versions of packages that pyproject.toml allows, in an environment of its own.
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip install --quiet uv
	$(VENV)-oldest/bin/uv pip install --quiet --python $(VENV)-oldest/bin/python --resolution lowest-direct --editable . --group dev
	$(VENV)-oldest/bin/python $(PYTEST) -W default

check: $(VENV)/.dev  ## Lint, format and types.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict -p xpsql

$(VENV)-docs/.made: pyproject.toml
	$(PYTHON) -m venv $(VENV)-docs
	uv pip install --quiet --python $(VENV)-docs/bin/python --group docs 2>/dev/null || { \
	$(VENV)-docs/bin/python -m pip install --quiet "pip>=25.1" && $(VENV)-docs/bin/python -m pip install --quiet --group docs; }
	touch $@

docs: $(VENV)-docs/.made  ## Make a site of docs/ in build/site, in an environment of its own that lacks xpsql.
	NO_MKDOCS_2_WARNING=1 $(VENV)-docs/bin/mkdocs build --quiet --strict
	$(VENV)-docs/bin/python docs/site_check.py build/site

bench: $(VENV)/.bench  ## Print the figures that docs/figures.md shows; ONLY="training cores": of some groups; ROWS=4000000.
	$(BIN)/python -m benchmarks $(if $(ONLY),--only $(ONLY)) $(if $(ROWS),--rows $(ROWS))

gpu: $(VENV)/.dev  ## Hold a GPU to the CPU and measure it, in ten minutes; without one, JAX's CPU backend in small sizes.
	$(BIN)/python -m benchmarks.gpu

sequences: $(VENV)/.dev  ## Measure long histories and sequence models; DATA=folder: published logs; ONLY="speed": some steps.
	$(BIN)/python -m benchmarks.sequences $(if $(ONLY),--only $(ONLY)) $(if $(DATA),--data $(DATA))
	$(BIN)/python docs/results.py

auto: $(VENV)/.bench  ## Measure USING auto beside other tools; DATA=folder: published logs; ONLY="kuairand told": some steps; BUDGET=300.
	$(BIN)/python -m benchmarks.auto $(if $(ONLY),--only $(ONLY)) $(if $(DATA),--data $(DATA)) $(if $(BUDGET),--seconds $(BUDGET))
	$(BIN)/python docs/results.py

scale: $(VENV)/.dev  ## Calibrate, validate and run the simulation of many machines, for docs/how_far.md; ONLY="curves": some steps.
	$(BIN)/python -m benchmarks.scale $(if $(ONLY),--only $(ONLY)) $(if $(FORCE),--force)
	$(BIN)/python docs/results.py

chaos: $(VENV)/.dev  ## Try every fault, for hours, and write the tables of docs/faults.md; PARTS=faults EVERY=51 takes minutes.
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
	rm -rf $(VENV) $(VENV)-docs $(VENV)-oldest $(VENV)-wheel build dist demo_data demo_warehouse
