# Either command is enough on a fresh machine: the first use builds .venv, later uses find it up to date.
.PHONY: test demo lint browser chromium clean
PYTHON ?= python3
BIN = .venv/bin

.venv/ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

test: .venv/ready lint
	$(BIN)/pytest -q

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The page, walked through in Chromium, which is installed where it is missing and we may.
browser: .venv/ready chromium
	$(BIN)/pytest -q -m browser tests/browser

chromium:
	command -v chromium > /dev/null || { apt-get update -qq && apt-get install -y -qq chromium; }

demo: .venv/ready
	$(BIN)/python examples/demo.py

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache out
