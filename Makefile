# Everything a developer or a new user types. `.ci/run` uses the same words.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SOURCES := api operator converter tests benchmarks
export PYTHONPATH := tests/cluster
export PYTHONSAFEPATH := 1
# Programs of the environment, such as Go, where the machine has none of its own.
export PATH := $(PATH):$(CURDIR)/$(BIN)
# Beside the test cluster's parts, so that whoever keeps those keeps this: it is compared by the files' contents.
export MYPY_CACHE_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/dataprep-test/mypy

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- set-up: nothing to do by hand -------------------------------------------------------------------------------

# The libraries' byte code is made on all cores, where pip takes one, and without what is large and nobody imports. Nor does anybody
# what can't be compiled.
COMPILE := $(BIN)/python -W ignore -m compileall -qq -j 0 -x '/(tests|kubernetes/aio)/' $(VENV)/lib || true

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV) || { apt-get update -q && apt-get install -q -y --no-install-recommends python3-venv && $(PYTHON) -m venv $(VENV); }

# What the installation compiles, where there is a C compiler.
NATIVE := converter/hatch_build.py converter/build_native.py $(wildcard converter/dataprep_converter/core/*.c)

$(VENV)/.demo: requirements/demo.txt pyproject.toml $(NATIVE) | $(VENV)/bin/python
	$(BIN)/pip install -q --disable-pip-version-check --no-compile --no-deps --require-hashes -r requirements/demo.txt
	$(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(COMPILE)
	touch $@

$(STAMP): requirements/dev.txt requirements/interop.txt pyproject.toml $(NATIVE) | $(VENV)/bin/python
	$(BIN)/pip install -q --disable-pip-version-check --no-compile --require-hashes -r requirements/dev.txt
	$(BIN)/pip install -q --disable-pip-version-check --no-compile --no-deps --require-hashes -r requirements/interop.txt
	$(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(COMPILE)
	touch $(VENV)/.demo $@

.PHONY: install
install: $(STAMP) ## make .venv with all that lint and tests need

# --- a look at it ------------------------------------------------------------------------------------------------

.PHONY: demo
demo: $(VENV)/.demo ## convert real MNIST digits to TFRecord shards on this machine, verify and show them
	$(BIN)/python examples/demo.py

# --- quality -----------------------------------------------------------------------------------------------------

.PHONY: format
format: $(STAMP) ## format the code
	$(BIN)/ruff check --fix --quiet $(SOURCES) examples
	$(BIN)/ruff format $(SOURCES) examples

.PHONY: lint
lint: $(STAMP) ## ruff, mypy --strict, import-linter, phrases that read as translated
	$(BIN)/ruff check $(SOURCES) examples
	$(BIN)/ruff format --check $(SOURCES) examples
	$(BIN)/mypy
	PYTHONPATH=api:operator:converter $(BIN)/lint-imports
	$(BIN)/python tests/lint/words.py $(SOURCES) examples docs README.md CONTRIBUTING.md CHANGELOG.md

.PHONY: generate
generate: $(STAMP) ## write the CRD, the chart's copy and the generated docs from the models
	$(BIN)/python -m dataprep_api.generate.crd
	$(BIN)/python -m dataprep_api.generate.fields_page
	$(BIN)/python -m dataprep_api.generate.reasons_page

.PHONY: verify
verify: $(STAMP) ## fail when a generated file is stale
	$(BIN)/python -m dataprep_api.generate.crd --check
	$(BIN)/python -m dataprep_api.generate.fields_page --check
	$(BIN)/python -m dataprep_api.generate.reasons_page --check

.PHONY: audit
audit: $(STAMP) ## known vulnerabilities of the packages in the images; asks PyPI for its advisories
	$(BIN)/pip-audit --strict --disable-pip --require-hashes -r requirements/operator.txt -r requirements/converter.txt || { \
	    echo "make audit: a package that 'could not be audited', or a connection that failed, means that PyPI's advisories can't be reached from here; nothing is known then." >&2; \
	    exit 1; }

.PHONY: sbom
sbom: $(STAMP) ## write the software bill of materials of both images (CycloneDX JSON) to build/sbom
	mkdir -p build/sbom
	for image in operator converter; do \
	    $(BIN)/cyclonedx-py requirements requirements/$$image.txt --output-reproducible --of JSON -o build/sbom/$$image.cdx.json; done

.PHONY: test
test: $(STAMP) ## all tests; those on the cluster run at the same time as those without
	tests/run

# What needs no server, no cluster and no foreign reader, without the pairs of the nightly matrices.
UNITS := not store and not cluster and not interop and not heavy and not nightly

.PHONY: test-fast
test-fast: $(STAMP) ## the units of all packages on all cores, in a minute and a half; ARGS='-k word' or paths for some of them
	$(BIN)/pytest -q -n auto --dist loadfile -m "$(UNITS) and not slow and not long" --ignore=tests/e2e --ignore=tests/interop --ignore=tests/fuzz $(ARGS)

.PHONY: test-unit
test-unit: $(STAMP) ## only what needs no server and no cluster
	$(BIN)/pytest -q -m "$(UNITS)"

.PHONY: nightly
nightly: $(STAMP) ## all pairs of the matrices, 60 rounds of damaged files, and every foreign reader as in `make interop`
	failed=0; \
	FUZZ=60 $(BIN)/pytest -q -m "not nightly" tests/fuzz tests/operator/test_model.py || failed=1; \
	CI=true INTEROP_REPORT=docs/interop.md $(BIN)/pytest -q -m "(nightly or interop or heavy) and not cluster" || failed=1; \
	exit $$failed

.PHONY: fuzz
fuzz: $(STAMP) ## damaged files for every reader, and random lives of jobs: FUZZ rounds of each (300)
	FUZZ=$${FUZZ:-300} $(BIN)/pytest -q tests/fuzz tests/operator/test_model.py

.PHONY: crashes
crashes: $(STAMP) ## kill a job at every operation of every store, and let zombies wake up at each (an hour, most of it HDFS)
	CRASHES=1 $(BIN)/pytest -q tests/converter/stores/test_crashes.py

.PHONY: faults
faults: $(STAMP) ## SEEDS (300) of faults between the converter and each store server, and their report: docs/faults.md
	CI=true SEEDS=$(or $(SEEDS),300) FAULTS_REPORT=docs/faults.md $(BIN)/pytest -q -m "not nightly" tests/converter/stores/test_faults.py tests/converter/stores/test_hdfs_dying.py

.PHONY: chaos
chaos: $(STAMP) ## kill the operator ROUNDS (100) times at random moments during JOBS (50) jobs on the test cluster
	CHAOS=$(or $(ROUNDS),100) CHAOS_JOBS=$(or $(JOBS),50) $(BIN)/python -m workbench test tests/e2e/test_operator_faults.py -k again_and_again -s

.PHONY: interop
interop: $(STAMP) ## every foreign reader, those too large for CI as well (7 GB, kept in the cache), and their report: docs/interop.md
	CI=true INTEROP_REPORT=docs/interop.md $(BIN)/pytest -q -m "interop or heavy"

.PHONY: memory
memory: $(STAMP) ## SIZE (2G) of each of KINDS (all) converted in a memory cgroup of 512 MiB (root, many minutes; no part of the tests)
	PYTHONPATH=$(PYTHONPATH):. $(BIN)/python tests/scale/memory.py --size $(or $(SIZE),2G) $(KINDS)

.PHONY: bench bench-peers bench-quick
bench-peers: $(STAMP) ## install the libraries that the benchmarks compare with, each in an environment of its own
	PYTHONPATH=$(PYTHONPATH):. $(BIN)/python -m benchmarks --install

bench: bench-peers ## WORKLOADS (all) beside their peers and limits, ROUNDS (5) of each; writes docs/benchmarks.md (many minutes; no part of the tests)
	PYTHONPATH=$(PYTHONPATH):. $(BIN)/python -m benchmarks --rounds $(or $(ROUNDS),5) $(if $(WORKLOADS),--only $(WORKLOADS))

bench-quick: $(STAMP) ## every workload once with little data, beside PEERS (those that start quickly): only prints
	PYTHONPATH=$(PYTHONPATH):. nice -n 15 $(BIN)/python -m benchmarks --quick --peers $(or $(PEERS),duckdb,numpy,sagemaker,vahidk,webdataset)

.PHONY: bench-operator
bench-operator: $(STAMP) ## the operator under load (ROWS, or all; MINUTES, or 80): thousands of jobs with played pods; writes docs/operator-load.md (root)
	PYTHONPATH=$(PYTHONPATH):. $(BIN)/python -m benchmarks.operator_load $(if $(ROWS),--only $(ROWS)) $(if $(MINUTES),--minutes $(MINUTES))

.PHONY: e2e
e2e: $(STAMP) ## only the tests on the cluster
	$(BIN)/python -m workbench test

# --- image, cluster, locks ---------------------------------------------------------------------------------------

.PHONY: image
image: $(STAMP) ## build both images with buildah
	$(BIN)/python -m workbench images

.PHONY: cluster-up
cluster-up: $(STAMP) ## start the test cluster and the store servers, and say how to use them
	$(BIN)/python -m workbench up

.PHONY: cluster-down
cluster-down: $(STAMP) ## stop them
	$(BIN)/python -m workbench down

.PHONY: lock
lock: $(STAMP) ## write the lock files from pyproject.toml
	UV=$(BIN)/uv PYTHON=$(BIN)/python requirements/lock

.PHONY: clean
clean: ## remove what was built here
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache demo-output
