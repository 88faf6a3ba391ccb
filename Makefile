# Every target sets itself up in .venv: all it takes is Python 3.11 or later, pip and make.
# PYTHON chooses the interpreter the environment is made of, WORKERS the test processes (0: none).

PYTHON ?= python3
WORKERS ?= 2

BASE_IMAGE ?= python:3.12-slim
POSTGRES_IMAGE ?= postgres:17
NGINX_IMAGE ?= nginx:stable

VENV := .venv
BIN := $(VENV)/bin
PLAIN := $(VENV)/.plain
READY := $(VENV)/.ready
PIP_FLAGS := --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-quick test-certificates test-faults test-lowest lock image validation check bench docs dist clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv and install the package in it, with its development tools

demo: $(PLAIN) ## solve a problem, print the tables, reproduce the paper at a small scale, all in demo/
	$(BIN)/deco demo --out demo
	$(BIN)/deco reproduce all --scale quick --out demo

# machine code is kept on disk by the content of the kernels: compile once, before the workers share
# it; each worker takes a half of the files, so that what a file's tests share is made once, and
# helps the other when it is done
test: $(READY) ## run the tests; first the quick ones, with coverage
	$(BIN)/deco warmup --all
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --cov --cov-report= @tests/quick.txt
	$(BIN)/python tests/helpers/coverage_by_room.py
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --durations=10 $(addprefix --ignore=,$(shell cat tests/quick.txt))

# tests/quick.txt lists some fast files of every room
test-quick: $(READY) ## run the quick tests: two minutes
	$(BIN)/deco warmup --all
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal @tests/quick.txt

# the newest versions are tested by `make test`; these are the oldest that pyproject.toml allows
test-lowest: $(READY) ## run the tests with the lowest direct dependencies, in .venv-lowest
	$(BIN)/python -m pip install $(PIP_FLAGS) --editable ".[lock]"
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-lowest
	$(BIN)/uv pip install --quiet --python .venv-lowest/bin/python --resolution lowest-direct --editable ".[dev]"
	.venv-lowest/bin/deco warmup --all
	.venv-lowest/bin/python -m pytest -n $(WORKERS) --dist worksteal $(TESTS)

lock: $(READY) ## write the lock file of the container image and its SBOM, in deploy/
	$(BIN)/python -m pip install $(PIP_FLAGS) --editable ".[lock]"
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.12 --extra server --extra postgres \
	  --generate-hashes --no-emit-index-url --no-annotate --no-header pyproject.toml --output-file deploy/requirements.lock
	$(BIN)/python deploy/write_sbom.py deploy/requirements.lock deploy/sbom.cdx.json

# DECO_CERTIFICATES certificates, and a tenth as many that were tampered with
test-certificates: $(READY) ## check 10,000 random certificates, and 1,000 false ones
	DECO_CERTIFICATES=$${DECO_CERTIFICATES:-10000} $(BIN)/python -m pytest tests/bounds/test_certificates.py tests/prices/test_rounding.py

test-faults: $(READY) ## strike trials with DECO_FAULTS faults (1000), check that nothing was lost, write docs/reliability.md
	cd tests && ../$(BIN)/python -m helpers.faults

# deploy/compose.yaml reads deploy/.env; the digests are those of the registry on this day
image: ## build the container image on a base named by its digest, and write the digests to deploy/.env
	@umask 077; \
	for pair in BASE_IMAGE=$(BASE_IMAGE) POSTGRES_IMAGE=$(POSTGRES_IMAGE) NGINX_IMAGE=$(NGINX_IMAGE); do \
	  docker pull --quiet "$${pair#*=}" > /dev/null && \
	  echo "$${pair%%=*}=$$(docker image inspect --format '{{index .RepoDigests 0}}' "$${pair#*=}")" || exit 1; \
	done > deploy/.env.new; \
	grep -sv '^[A-Z]*_IMAGE=' deploy/.env >> deploy/.env.new; \
	mv deploy/.env.new deploy/.env
	docker build --build-arg "$$(sed -n 's/^BASE_IMAGE=/BASE=/p' deploy/.env)" --tag decobandit .

# the report says which commit, packages and files the results are of
validation: $(READY) ## run all tests, join them to docs/validation/requirements.toml, write validation.html
	-$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -o junit_family=xunit1 --junit-xml=validation-results.xml
	$(BIN)/python tools/validation.py --results validation-results.xml

check: $(READY) ## lint, formatting, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY) ## measure, print one table beside peers and limits, write docs/performance.md
	$(BIN)/python -m benchmarks

docs: $(READY) ## build the documentation in docs/_build/html; warnings are errors
	$(BIN)/python -m pip install $(PIP_FLAGS) --editable ".[docs]"
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

dist: $(READY) ## build wheel and sdist in dist/, install the wheel in an empty environment, run the demo from there
	rm -rf dist build/dist-check
	$(BIN)/python -m hatchling build -d dist
	$(BIN)/python -m venv build/dist-check
	build/dist-check/bin/python -m pip install $(PIP_FLAGS) "$$(ls dist/*.whl)[plot,trials]"
	cd build/dist-check && bin/deco demo --out demo && bin/deco selftest --report selftest.html

# machine code of kernels stays, in the user's cache folder: it is never out of date
clean: ## remove the environment, caches and everything that was generated
	rm -rf $(VENV) .venv-lowest demo benchmarks/results docs/_build docs/gallery docs/notebooks docs/reference/generated tests/artifacts validation.html validation-results.xml dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# _version.py is listed because the installed metadata is a copy of it.
# Some systems ship venv without ensurepip: there, the pip that exists puts one into .venv.
define make_venv
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
  { echo "Python 3.11 or later is needed: make PYTHON=/path/to/python3.11" >&2; exit 1; }
@echo "setting up $(VENV)"
@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV) 2>/dev/null || \
  { $(PYTHON) -m venv --clear --without-pip $(VENV) && \
    $(PYTHON) -m pip $(PIP_FLAGS) --python $(BIN)/python install pip; }
endef

$(PLAIN): pyproject.toml src/decobandit/_version.py # the package and its figures
	$(make_venv)
	$(BIN)/python -m pip install $(PIP_FLAGS) --editable ".[plot]"
	@touch $@

$(READY): pyproject.toml src/decobandit/_version.py # and the development tools
	$(make_venv)
	$(BIN)/python -m pip install $(PIP_FLAGS) --editable ".[dev]"
	@touch $(PLAIN) $@
