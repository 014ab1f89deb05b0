# Two commands do all the set-up: `make demo` shows the product, `make test` proves it. `make lab` opens JupyterLab.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
BUNDLE := torchprof_magic/static/report.js
TORCH  := torch==2.13.0
FRONT  := $(shell find js/src widgets js/scripts -type f 2>/dev/null) js/package.json torchprof_magic/render/palette.json

.PHONY: demo test lab check bench fuzz stress clean chromium

demo: $(VENV)/.installed $(BUNDLE)
	mkdir -p build
	$(BIN)/python scripts/demo.py

lab: $(VENV)/.installed $(BUNDLE)
	$(BIN)/jupyter lab --notebook-dir=notebooks

test: $(VENV)/.tested $(BUNDLE) chromium
	PATH="$(abspath $(BIN)):$$PATH" scripts/check
	cd js && npm test && npm run size
	$(BIN)/python -m pytest -n auto --dist loadfile

check: $(VENV)/.tested $(BUNDLE)
	PATH="$(abspath $(BIN)):$$PATH" scripts/check

bench: $(VENV)/.tested $(BUNDLE)
	$(BIN)/python benchmarks/ingest.py --events 150000 850000 $(if $(HTA),--hta $(HTA))
	$(BIN)/python benchmarks/large.py
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/first_load.py
	cd js && npm run --silent bench

# N inputs, each broken from its own seed; a failure leaves its input in build/fuzz.
fuzz: $(VENV)/.tested
	$(BIN)/python tests/stress/fuzz.py --inputs $(or $(N),100000)

stress: $(VENV)/.tested
	$(BIN)/python tests/stress/interrupts.py --runs 200
	$(BIN)/python tests/stress/interrupts.py --runs 50 --raw
	$(BIN)/python tests/stress/sequences.py --runs 1000
	$(BIN)/python tests/stress/store_kills.py --runs 200

# torch comes first and pinned: a bare `torch` would bring gigabytes of CUDA libraries.
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.torch: $(VENV)/bin/python
	$(BIN)/pip install -q --disable-pip-version-check $(TORCH)
	touch $@

$(VENV)/.installed: $(VENV)/.torch $(BUNDLE) pyproject.toml
	$(BIN)/pip install -q --disable-pip-version-check -e '.[lab]' nbclient
	touch $@

$(VENV)/.tested: $(VENV)/.installed
	$(BIN)/pip install -q --disable-pip-version-check -e '.[lab,test]'
	touch $@

js/node_modules/.package-lock.json: js/package.json js/package-lock.json
	@command -v npm >/dev/null || { echo 'npm was not found: install Node.js 20 or newer (nodejs and npm)'; exit 1; }
	cd js && npm ci --no-audit --no-fund
	touch $@

$(BUNDLE): js/node_modules/.package-lock.json $(FRONT)
	cd js && npm run build
	touch $@

# The end-to-end tests drive the system's own Chromium; nothing else may download a browser.
chromium:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || scripts/install-chromium

clean:
	rm -rf $(VENV) build dist torchprof_magic/static js/node_modules
