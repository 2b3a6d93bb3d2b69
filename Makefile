# run: the product with everything it needs.  test, lint: what the gate checks.  clean: start over.
# bench: what things cost, `ONLY=name` one of them.  soak: 200,000 messages while workers are killed.
# recovery: 100,000 letters brought back.
.DEFAULT_GOAL := run
.PHONY: run test lint bench soak recovery clean

PYTHONS = python3 python3.13 python3.12 python3.11
PY = .venv/bin/python
SERVICES = $(PY) -m deadletters.project services --
INSTALLED = .venv/.installed

run: $(INSTALLED)
	@$(PY) -m deadletters.project run

test: $(INSTALLED)
	@$(SERVICES) $(PY) -m pytest -n 2 --dist worksteal $(ARGS)

lint: $(INSTALLED)
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	find templates -name '*.html' -exec .venv/bin/djade --check --target-version 5.2 {} +
	$(PY) -c 'from importlinter.cli import lint_imports_command; lint_imports_command()' --no-cache
	$(SERVICES) $(PY) -m mypy
	DEADLETTERS_HTTPS=on $(SERVICES) $(PY) manage.py check --deploy --fail-level WARNING
	$(SERVICES) $(PY) manage.py makemigrations --check --dry-run

bench: $(INSTALLED)
	@$(PY) -m deadletters.project services --durable -- $(PY) -m tests.bench $(ONLY) $(ARGS)

soak: $(INSTALLED)
	@$(SERVICES) $(PY) -m tests.bench.soak $(ARGS)

recovery: $(INSTALLED)
	@$(SERVICES) $(PY) -m tests.bench.recovery $(ARGS)

clean:
	rm -rf .venv .venv-newest build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): requirements.lock pyproject.toml
	@for python in $(PYTHONS); do \
	  if "$$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then found="$$python"; break; fi; \
	done; \
	if [ -z "$$found" ]; then echo "Python 3.11, 3.12 or 3.13 is needed, and none of $(PYTHONS) is one." >&2; exit 1; fi; \
	if ! "$$found" -m venv --clear .venv; then echo "$$found cannot make .venv: its venv module is needed (Debian: apt-get install python3-venv)." >&2; exit 1; fi
	@echo "Installing into .venv (once) ..."
	@$(PY) -m pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
	@$(PY) -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation --no-index -e .
	@touch $(INSTALLED)
