# Every target sets up what it needs: a virtual environment with pinned versions.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
STAMP := $(VENV)/.installed

.PHONY: demo test clients check dist docs constraints clean

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

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python .ci/english.py
	$(BIN)/python -m mcranker.cli.reference | diff -u docs/cli.md -
	$(BIN)/python -m mcranker.cli.reference beir_eval.cli:cli | diff -u docs/beir-eval.md -
	$(BIN)/python -m mcranker.cli.reference mcranker.cli.personas.group:cli | diff -u docs/personas.md -

dist: $(STAMP)
	$(BIN)/hadolint deploy/Dockerfile
	$(BIN)/python .ci/distribution.py build/distribution

docs: $(STAMP)
	$(BIN)/python -m mcranker.cli.reference > docs/cli.md
	$(BIN)/python -m mcranker.cli.reference beir_eval.cli:cli > docs/beir-eval.md
	$(BIN)/python -m mcranker.cli.reference mcranker.cli.personas.group:cli > docs/personas.md

constraints: $(STAMP)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --universal --extra local --extra eval --extra ranx --extra hub --extra browser --extra mcp \
		--extra langchain --extra llamaindex --extra haystack --extra pyterrier --extra dev \
		--python-version 3.11 --no-annotate --no-header \
		--no-emit-index-url --quiet --output-file constraints.txt pyproject.toml

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "MCRanker needs Python 3.11 or newer; run: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[local,eval]'
	touch $(READY)

$(STAMP): $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[local,eval,ranx,browser,mcp,langchain,llamaindex,haystack,pyterrier,dev]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
