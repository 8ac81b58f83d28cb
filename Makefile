# Works from a fresh clone: every target that needs the environment makes it first.
#
#   PYTHON=python3.12   interpreter for .venv (default: the first suitable one found)
#   WORKERS=4           test processes
#   PYTEST_ARGS=...     more arguments for pytest, e.g. PYTEST_ARGS="-k mesh -x"

SHELL = /bin/sh
VENV = .venv
BIN = $(VENV)/bin
RUNTIME = $(VENV)/.runtime
INSTALLED = $(VENV)/.installed
WORKERS ?= 2

PIP = $(BIN)/python -m pip --disable-pip-version-check
NEEDS = partir needs git, GNU make and Python 3.11 to 3.13 with venv: apt install git make python3-venv
# Prints the version of a suitable interpreter, fails for any other.
SUITABLE = import sys, venv, ensurepip; v = sys.version_info; v[:2] in {(3, 11), (3, 12), (3, 13)} or sys.exit(1); print(*v[:2], sep=".")

.PHONY: help setup runtime check test test-jax bench bench-cpu bench-tpu bench-gpu demo lint format clean

help:
	@echo "make setup    create $(VENV) with everything that the other targets need"
	@echo "make check    lint, then the quick tests: some of every package, in two minutes"
	@echo "make test     lint, then run the tests"
	@echo "make test-jax VERSION=0.9.2   the tests on another jax, in an environment of its own"
	@echo "make bench    measure on this machine, then write benchmarks/results/book.md"
	@echo "make bench-tpu, bench-gpu, bench-cpu   what compilers make of programs, ours beside Shardy's"
	@echo "make demo     partition and run a small transformer on 8 virtual devices"
	@echo "make lint     ruff, mypy and the import contracts"
	@echo "make format   apply ruff's fixes and formatting"
	@echo "make clean    remove $(VENV) and all caches"
	@echo
	@echo "PYTHON=python3.12 chooses the interpreter of $(VENV)."

# If PYTHON is given and differs from the interpreter of .venv, .venv is made anew.
setup: runtime
	@$(MAKE) --no-print-directory --silent $(INSTALLED)

# What partir itself needs, which is enough for the demo.
runtime:
	@if [ -n "$(PYTHON)" ] && [ -e $(RUNTIME) ]; then \
	    wanted=`$(PYTHON) -c '$(SUITABLE)' 2>/dev/null` || { echo "$(PYTHON) will not do. $(NEEDS)" >&2; exit 1; }; \
	    [ "`$(BIN)/python -c '$(SUITABLE)' 2>/dev/null`" = "$$wanted" ] || rm -f $(RUNTIME) $(INSTALLED); \
	fi
	@$(MAKE) --no-print-directory --silent $(RUNTIME)

$(RUNTIME): pyproject.toml constraints.txt
	@case "$(MAKE_VERSION)" in [3-9].*) ;; *) echo "$(NEEDS)" >&2; exit 1;; esac
	@command -v git >/dev/null || { echo "$(NEEDS)" >&2; exit 1; }
	@for python in $${PYTHON:-python3 python3.13 python3.12 python3.11}; do \
	    version=`$$python -c '$(SUITABLE)' 2>/dev/null` && break; \
	done; \
	[ -n "$$version" ] || { echo "$(NEEDS)" >&2; exit 1; }; \
	found=`$(BIN)/python -c '$(SUITABLE)' 2>/dev/null`; \
	if [ -z "$$found" ] || { [ -n "$$PYTHON" ] && [ "$$found" != "$$version" ]; } \
	    || ! $(PIP) --version >/dev/null 2>&1; then \
	    echo "Creating $(VENV) with Python $$version"; \
	    $$python -m venv --clear $(VENV); \
	fi
	@echo "Installing partir and what it needs into $(VENV)"
	$(PIP) install --constraint constraints.txt hatchling
	$(PIP) install --constraint constraints.txt --no-build-isolation --editable .
	@touch $(RUNTIME)

$(INSTALLED): $(RUNTIME)
	@echo "Installing what the tests need into $(VENV) (several hundred megabytes the first time)"
	$(PIP) install --constraint constraints.txt --no-build-isolation --editable ".[dev,frameworks,models]"
	@touch $(INSTALLED)

test: lint
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

check: lint
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m quick $(PYTEST_ARGS)

demo: runtime
	$(BIN)/partir demo

# Another version of jax, in an environment of its own, with the frameworks that fit it.
# A package that can't be installed beside this jax is left out, by name.
JAX_VENV = .venv-jax-$(VERSION)
JAX_PIP = $(JAX_VENV)/bin/python -m pip --disable-pip-version-check
ADDITIONS = flax optax dm-haiku equinox jraph==0.0.6.dev0 mctx transformers==4.57.6

test-jax: runtime
	@[ -n "$(VERSION)" ] || { echo "say which: make test-jax VERSION=0.9.2" >&2; exit 1; }
	@[ -e $(JAX_VENV)/bin/python ] || $(BIN)/python -m venv $(JAX_VENV)
	$(JAX_PIP) install --quiet hatchling "jax==$(VERSION)" hypothesis==6.170.15 pytest==9.2.0 pytest-xdist==3.8.0
	$(JAX_PIP) install --quiet --no-build-isolation --editable . "jax==$(VERSION)"
	@for package in $(ADDITIONS); do \
	    $(JAX_PIP) install --quiet "jax==$(VERSION)" "$$package" || echo "left out on jax $(VERSION): $$package"; \
	done
	$(JAX_VENV)/bin/python -m pytest -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

# Compilers for devices that are not there, each in an environment of its own, so that
# partir itself needs neither. BENCH_ARGS="--layers 4 --models MLP" chooses what to compile.
TPU_VENV = .venv-tpu
GPU_VENV = .venv-gpu
BENCH_ARGS ?= --write

# Ten to twenty minutes on two idle cores. What needs other environments, or hours, is taken
# into the book as it was measured last.
bench: setup
	$(BIN)/python -m benchmarks.pairs --write
	$(BIN)/python -m benchmarks.partition_time --no-meshes --write
	$(BIN)/python -m benchmarks.composability --write
	$(BIN)/python -m benchmarks.lines_of_code --write
	$(BIN)/python -m benchmarks.book

bench-cpu: setup
	$(BIN)/python -m benchmarks.compilers cpu $(BENCH_ARGS)

bench-tpu: runtime
	@[ -e $(TPU_VENV)/bin/python ] || $(BIN)/python -m venv $(TPU_VENV)
	$(TPU_VENV)/bin/python -m pip install --quiet --constraint constraints.txt hatchling jax libtpu==0.0.42.1
	$(TPU_VENV)/bin/python -m pip install --quiet --constraint constraints.txt --no-build-isolation --editable .
	$(TPU_VENV)/bin/python -m benchmarks.compilers tpu $(BENCH_ARGS)

bench-gpu: runtime
	@[ -e $(GPU_VENV)/bin/python ] || $(BIN)/python -m venv $(GPU_VENV)
	$(GPU_VENV)/bin/python -m pip install --quiet --constraint constraints.txt hatchling jax
	$(GPU_VENV)/bin/python -m pip install --quiet --no-deps jax-cuda12-plugin==0.10.2 jax-cuda12-pjrt==0.10.2 nvidia-cuda-nvcc-cu12==12.9.86
	$(GPU_VENV)/bin/python -m pip install --quiet --constraint constraints.txt --no-build-isolation --editable .
	$(GPU_VENV)/bin/python -m benchmarks.compilers gpu $(BENCH_ARGS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .venv-jax-* $(TPU_VENV) $(GPU_VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
