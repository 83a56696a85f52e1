# Either command is enough on a fresh machine: the first use builds .venv, later uses find it up to date.
.PHONY: test demo lint clean
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

demo: .venv/ready
	$(BIN)/python examples/demo.py

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache out
