# Two commands for a newcomer: `make demo` and `make test`. Both set the machine up themselves.
.DEFAULT_GOAL := build
SHELL := /bin/bash
JOBS ?= $(shell nproc)
export OCM_BIN_DIR := $(CURDIR)/build/release
export CCACHE_BASEDIR := $(CURDIR)

.PHONY: help setup build demo test test-unit test-cluster test-python test-sanitizers bench bench-warehouse fuzz lint install clean

help: ## these lines
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

setup: ## install what the build and the tests need (apt, pip into build/venv)
	@scripts/setup.sh

build: setup ## Release build into build/release
	@cmake --preset release -DPython_EXECUTABLE=$(CURDIR)/build/venv/bin/python >build/configure.log || { cat build/configure.log; exit 1; }
	@cmake --build --preset release -j $(JOBS)

demo: build ## the main job: TPC-H in the memory of three nodes, queried, with a report; ARGS="--sf 0.1 --keep"
	@PYTHONPATH=$(OCM_BIN_DIR)/python:$(CURDIR) build/venv/bin/python -B -m demo.main $(ARGS)

test: build ## everything that the gate runs
	@scripts/test.sh all

test-unit: build ## unit, conformance, simulation, API
	@scripts/test.sh unit

test-cluster: build ## real daemons, killed, stopped and cut off
	@scripts/test.sh cluster

test-python: build ## the Python package, with real nodes
	@scripts/test.sh python

test-sanitizers: build ## the same suites under address+undefined and thread sanitizers
	@scripts/test.sh sanitizers

bench: build ## ours beside the peers and the physical limits, then bench-warehouse; QUICK=1 for a few minutes
	@build/venv/bin/python bench/run.py $(if $(QUICK),--quick)
	@$(MAKE) --no-print-directory bench-warehouse

bench-warehouse: build ## tables in cluster memory: every goal of theirs, and the peers on the same queries; QUICK=1
	@PYTHONPATH=$(OCM_BIN_DIR)/python build/venv/bin/python -B bench/warehouse/run.py $(if $(QUICK),--quick)

fuzz: setup ## libFuzzer on every decoder, SECONDS_EACH=60
	@scripts/fuzz.sh $(or $(SECONDS_EACH),60)

lint: build ## clang-format and clang-tidy
	@scripts/lint.sh

install: build ## to PREFIX (default /usr/local)
	@cmake --install build/release --prefix $(or $(PREFIX),/usr/local)

clean: ## remove build/
	rm -rf build
