# The project's commands: `make demo` and `make test` need nothing but Python 3.11+, a C++17 compiler and make.
SHELL := /bin/bash
.SHELLFLAGS := -e -u -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
ifeq ($(origin CXX),default)
CXX := c++
endif
VENV ?= .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
EXTRAS := agents,cuda,data,dev,outside,render,sb3,torchrl
CUDA_SOURCES := $(wildcard cuda_src/*.c* cuda_src/*.h)
BUILD_INPUTS := pyproject.toml CMakeLists.txt constraints.txt cuda_src $(CUDA_SOURCES)

# One month of real one-minute bars where the data folder is present, else the embedded market.
REAL_BARS := $(wildcard ../shared/data/6EH4_1min_202401.csv.gz)
DEMO_DATA := $(if $(REAL_BARS),--data $(REAL_BARS) --contract 6E,--synthetic regimes)

.PHONY: help install demo test test-all lint lint-style lint-types lint-imports lint-cuda format kernels wheel benchmark ci clean

help: ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

install: $(STAMP) ## create the environment and install the package, editable, with every extra

demo: $(STAMP) ## train a small agent on real (or embedded) bars, validate it, say where the report is
	@run=runs/demo-$$(date +%Y%m%d-%H%M%S); \
	$(PY) scripts/train_dqn.py --preset smoke $(DEMO_DATA) --seed 0 --logdir $$run; \
	echo "Open $$run/report.html in a browser; see the curves with $(VENV)/bin/tensorboard --logdir $$run/tb"

test: $(STAMP) ## run the test suite (no GPU needed, under ten minutes on two cores)
	OMP_NUM_THREADS=1 $(PY) -m pytest -n auto --dist loadfile -m "not slow and not gpu"

test-all: $(STAMP) ## run every test, also the slow ones and, where a GPU is present, the GPU ones
	$(PY) -m pytest -m ""

lint: lint-style lint-types lint-imports lint-cuda ## ruff, mypy --strict, import rules, clang-format (make -k lint: all of them)

lint-style: $(STAMP)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

lint-types: $(STAMP)
	$(PY) -m mypy

lint-imports: $(STAMP)
	$(VENV)/bin/lint-imports --no-cache

lint-cuda: $(STAMP)
	$(VENV)/bin/clang-format --dry-run -Werror $(CUDA_SOURCES)

format: $(STAMP) ## rewrite the sources in the project's format
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .
	$(VENV)/bin/clang-format -i $(CUDA_SOURCES)

kernels: $(STAMP) ## compile every CUDA kernel with NVRTC for sm_80, sm_90 and sm_100 (no GPU needed)
	$(PY) -m fox_env.backends.nvrtc

wheel: $(STAMP) ## build the wheel and try it outside the source tree
	rm -rf dist
	$(PY) -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	$(PY) .ci/check_wheel.py dist

benchmark: $(STAMP) ## measure the environment and the training loop (BENCH_ARGS=--quick for a minute's worth)
	$(PY) benchmarks/env_throughput.py $(BENCH_ARGS)
	$(PY) benchmarks/train_throughput.py $(BENCH_ARGS)

ci: ## everything that continuous integration checks
	bash .ci/run

clean: ## remove what was built, keep the environment
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis $(STAMP)

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Fox needs Python 3.11 or newer, which '$(PYTHON)' is not: install it and run again, or name one with 'make PYTHON=python3.12 ...'." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -f $(PY); \
	  echo "'$(PYTHON) -m venv' failed: install the venv module (Debian, Ubuntu: apt-get install python3-venv) and run again." >&2; exit 1; }

$(STAMP): $(BUILD_INPUTS) | $(PY)
	@command -v $(firstword $(CXX)) >/dev/null || { \
	  echo "No C++ compiler '$(firstword $(CXX))': install one (Debian, Ubuntu: apt-get install g++) and run again, or name one with 'make CXX=clang++ ...'." >&2; exit 1; }
	@echo "Installing into $(VENV) (a few minutes the first time, most of it PyTorch) ..."
	@install() { CXX="$(CXX)" $(PY) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
	  --editable '.[$(EXTRAS)]'; }; \
	install || { echo "Trying once more, as package indices fail now and then ..." >&2; sleep 10; install; }
	@touch $@
