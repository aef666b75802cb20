# Everything runs in a local .venv that the first target makes; a second run is quick.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint types docs bench clean

help: ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV) (once, a minute or two) ..."
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
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

bench: $(STAMP) ## accounting benchmarks
	$(BIN)/python -m benchmarks.accounting

clean: ## remove what was made
	rm -rf $(VENV) site build .mypy_cache .ruff_cache .pytest_cache
