# `make demo` and `make test` only need make and Python 3.11 or newer; the first call builds .venv.
# `make TARGET VENV_PYTHON=python3` uses that interpreter, and installs nothing.

PYTHON ?= python3
VENV := .venv
AUTOGLUON_VENV := .venv-autogluon
TRITON := .venv-triton
PIP_INSTALL = $(@D)/bin/python -m pip install --quiet --disable-pip-version-check

ifeq ($(origin VENV_PYTHON),undefined)
VENV_PYTHON := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
INSTALLED_BENCH := $(VENV)/.installed-bench
endif

.DEFAULT_GOAL := help
.PHONY: help demo test lint types format test-portable test-portable-short test-slow test-gpu test-kernels test-wheel test-autogluon docs bench lock clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-19s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(INSTALLED)  ## fit a table, compare with simple models, draw a small machine with its equations
	$(VENV_PYTHON) -m tabgnm demo

test: lint types  ## lint, types, tests, and every code block of the documentation
	$(VENV_PYTHON) -m pytest -n 2 --dist loadfile

lint: $(INSTALLED)  ## check style and formatting
	$(VENV_PYTHON) -m ruff check .
	$(VENV_PYTHON) -m ruff format --check .

types: $(INSTALLED)  ## check types
	$(VENV_PYTHON) -m mypy

format: $(INSTALLED)  ## format the code, fix what can be fixed, copy descriptions of parameters into docstrings
	$(VENV_PYTHON) .ci/parameter_docs.py
	$(VENV_PYTHON) -m ruff check --fix .
	$(VENV_PYTHON) -m ruff format .

test-portable: $(INSTALLED)  ## the numerically sensitive tests under other instruction sets and thread counts
	$(VENV_PYTHON) .ci/portable.py

test-portable-short: $(INSTALLED)  ## two of these settings, for CI
	$(VENV_PYTHON) .ci/portable.py --short

test-slow: $(INSTALLED)  ## the tests that take longer
	$(VENV_PYTHON) -m pytest -m "slow and not gpu"

test-gpu: $(INSTALLED)  ## the tests that need a CUDA device
	$(VENV_PYTHON) -m pytest -m gpu

test-kernels: $(TRITON)/.installed  ## the tests of GPU kernels without a GPU, in Triton's interpreter
	TRITON_INTERPRET=1 PYTHONPATH=.:$(TRITON) $(VENV_PYTHON) -m pytest -n 2 -p tests.training.interpreted_kernels -o filterwarnings=ignore \
		-m gpu tests/training/test_cuda_kernels.py tests/training/test_cuda_step.py

test-wheel: $(INSTALLED)  ## build the wheel, install it alone, and use the package from there
	$(VENV_PYTHON) .ci/wheel.py

# AutoGluon needs an older pandas than requirements.lock has.
test-autogluon: $(AUTOGLUON_VENV)/.installed  ## the model class for AutoGluon, in its own environment
	$(AUTOGLUON_VENV)/bin/python -m pytest tests/autogluon

docs: $(INSTALLED)  ## build the documentation site into site/; warnings are errors
	NO_MKDOCS_2_WARNING=1 $(VENV_PYTHON) -m mkdocs build --strict

bench: $(INSTALLED_BENCH)  ## run the benchmarks
	$(VENV_PYTHON) -m benchmarks

lock: $(VENV)/bin/python  ## update the lock files
	$(VENV)/bin/python .ci/lock.py

clean:  ## remove caches and build output, but no environments
	rm -rf build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis tabgnm-demo tabgnm-demo.png
	find . -path "./$(VENV)*" -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python $(AUTOGLUON_VENV)/bin/python: %/bin/python:
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || { echo "the lock files require Python 3.11 or newer; use make PYTHON=python3.11 ..."; exit 1; }
	$(PYTHON) -m venv $* || { rm -rf $*; exit 1; }

# --no-deps: nothing may replace the versions in the lock file.
$(VENV)/.installed: requirements.lock pyproject.toml | $(VENV)/bin/python
	$(PIP_INSTALL) -r requirements.lock
	$(PIP_INSTALL) --no-deps --editable .
	@touch $@

# --no-deps: XGBoost would install a GPU package, and CatBoost two plotting packages.
$(VENV)/.installed-bench: requirements-bench.lock $(VENV)/.installed
	$(PIP_INSTALL) --no-deps --constraint requirements.lock -r requirements-bench.lock
	@touch $@

# In a folder of its own, because torch would use it for other things if it were in the environment.
$(TRITON)/.installed: $(INSTALLED)
	$(VENV_PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps --target $(TRITON) triton==3.9.0
	@touch $@

$(AUTOGLUON_VENV)/.installed: requirements-autogluon.lock pyproject.toml | $(AUTOGLUON_VENV)/bin/python
	$(PIP_INSTALL) -r requirements-autogluon.lock
	$(PIP_INSTALL) --no-deps --editable .
	@touch $@
