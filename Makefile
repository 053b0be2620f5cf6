# Everything runs in .venv, which `make` creates on first use. `make demo` and `make test` need nothing else.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo docs test test-integrations test-slow check wheel bench bench-speed clean
.DELETE_ON_ERROR:

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $(READY)

export OMP_WAIT_POLICY ?= PASSIVE  # threads that wait must sleep, not spin

demo: $(READY) ## train two methods on the embedded digits and print both rows
	$(BIN)/python examples/demo.py

test: $(READY) ## all quick tests
	$(BIN)/python -m pytest -m "not slow and not integration" -n 2

test-integrations: $(READY) ## raretag inside the large packages of the dev extra
	$(BIN)/python -m pytest -m integration -n 2

test-slow: $(READY) ## the rest
	$(BIN)/python -m pytest -m slow

docs: $(READY) ## the generated pages, and the site in build/site (open build/site/index.html)
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/public_api.py
	$(BIN)/python docs/build_site.py
	$(BIN)/zensical build --clean --strict

wheel: ## wheel and source archive in dist/, checked; needs no .venv, so it runs on every Python
	$(PYTHON) -m venv build/packaging
	build/packaging/bin/python -m pip install --quiet --disable-pip-version-check build twine check-wheel-contents
	rm -rf dist
	build/packaging/bin/python -m build
	build/packaging/bin/twine check --strict dist/*
	build/packaging/bin/check-wheel-contents dist/*.whl

check: $(READY) ## lint, format, types, architecture
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_architecture.py

bench: $(READY) ## the table of six methods on the embedded digits
	$(BIN)/raretag bench quick

bench-speed: $(READY) ## sizes and speeds beside their goals: one table at the end
	touch .bench-started
	$(BIN)/python benchmarks/fused.py --rounds 7
	-$(BIN)/python benchmarks/metrics.py --rounds 3
	$(BIN)/python benchmarks/large_labels.py --rounds 1
	$(BIN)/python benchmarks/sampling.py
	$(BIN)/python benchmarks/labels.py
	-$(BIN)/python benchmarks/data_path.py --rounds 3
	-$(BIN)/python benchmarks/images.py
	$(BIN)/python benchmarks/growth.py --quick
	$(BIN)/python benchmarks/step_cost.py --rounds 9
	$(BIN)/python benchmarks/targets.py --since .bench-started

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis
