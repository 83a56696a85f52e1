# Either command is enough on a fresh machine: the first use builds .venv, later uses find it up to date.
.PHONY: test suite thorough demo docs wheel release lint style types browser chromium clean
PYTHON ?= python3
BIN = .venv/bin
unexport PYTHONDONTWRITEBYTECODE  # tests start the command some fifty times: it is compiled once

.venv/ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

# Types are checked beside the tests: on a fresh machine that takes one core half a minute.
test: .venv/ready style
	@$(MAKE) --no-print-directory --jobs 2 types suite

# One process for each core and one thread in each: threads that share a core wait for each other.
suite: .venv/ready
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n auto --dist worksteal

# Ten times as many random problems, for a change to an exact decoder or its checker.
thorough: .venv/ready
	QGT_THOROUGH=1 OMP_NUM_THREADS=1 $(BIN)/pytest -q -n auto --dist worksteal

lint: style types

style: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/ready
	$(BIN)/mypy

# The page, walked through in Chromium, which is installed where it is missing and we may.
browser: .venv/ready chromium
	$(BIN)/pytest -q -m browser tests/browser

chromium:
	command -v chromium > /dev/null || { apt-get update -qq && apt-get install -y -qq chromium; }

demo: .venv/ready
	$(BIN)/python examples/demo.py

# The site, from the pages in docs: a broken link, an unknown name and any other warning is an error.
docs: .venv/docs
	OMP_NUM_THREADS=1 $(BIN)/sphinx-build -q -W --keep-going -c docs . docs/_build
	@echo 'Wrote the site: open docs/_build/index.html.'

.venv/docs: .venv/ready
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch $@

# The package: built, installed into an empty environment, and used there.
wheel: .venv/ready
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -m wheel tests/test_wheel.py

# Everything that must be right before a version is tagged; builds dist/ at the end.
release: .venv/ready
	$(BIN)/python benchmarks/release.py
	@$(MAKE) --no-print-directory test docs wheel
	$(BIN)/python -m hatchling build -d dist

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache out docs/_build docs/reference
