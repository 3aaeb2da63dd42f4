# Needs Python 3.11 or later, git and make. What is needed is installed into .venv, once: for `run`
# the product, for all else the tools of developers too.

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import ensurepip, sqlite3, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && \
	echo $$p && break; done)
PY := .venv/bin/python
PIP := $(PY) -m pip --disable-pip-version-check -qq
SHELL := bash
UV ?= uv
WORKERS ?= 4
EXTRAS := $(addprefix --extra ,team server mcp a2a crypto postgres semantic)

.PHONY: help setup run suite pictures check test test-matrix docs bench soak reached lock release wheel clean

help:  ## what there is to make, which this says
	@echo 'make TARGET, where TARGET is one of:'
	@awk -F':[^#]*## ' '/^[a-z-]+:[^#]*## / {printf "  %-11s %s\n", $$1, $$2}' Makefile

run: .venv/.run  ## a team at work: in the terminal, then on its dashboard until Ctrl-C; without a key
	@.venv/bin/orchestrator demo

setup: .venv/.stamp  ## .venv, with all that the others need

suite: setup  ## the suite's main scenario, a few seeds; a gate that is missed is told, and is no error here
	@.venv/bin/brain-suite run landing_pages --runs 2 --no-grid || test $$? -eq 1

pictures: setup  ## the picture of the dashboard in docs/images anew; needs chromium
	@$(PY) -m docs.pictures

check: setup  ## in a minute: lint, types, contracts, and the tests that reach what changed since main
	@$(PY) -m ruff check --quiet
	@$(PY) -m ruff format --check --quiet
	@$(PY) -m mypy --no-error-summary
	@.venv/bin/lint-imports --no-logo
	@$(PY) -m bench.affected $(WORKERS)

test: setup  ## every check
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	@# Meanwhile one process compiles the tests, which each worker would do for itself.
	PYTHONDONTWRITEBYTECODE= $(PY) -m pytest -q --collect-only >/dev/null & $(PY) -m mypy; code=$$?; wait; exit $$code
	.venv/bin/lint-imports --no-logo
	PYTHONDONTWRITEBYTECODE= $(PY) -m pytest -q -n $(WORKERS) --dist worksteal

test-matrix: setup  ## what resolves beside the agent frameworks; asks the package index (needs uv)
	@UV=$(UV) $(PY) -m bench.matrix

docs: setup  ## the site of docs/ in site/, with its generated parts written anew
	$(PY) -m docs.generate
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict

bench: setup  ## speed, beside what people would use instead
	@$(PY) -m compileall -q synapse bench
	@$(PY) -m bench

soak: setup  ## the full form of the long checks; needs npm, for the real clients
	$(PY) -m pytest -m soak --timeout 7200 -o faulthandler_timeout=0

reached: setup  ## tests/reached.json anew, which says who reaches what: a whole run of the tests
	$(PY) -m bench.reached --workers $(WORKERS)

lock:  ## pins anew what pyproject.toml asks for (needs uv; nobody else does)
	$(UV) pip compile pyproject.toml $(EXTRAS) --group dev --universal --python-version 3.11 --upgrade --quiet \
		--generate-hashes --no-emit-index-url --no-emit-find-links \
		--custom-compile-command 'make lock' --output-file requirements.lock
	$(UV) pip compile pyproject.toml --extra team --extra server --group build --universal --python-version 3.11 --quiet \
		--constraint requirements.lock --generate-hashes --no-annotate --no-emit-index-url --no-emit-find-links \
		--custom-compile-command 'make lock' --output-file requirements-run.lock

release: setup  ## VERSION=…: sets the version, and makes a section of the changelog of the files in changes/
	@test -n "$(VERSION)" || { echo 'Say which: make release VERSION=0.3.0' >&2; exit 1; }
	@sed -i 's/^version = ".*"/version = "$(VERSION)"/' pyproject.toml
	@$(PY) -m towncrier build --yes --version $(VERSION)
	@$(MAKE) wheel

wheel: setup  ## a wheel in dist/, what it is made of (CycloneDX), and SHA256SUMS
	$(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist .
	@$(PY) -m bench.sbom dist

clean:  ## away with all that was made here
	rm -rf .venv dist site .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .clients .conformance

# Installs what a file pins, and says how far it is.
define INSTALL
@set -o pipefail; PYTHONUNBUFFERED=1 $(PY) -m pip --disable-pip-version-check install --no-deps --require-hashes -r $(1) | { \
	n=0; of=$$(grep -c '^[a-z].*==' $(1)); while read -r word rest; do case $$word in \
		Collecting|Ignoring|Requirement) n=$$((n + 1)); printf '\r  package %d of %d' $$n $$of;; \
		Installing) printf ', and now to their places';; esac; done; echo; }
endef

.venv/.run: requirements-run.lock pyproject.toml
	@test -n "$(PYTHON)" || { \
		echo 'Needs Python 3.11 or later with venv and sqlite3; or say: make PYTHON=/path/to/python3' >&2; exit 1; }
	@echo 'Setting up .venv, once:'
	@$(PYTHON) -m venv .venv
	$(call INSTALL,requirements-run.lock)
	@$(PIP) install --no-deps --no-build-isolation --no-index -e .
	@$(PY) -m compileall -q synapse orchestrator prompts scenarios
	@touch $@

.venv/.stamp: .venv/.run requirements.lock
	@echo 'The tools of developers, once:'
	$(call INSTALL,requirements.lock)
	@touch $@
