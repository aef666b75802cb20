# Everything runs in a local .venv that the first target makes; a second run is quick.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint types docs bench bench-quick bench-accounting bench-secure-sums reproduce audit clean \
	browser-test demonstrations deploy-demo deploy-test soak

help: ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

$(STAMP): pyproject.toml experiments/pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV) (once, a minute or two) ..."
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]' -e experiments
	@touch $(STAMP)

setup: $(STAMP) ## make .venv with everything in it

demo: $(STAMP) ## the main job, from nothing
	@$(BIN)/tacit demo

test: $(STAMP) ## set-up and all tests
	$(BIN)/python -m pytest --numprocesses 2 --dist loadgroup

lint: $(STAMP) ## ruff: lint and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## mypy, strict
	$(BIN)/mypy

docs: $(STAMP) ## build the documentation; a broken link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(STAMP) ## speed against the peers, scaling, accounting (about an hour)
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.scaling
	$(BIN)/python -m benchmarks.overheads
	$(BIN)/python -m benchmarks.speed.page
	$(BIN)/python -m benchmarks.accounting

bench-secure-sums: $(STAMP) ## what a secure sum costs (a minute)
	$(BIN)/python -m benchmarks.secure_sums

bench-quick: $(STAMP) ## speed of Tacit alone, under 5 minutes
	$(BIN)/python -m benchmarks.speed --quick

bench-accounting: $(STAMP) ## accounting benchmarks
	$(BIN)/python -m benchmarks.accounting

reproduce: $(STAMP) ## all tables and figures, and the results page; goes on where it was
	$(BIN)/tacit reproduce all
	$(BIN)/tacit reproduce page --readme README.md

demonstrations: $(STAMP) ## known attacks without privacy and at stated budgets, with pictures (ten minutes)
	$(BIN)/python -m experiments.demonstrations

audit: $(STAMP) ## attack every mechanism and method, and write the audit page (half an hour)
	$(BIN)/python -m pytest tests/audit
	$(BIN)/python tests/audit/broken.py
	$(BIN)/python -m experiments.audits

browser-test: $(STAMP) ## every page of the documentation, the report and the live view in chromium (some minutes)
	TACIT_EVERY_PAGE=1 $(BIN)/python -m pytest tests/browser

deploy-demo: $(STAMP) ## a server and three hospitals as real processes, over TLS
	@$(BIN)/tacit deploy demo

deploy-test: $(STAMP) ## the deployment between real processes (some minutes)
	TACIT_PROCESSES=1 $(BIN)/python -m pytest tests/deployment/test_processes.py

soak: $(STAMP) ## the deployment under SIGKILL and over hundreds of rounds
	$(BIN)/python -m benchmarks.deployment overhead
	$(BIN)/python -m benchmarks.deployment soak
	$(BIN)/python -m benchmarks.deployment kills
	$(BIN)/python -m benchmarks.deployment secure

clean: ## remove what was made
	rm -rf $(VENV) .bench site build .mypy_cache .ruff_cache .pytest_cache
