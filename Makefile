# No activated environment is needed: every target uses .venv/bin directly.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
TORCH  ?= 2.13.0
TRITON ?= 3.7.1# the version that this torch asks for in its CUDA builds
ATHERIS := sys_platform == "linux" and platform_machine == "x86_64" and python_version < "3.14"

BIN   := .venv/bin
STAMP := .venv/.installed
SHARE ?= 1
export TANGENTBUNDLE_WIND ?= $(abspath $(wildcard ../shared/data/wind))
PIP_INSTALL := -m pip install -qq --disable-pip-version-check
JOBS  ?= 2# processes of `make test`

.DEFAULT_GOAL := help
.PHONY: help setup demo reproduce test test-slow coverage stress lint format bench docs lock wheel clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' Makefile | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(STAMP) ## create .venv with the locked dependencies and this package

$(STAMP): requirements.lock requirements.hashes pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: make setup PYTHON=/path/to/python" >&2; exit 1; }
	@echo "Installing into .venv (a few minutes the first time)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python $(PIP_INSTALL) --no-deps --require-hashes -r requirements.hashes
	@$(BIN)/python $(PIP_INSTALL) -r requirements.lock
	@$(BIN)/python $(PIP_INSTALL) --no-build-isolation --no-deps -e .
	@touch $@

demo: setup ## a field denoised and wind filled in: a table, a figure and a report in out/demo (half a minute)
	@$(BIN)/tangentbundle demo

reproduce: setup ## the paper's denoising table in its quick form, compared with the printed numbers (minutes)
	@$(BIN)/python -m experiments torus --quick --jobs 2 --out out/torus

test: setup ## run the test suite and the docstring examples (about 5 minutes on two cores; JOBS=2 processes)
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" -n $(JOBS) --dist loadfile

test-slow: setup ## run every test, the slow ones too
	@$(BIN)/python -m pytest --timeout=3600

coverage: setup ## print which lines of src the test suite runs (kernels in CUDA and LLVM count as not run)
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" -n $(JOBS) --dist loadfile --cov=tangentbundle --cov=tangentbundle_cli --cov-report=term:skip-covered

stress: setup ## fuzzing, kills, damage, threads and limits (minutes; more with SHARE=10, less with SHARE=0.02)
	@OMP_NUM_THREADS=1 $(BIN)/python -m stress --share $(SHARE)

lint: setup ## check style, formatting and types, and ask for known vulnerabilities
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/python scripts/audit.py

format: setup ## fix style and formatting
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: setup ## run the benchmarks that take minutes (all: python -m benchmarks --list)
	@$(BIN)/python -m benchmarks

docs: setup ## build the documentation into site/, to be read from disk
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "Wrote site/index.html"

wheel: setup ## build dist/tangentbundle-*.whl, which pipx and uv install (see docs/start.md)
	@rm -rf dist
	@$(BIN)/python -m pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps -w dist .
	@echo "Wrote $$(ls dist/*.whl)"

lock: ## write requirements.lock anew from a fresh environment
	@set -e; tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; \
	$(PYTHON) -m venv "$$tmp/venv"; py="$$tmp/venv/bin/python"; \
	"$$py" $(PIP_INSTALL) torch==$(TORCH) 'triton==$(TRITON); sys_platform == "linux"' hatchling editables; \
	"$$py" $(PIP_INSTALL) torch==$(TORCH) 'triton==$(TRITON); sys_platform == "linux"' '.[dev]'; \
	"$$py" -m pip list --format=freeze --disable-pip-version-check > "$$tmp/all"; \
	{ echo '# Exact versions of all that running, testing and building needs. Written by `make lock`, which'; \
	  echo '# installs the project with its dev extra into a fresh environment and lists what came.'; \
	  grep -viE '^(pip|tangentbundle|(nvidia|cuda)[a-z0-9_.-]*)==' "$$tmp/all" \
	  | sed -E 's/\+[^ ]*$$//; s/^(triton==.*)/\1 ; sys_platform == "linux"/; s/^(atheris==.*)/\1 ; $(ATHERIS)/'; } > "$$tmp/lock"; \
	cp "$$tmp/lock" requirements.lock; echo "Wrote requirements.lock"; \
	"$$py" scripts/lock_hashes.py

clean: ## remove .venv, caches and build outputs (results in out/ and runs/ stay)
	@rm -rf .venv dist build site .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
