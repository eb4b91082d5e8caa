# Every target sets up what it needs, once, in .venv.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: setup test check demo serve clients docs reference format bench clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt tools/setup.py
	@$(PYTHON) tools/setup.py
	@touch $(READY)

test: $(READY)
	@$(BIN)/python -m pytest

check: $(READY)
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(MAKE) --no-print-directory docs
	@$(MAKE) --no-print-directory test

demo: $(READY)
	@$(BIN)/clmpt demo

# The page on the world's countries, from nothing.
serve: $(READY)
	@test -d clmpt-world || $(BIN)/clmpt demo
	@$(BIN)/clmpt serve clmpt-world

# SPARQL clients of JavaScript: a library and an editor, for the tests that use them.
clients:
	@mkdir -p .venv/node
	@cd .venv/node && npm install --silent --no-audit --no-fund sparql-http-client@3 @triply/yasgui@4

# The documentation as a site in site/; a warning is an error.
docs: $(READY)
	@$(BIN)/zensical build --clean --strict

reference: $(READY)
	@$(BIN)/python tools/reference.py

format: $(READY)
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(READY)
	@$(BIN)/python benchmarks/solving.py
	@$(BIN)/python benchmarks/sampling.py
	@$(BIN)/python benchmarks/scale.py
	@$(BIN)/python benchmarks/pretrain.py
	@$(BIN)/python benchmarks/reasoning.py
	@$(BIN)/python benchmarks/side_by_side.py

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist site
