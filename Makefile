# Each goal sets up what it needs. A fresh machine needs Python 3.11 or newer, make, and nothing else.
PYTHON ?= python3
BIN := .venv/bin
ARGS ?=

.PHONY: demo dev test pooler check lint types imports mutants faults explore endure wheel constraints clean

demo: .venv/.installed      ## the whole job on real parts: make demo ARGS="--seed 7 --cases 300"
	$(BIN)/acuse demo $(ARGS)

dev: .venv/.installed       ## everything on the embedded pair, until Ctrl-C
	$(BIN)/acuse dev $(ARGS)

test: .venv/.installed      ## all rings that need no browser
	$(BIN)/pytest $(ARGS)

pooler: .venv/.installed    ## the integration ring behind a pgbouncer in transaction mode, which must be installed
	ACUSE_TEST_PGBOUNCER=1 $(BIN)/pytest -q $(if $(TESTS),$(TESTS),tests/integration) $(ARGS)

check: lint types imports test  ## what CI runs

lint: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.installed
	$(BIN)/mypy
	$(BIN)/mypy tests/typing

imports: .venv/.installed
	$(BIN)/lint-imports

faults: .venv/.installed    ## the fault matrix on real processes: make faults ARGS="--filter 'claim*' --json faults.json"
	$(BIN)/acuse faults $(ARGS)

explore: .venv/.installed   ## random schedules of everybody on a real PostgreSQL: make explore ARGS="--schedules 5000 --seed 1 --json explore.json"
	$(BIN)/acuse explore $(ARGS)

endure: .venv/.installed    ## ten thousand effects, while processes and servers go down: make endure ARGS="--effects 3000 --seed 7"
	$(BIN)/acuse endure $(ARGS)

mutants: .venv/.installed   ## breaks each invariant's mechanism once and shows which test notices
	$(BIN)/python tests/mutants/run.py $(ARGS)

wheel: .venv/.installed
	rm -rf dist
	$(BIN)/python -m build --wheel --outdir dist .

.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "Acuse needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

constraints:                ## needs uv; pins every dependency, without index addresses
	uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --no-header --no-annotate --no-emit-index-url -o constraints.txt

clean:
	rm -rf .venv dist build
