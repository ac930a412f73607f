# Everything that a user, a developer or CI runs. The virtual environment is made on first use.
PYTHON ?= python3
VENV ?= .venv
NPROC ?= 2
BIN := $(VENV)/bin
# Most of the tests' time is waiting for processes: four workers keep two cores busy. tests/conftest.py says who takes what.
WORKERS ?= 4
# Thousands of processes import the package: Python must keep what it has compiled, whatever the environment says.
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q
PARALLEL := -n $(WORKERS) --dist loadgroup --no-loadscope-reorder

.PHONY: help run test test-all test-learn test-survival lint format typecheck docs site links bench install clean
help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# Without a GPU, torch's CPU build is asked for by its version first: a range would pull gigabytes of CUDA packages.
$(BIN)/.installed: setup.py
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ding_lite needs Python 3.11 or newer: set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	command -v nvidia-smi >/dev/null 2>&1 || $(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --editable '.[test,plot]'
	@touch $@

install: $(BIN)/.installed  ## make the virtual environment and install ding_lite into it

run: install  ## the main job: two processes learn Atari Pong together
	$(BIN)/python -m torch.distributed.launch --nproc_per_node=$(NPROC) dizoo/atari/pong_dqn_ddp_config.py

test: install  ## the test suite
	$(PYTEST) $(PARALLEL)

test-all: install  ## the test suite with the slow variants that `make test` leaves out
	$(PYTEST) $(PARALLEL) -m "not learn and not survival"

test-learn: install  ## the learning runs: do the algorithms solve what they should, on one and two processes
	$(PYTEST) -m learn

test-survival: install  ## the long version of what a run must survive: kills, faults, fuzzing, machines cut off; an hour
	$(PYTEST) -m survival
	for name in resume kills faults fuzz_checkpoints fuzz_configs fuzz_features machines; do \
		echo "== $$name"; $(BIN)/python -m tests.survival.$$name || exit 1; \
	done

lint: install  ## style and mistakes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: install  ## bring the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

typecheck: install  ## types of the package and its tests
	$(BIN)/mypy

docs: install  ## generate the config reference, the lists of algorithms and configs, and the reading-cost count
	$(BIN)/python docs/make_config_reference.py
	$(BIN)/python docs/make_algorithm_lists.py
	$(BIN)/python docs/make_dizoo_list.py
	$(BIN)/python docs/reading_cost.py --write

# -W: a warning, such as a link inside the site that leads nowhere, is an error
SPHINX = $(BIN)/python -m sphinx -q -W --keep-going -j 2 docs docs/_build
site: install  ## the site, from the pages of docs and the docstrings, into docs/_build/index.html
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	$(SPHINX)

links: site  ## do the links to other sites lead somewhere? needs a network
	$(SPHINX)/links -b linkcheck

bench: install  ## all benchmarks, three hours; peers that are not installed are skipped, see tests/benchmarks/README.md
	for name in env_rate replay_memory gradient_averaging scaling traffic scale_model compare peak_memory offline rpc rollout_dataset forms learning; do \
		echo "== $$name"; $(BIN)/python -m tests.benchmarks.$$name || exit 1; \
	done

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) build docs/_build *.egg-info .pytest_cache .ruff_cache .mypy_cache
