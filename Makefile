# Every target sets up what it needs: a virtual environment with pinned versions.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
STAMP := $(VENV)/.installed

EXTRAS := local eval rag office ranx anova hub browser mcp langchain llamaindex haystack pyterrier ray dev
RESOLVE := $(BIN)/uv pip compile --quiet --python-version 3.11 --no-annotate --no-header \
	--no-emit-index-url $(addprefix --extra ,$(EXTRAS))
# What talks to libraries whose versions others choose.
LOWEST ?= tests/mcranker/llm/providers tests/mcranker/integrations/test_adapters.py

.PHONY: demo test clients check dist docs site constraints lowest clean

demo: $(READY)
	$(BIN)/mcranker demo

test: $(STAMP)
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal

# The client packages of other rerankers, each list in an environment of its own.
clients:
	for list in sdks frameworks; do \
		$(PYTHON) -m venv build/clients/$$list && \
		build/clients/$$list/bin/python -m pip install --quiet --upgrade pip && \
		build/clients/$$list/bin/python -m pip install --quiet --editable '.[serve]' --requirement tests/clients/$$list.txt && \
		build/clients/$$list/bin/python -m pytest -W ignore -m clients tests/clients || exit 1; \
	done

check: $(STAMP) site
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python .ci/english.py
	$(BIN)/python -m mcranker.cli.reference | diff -u docs/cli.md -
	$(BIN)/python -m mcranker.cli.reference beir_eval.cli:cli | diff -u docs/beir-eval.md -
	$(BIN)/python -m mcranker.cli.reference mcranker.cli.group:personas | diff -u docs/personas.md -

dist: $(STAMP)
	$(BIN)/hadolint deploy/Dockerfile
	$(BIN)/python .ci/distribution.py build/distribution

docs: $(STAMP)
	$(BIN)/python -m mcranker.cli.reference > docs/cli.md
	$(BIN)/python -m mcranker.cli.reference beir_eval.cli:cli > docs/beir-eval.md
	$(BIN)/python -m mcranker.cli.reference mcranker.cli.group:personas > docs/personas.md

# The documentation as a site in build/site; a broken link or anchor is an error.
site: $(STAMP)
	$(BIN)/zensical build --strict --clean

constraints: $(STAMP)
	$(RESOLVE) --universal --output-file constraints.txt pyproject.toml

# The lowest versions that pyproject.toml allows, in an environment of their own.
lowest: $(STAMP)
	mkdir -p build
	$(RESOLVE) --resolution lowest-direct --output-file build/lowest.txt pyproject.toml
	$(BIN)/uv venv --quiet --clear build/lowest
	$(BIN)/uv pip install --quiet --python build/lowest --requirement build/lowest.txt
	$(BIN)/uv pip install --quiet --python build/lowest --no-deps --editable .
	build/lowest/bin/python -m pytest --quiet $(LOWEST)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "MCRanker needs Python 3.11 or newer; run: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[local,eval]'
	touch $(READY)

$(STAMP): $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[local,eval,rag,office,ranx,anova,browser,mcp,langchain,llamaindex,haystack,pyterrier,dev]' uv
	touch $(STAMP)

clean:
	rm -rf $(VENV) build dist .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis
