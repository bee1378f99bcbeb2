# The whole contributor interface. `make check` is for every change; `make test` also fetches the brokers and tests with them.
# Both work from a fresh clone.

VENV := .venv
PACKAGES := $(VENV)/.packages
STAMP := $(VENV)/.installed
PYTEST_ARGS ?=
# How tests are spread over processes. loadfile needs the order of the slow files in tests/conftest.py, worksteal does not.
DIST ?= loadfile
# What needs neither brokers nor Spark.
QUICK_TESTS = -m "not nightly and not brokers" tests/unit tests/golden tests/hostile tests/contract tests/papers $(wildcard tests/test_*.py)

# Packages are compiled when they are first used, and this keeps what was compiled also where the environment forbids it: a
# hundred processes of `make test` would compile PySpark and the program anew, for 1.4 s of CPU each.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help check install jars demo test faults faults-all soak seeds bench docs lint clean distclean check-python check-java

help:
	@echo "make check     lint, types and every test that needs no broker, in a minute and a half"
	@echo "make install   a virtual environment in $(VENV) with everything in it"
	@echo "make demo      two clusters on this machine and a mirror between them"
	@echo "make test      all tests; PYTEST_ARGS=\"-k wire\" for some of them"
	@echo "make faults    the quick rows of docs/faults.md; make faults-all runs every row and writes that page (hours)"
	@echo "make soak      40 minutes of load with a fault every minute (MINUTES=, SEED=); make seeds: random faults (SEEDS=, N=)"
	@echo "make bench     throughput and latency beside MirrorMaker 2"
	@echo "make docs      write the generated pages and the console blocks of README.md and docs/ (STAGES=offsets for some)"
	@echo "make lint      ruff and mypy"
	@echo "make jars      fetch the Kafka brokers that demo, test and bench use (once, 55 MB)"
	@echo "make clean     remove caches; make distclean removes $(VENV) too"

# PySpark comes as source, and pip makes a wheel of it only to unpack it: not compressed, that takes 16 s of CPU less. Meanwhile
# the others are installed.
PIP = $(VENV)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check
PINNED = $(VENV)/bin/python tests/pinned.py

install: $(STAMP)

$(PACKAGES): pyproject.toml | check-python check-java
	@test -x $(VENV)/bin/python || $$($(FIND_PYTHON)) -m venv $(VENV)
	@echo "installing into $(VENV) (PySpark alone takes 490 MB: this can take minutes the first time)"
	@spark=$$($(PINNED) pyspark) && others=$$($(PINNED) --but pyspark) && { \
		$(PIP) --no-deps --config-settings=--build-option=--compression=stored $$spark & building=$$!; \
		$(PIP) $$others; status=$$?; wait $$building && exit $$status; }
	@$(PIP) --editable ".[dev]"
	@touch $@

$(STAMP): $(PACKAGES)
	@$(VENV)/bin/python -m sparkmirror.transforms
	@touch $@

jars: install
	@$(VENV)/bin/python -m sparkmirror.local

demo: install
	@$(VENV)/bin/sparkmirror demo

# Here no file shares a broker, so that tests may go to whichever process is free.
check: lint
	@$(VENV)/bin/python -m pytest -q -n logical --dist worksteal --tb=short $(QUICK_TESTS) $(PYTEST_ARGS)

# The brokers are fetched, Spark's start is prepared and a browser is installed (as root, where apt is) while the first tests,
# which need none of them, run; a test that needs one waits for it. Without a browser the tests of the page are skipped.
test: $(PACKAGES)
	@$(VENV)/bin/python -m sparkmirror.local >/dev/null & fetching=$$!; \
	$(VENV)/bin/python -m sparkmirror.transforms & preparing=$$!; \
	PYTHONPATH=tests $(VENV)/bin/python -m browser & installing=$$!; \
	$(VENV)/bin/python -m pytest -v -n 3 --dist $(DIST) --no-loadscope-reorder --tb=short --durations=10 $(PYTEST_ARGS); \
	status=$$?; wait $$installing; wait $$fetching && wait $$preparing && exit $$status

faults: jars
	@$(VENV)/bin/python -m pytest -v -n 3 --dist $(DIST) --no-loadscope-reorder --tb=short --durations=10 \
		-m "fault and not nightly" $(PYTEST_ARGS)

# In parts, too: PYTEST_ARGS="-k F12" runs one row, and the results of the others stay as they were.
faults-all: jars
	@PYTHONPATH=tests $(VENV)/bin/python -m faults $(PYTEST_ARGS)

# A shorter soak than the page tells of is not put there.
soak: jars
	@PYTHONPATH=tests $(VENV)/bin/python -m faults.soak --seed $(or $(SEED),1) $(if $(MINUTES),--minutes $(MINUTES),--page)

seeds: jars
	@PYTHONPATH=tests $(VENV)/bin/python -m faults.chaos $(or $(SEEDS),1) $(if $(N),--count $(N)) --page

bench: jars
	@$(VENV)/bin/python -m bench

# Console blocks are what their commands print on local clusters; papers/staging.py says what each stage sets up.
docs: jars
	@$(VENV)/bin/python -m sparkmirror.config > docs/configuration.md
	@$(VENV)/bin/python -m sparkmirror.diagnose > docs/doctor.md
	@PYTHONPATH=tests $(VENV)/bin/python -m papers $(STAGES)

lint: $(PACKAGES)
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/mypy

clean:
	@rm -rf build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find sparkmirror tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	@rm -rf $(VENV)

# Prints the newest Python that is new enough, or nothing. A name on the PATH may be a shim that does not run.
FIND_PYTHON = for python in python3.13 python3.12 python3.11 python3; do \
	$$python -c "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))" >/dev/null 2>&1 \
	&& { echo $$python; break; }; done

check-python:
	@test -x $(VENV)/bin/python || test -n "$$($(FIND_PYTHON))" \
	|| { echo "sparkmirror: python 3.11 or newer with venv is missing (apt install python3 python3-venv)" >&2; exit 1; }

check-java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	version=$$("$$java" -version 2>&1 | sed -n "s/.*version \"\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p" | head -n 1); \
	test "$${version:-0}" -ge 17 \
	|| { echo "sparkmirror: java 17 or newer is missing, found $${version:-none} (apt install openjdk-17-jre-headless)" >&2; exit 1; }
