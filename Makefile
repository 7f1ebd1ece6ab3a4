# Two commands for a newcomer: `make demo` and `make test`. Both set the machine up themselves, as the others do.
.DEFAULT_GOAL := build
SHELL := /bin/bash
export OCM_BIN_DIR := $(CURDIR)/build/release

.PHONY: help setup build demo test test-style test-unit test-cluster test-python test-sanitizers test-long bench bench-warehouse fuzz lint install clean

help: ## these lines
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

setup: ## install what the build and the tests need (apt, pip into build/venv)
	@scripts/setup.sh

build: setup ## Release build into build/release
	@scripts/build.sh release

demo: began := $(shell date +%s)
demo: setup ## the main job: TPC-H in the memory of three nodes, queried, with a report; ARGS="--sf 0.1 --keep"
	@scripts/build.sh release oncillad ocm ocm_python oncilla-bfs
	@source scripts/parts.sh; echo "set up and built in $$(($$(date +%s) - $(began))) s;" \
	  "from nothing at most $$(budget_of 'make demo: set up and built') s on two cores"
	@PYTHONPATH=$(OCM_BIN_DIR)/python:$(CURDIR) build/venv/bin/python -B -m demo.main $(ARGS)

test: ## every suite in Release: style, units, models, simulation, real daemons, Python (20 minutes from nothing)
	@scripts/test.sh all

test-style: ## clang-format, ruff and mypy, over what git tracks
	@scripts/test.sh style

test-unit: ## units, conformance, models, simulation, API
	@scripts/test.sh unit

test-cluster: ## real daemons, killed, stopped and cut off
	@scripts/test.sh cluster

test-python: ## the Python package, the applications, the demo, with real nodes
	@scripts/test.sh python

test-sanitizers: ## units and daemons under address+undefined and thread sanitizers (half an hour from nothing)
	@scripts/test.sh sanitizers

test-long: ## hours: simulation and models in depth, soaks, fuzzers
	@scripts/test.sh long

bench: build ## ours beside the peers and the physical limits, then bench-warehouse; QUICK=1 for a few minutes
	@build/venv/bin/python bench/run.py $(if $(QUICK),--quick)
	@$(MAKE) --no-print-directory bench-warehouse

bench-warehouse: build ## tables in cluster memory: every goal of theirs, and the peers on the same queries; QUICK=1
	@PYTHONPATH=$(OCM_BIN_DIR)/python build/venv/bin/python -B bench/warehouse/run.py $(if $(QUICK),--quick)

fuzz: setup ## libFuzzer on every decoder, SECONDS_EACH=60
	@scripts/fuzz.sh $(or $(SECONDS_EACH),60)

lint: build ## what test-style checks, and clang-tidy
	@scripts/lint.sh

install: build ## to PREFIX (default /usr/local)
	@cmake --install build/release --prefix $(or $(PREFIX),/usr/local)

clean: ## remove build/
	rm -rf build
