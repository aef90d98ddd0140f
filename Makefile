# All commands for developers and new users. CI (`.ci/run`) uses the same commands.
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
# If the machine lacks a program, such as Go, the program in the environment is used.
export PATH := $(PATH):$(CURDIR)/$(BIN)
# This cache is next to the test cluster's files, so both are kept together. mypy compares source files by their contents.
export MYPY_CACHE_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/dataprep-test/mypy

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- setup, which runs automatically -----------------------------------------------------------------------------

# Compiles the libraries' byte code on all cores, because pip uses only one core. Large packages that are never imported are left out. Files
# that can't be compiled are ignored, because they are never imported either.
COMPILE := $(BIN)/python -W ignore -m compileall -qq -j 0 -x '/(tests|kubernetes/aio)/' $(VENV)/lib || true

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV) || { apt-get update -q && apt-get install -q -y --no-install-recommends python3-venv && $(PYTHON) -m venv $(VENV); }

# The sources that the installation compiles if there is a C compiler.
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
install: $(STAMP) ## make .venv with all packages for lint and tests

# --- demo --------------------------------------------------------------------------------------------------------

.PHONY: demo
demo: $(VENV)/.demo ## convert real MNIST digits to TFRecord shards on this machine, then verify and show the shards
	$(BIN)/python examples/demo.py

# --- quality -----------------------------------------------------------------------------------------------------

.PHONY: format
format: $(STAMP) ## format the code
	$(BIN)/ruff check --fix --quiet $(SOURCES) examples
	$(BIN)/ruff format $(SOURCES) examples

.PHONY: lint
lint: $(STAMP) ## run ruff, mypy --strict, import-linter, and a check for unidiomatic phrases
	$(BIN)/ruff check $(SOURCES) examples
	$(BIN)/ruff format --check $(SOURCES) examples
	$(BIN)/mypy
	PYTHONPATH=api:operator:converter $(BIN)/lint-imports
	$(BIN)/python tests/lint/words.py $(SOURCES) examples docs README.md CONTRIBUTING.md CHANGELOG.md

.PHONY: generate
generate: $(STAMP) ## write the CRD, the chart's copy, the JSON Schema and the generated docs from the models
	$(BIN)/python -m dataprep_api.generate.crd
	$(BIN)/python -m dataprep_api.generate.fields_page
	$(BIN)/python -m dataprep_api.generate.json_schema
	$(BIN)/python -m dataprep_api.generate.reasons_page
	$(BIN)/python -m dataprep_io.reference

.PHONY: verify
verify: $(STAMP) ## fail if a generated file is out of date
	$(BIN)/python -m dataprep_api.generate.crd --check
	$(BIN)/python -m dataprep_api.generate.fields_page --check
	$(BIN)/python -m dataprep_api.generate.json_schema --check
	$(BIN)/python -m dataprep_api.generate.reasons_page --check
	$(BIN)/python -m dataprep_io.reference --check

.PHONY: audit
audit: $(STAMP) ## list known vulnerabilities of the packages in the images, from PyPI's advisories
	$(BIN)/pip-audit --strict --disable-pip --require-hashes -r requirements/operator.txt -r requirements/converter.txt -r requirements/spark.txt || { \
	    echo "make audit: a package that 'could not be audited', or a connection that failed, means that PyPI's advisories can't be reached from here. In that case, vulnerabilities remain unknown." >&2; \
	    exit 1; }

.PHONY: sbom
sbom: $(STAMP) ## write the software bill of materials of the images (CycloneDX JSON) to build/sbom
	mkdir -p build/sbom
	for image in operator converter spark; do \
	    $(BIN)/cyclonedx-py requirements requirements/$$image.txt --output-reproducible --of JSON -o build/sbom/$$image.cdx.json; done

.PHONY: test
test: $(STAMP) ## run all tests; tests on the cluster and other tests run at the same time
	tests/run

# The tests that need no server, no cluster and no third-party reader, without the nightly combinations.
UNITS := not store and not cluster and not interop and not heavy and not nightly

.PHONY: test-fast
test-fast: $(STAMP) ## run the unit tests of all packages on all cores (a minute and a half); select tests with ARGS='-k word' or paths
	$(BIN)/pytest -q -n auto --dist loadfile -m "$(UNITS) and not slow and not long" --ignore=tests/e2e --ignore=tests/interop --ignore=tests/fuzz $(ARGS)

.PHONY: test-unit
test-unit: $(STAMP) ## run only the tests that need no server and no cluster
	$(BIN)/pytest -q -m "$(UNITS)"

.PHONY: nightly
nightly: $(STAMP) ## run all nightly tests, all examples of property tests, 60 rounds of damaged files, third-party readers, and the tests on the cluster
	failed=0; \
	FUZZ=60 $(BIN)/pytest -q -m "not nightly" tests/fuzz tests/operator/reconcilers/test_model.py || failed=1; \
	EXAMPLES=1 $(BIN)/pytest -q -m "hypothesis and not nightly and not cluster" || failed=1; \
	CI=true EXAMPLES=1 INTEROP_REPORT=docs/interop.md $(BIN)/pytest -q -m "(nightly or interop or heavy) and not cluster" || failed=1; \
	DATAPREP_TEST_NIGHTLY=yes $(MAKE) e2e || failed=1; \
	exit $$failed

.PHONY: fuzz
fuzz: $(STAMP) ## run FUZZ (300) rounds of damaged files for every reader, and of random sequences of events for the operator
	FUZZ=$${FUZZ:-300} $(BIN)/pytest -q tests/fuzz tests/operator/reconcilers/test_model.py

.PHONY: crashes
crashes: $(STAMP) ## kill a job at every operation of every store, and let a paused process continue at every operation (hours, mostly for HDFS)
	CRASHES=1 $(BIN)/pytest -q tests/converter/stores/test_crashes.py tests/converter/stores/test_fencing.py

.PHONY: faults
faults: $(STAMP) ## test random faults from SEEDS (300) seeds between the converter and each store server, and write docs/faults.md
	CI=true SEEDS=$(or $(SEEDS),300) FAULTS_REPORT=docs/faults.md $(BIN)/pytest -q -m "not nightly" tests/converter/stores/test_faults.py tests/converter/stores/test_hdfs_dying.py

.PHONY: chaos
chaos: $(STAMP) ## kill the operator ROUNDS (100) times at random moments during JOBS (50) jobs on the test cluster
	CHAOS=$(or $(ROUNDS),100) CHAOS_JOBS=$(or $(JOBS),50) $(BIN)/python -m workbench test tests/e2e/test_operator_faults.py -k again_and_again -s

.PHONY: interop
interop: $(STAMP) ## test every third-party reader, even those too large for CI (7 GB, kept in the cache), and write docs/interop.md
	CI=true INTEROP_REPORT=docs/interop.md $(BIN)/pytest -q -m "interop or heavy"

.PHONY: real-data
real-data: $(STAMP) ## convert the tables that some packages contain, compare each value with other programs, and write docs/real-data.md
	CI=true REAL_DATA_REPORT=docs/real-data.md $(BIN)/pytest -q -m nightly tests/interop/test_real_tables.py

.PHONY: notebooks
notebooks: $(STAMP) ## run the notebooks of examples/notebooks in a Jupyter kernel (one on the test cluster), and store their outputs
	CI=true NOTEBOOKS=write $(BIN)/pytest -q tests/interop/test_notebooks.py tests/e2e/test_notebook.py -k "not killed"

.PHONY: memory
memory: $(STAMP) ## convert SIZE (2G) of each of KINDS (all) within 512 MiB of memory (needs root and many minutes; not part of the tests)
	PYTHONPATH=$(PYTHONPATH):. $(BIN)/python tests/scale/memory.py --size $(or $(SIZE),2G) $(KINDS)

.PHONY: bench bench-peers bench-quick
bench-peers: $(STAMP) ## install the libraries that the benchmarks compare with, each in a separate environment
	PYTHONPATH=$(PYTHONPATH):. $(BIN)/python -m benchmarks --install

bench: bench-peers ## measure WORKLOADS (all), ROUNDS (5) of each, and write docs/benchmarks.md (many minutes; not part of the tests)
	PYTHONPATH=$(PYTHONPATH):. $(BIN)/python -m benchmarks --rounds $(or $(ROUNDS),5) $(if $(WORKLOADS),--only $(WORKLOADS))

bench-quick: $(STAMP) ## run every workload once with little data, and print the results; PEERS names the libraries to compare (default: quick starters)
	PYTHONPATH=$(PYTHONPATH):. nice -n 15 $(BIN)/python -m benchmarks --quick --peers $(or $(PEERS),duckdb,numpy,sagemaker,vahidk,webdataset)

.PHONY: bench-operator
bench-operator: $(STAMP) ## measure the operator with thousands of simulated jobs (ROWS: all; MINUTES: 80), and write docs/operator-load.md (needs root)
	PYTHONPATH=$(PYTHONPATH):. $(BIN)/python -m benchmarks.operator_load $(if $(ROWS),--only $(ROWS)) $(if $(MINUTES),--minutes $(MINUTES))

.PHONY: scale
scale: $(STAMP) ## plan 10 million simulated files, measure workers and commits, and write docs/scale.md (SCALE=all: 100 million; ROWS; AT: sizes)
	PYTHONPATH=$(PYTHONPATH):. $(BIN)/python -m benchmarks.scale --sizes $(or $(SCALE),usual) $(if $(ROWS),--only $(ROWS)) $(if $(AT),--at $(AT))

.PHONY: bench-scan
bench-scan: $(STAMP) ## measure how long 1, 2, 4 and 8 scan pods take if the store limits the speed of each connection (15 minutes)
	PYTHONPATH=$(PYTHONPATH):. $(BIN)/python -m benchmarks.scan_pods

.PHONY: bench-start
bench-start: $(STAMP) ## measure the processor time of a worker pod from its start to its first read of input
	PYTHONPATH=$(PYTHONPATH):. $(BIN)/python -m benchmarks.worker_start

.PHONY: bench-write
bench-write: $(STAMP) ## compare dataprep_io.write with dataprep run, which reads the same data from Parquet (RECORDS: 1000000; ROUNDS: 3)
	PYTHONPATH=$(PYTHONPATH):. $(BIN)/python -m benchmarks.python_write $(if $(RECORDS),--records $(RECORDS)) $(if $(ROUNDS),--rounds $(ROUNDS))

.PHONY: bench-mnist
bench-mnist: $(STAMP) ## compare a small job on an idle cluster with dataprep run and with an empty pod (needs root)
	PYTHONPATH=$(PYTHONPATH):. $(BIN)/python -m benchmarks.mnist_on_cluster

.PHONY: e2e
e2e: $(STAMP) ## run only the tests on the cluster; with DATAPREP_TEST_NIGHTLY=yes, also the nightly tests on the cluster
	$(BIN)/python -m workbench test

# --- image, cluster, locks ---------------------------------------------------------------------------------------

.PHONY: image
image: $(STAMP) ## build the images of the operator and the converter with buildah
	$(BIN)/python -m workbench images

.PHONY: cluster-up
cluster-up: $(STAMP) ## start the test cluster and the store servers, and print how to use them
	$(BIN)/python -m workbench up

.PHONY: cluster-down
cluster-down: $(STAMP) ## stop the test cluster and the store servers
	$(BIN)/python -m workbench down

.PHONY: lock
lock: $(STAMP) ## write the lock files from pyproject.toml
	UV=$(BIN)/uv PYTHON=$(BIN)/python requirements/lock

.PHONY: clean
clean: ## remove all files that were built here
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache demo-output
