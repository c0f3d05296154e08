# Every target first sets up what it needs, and only when pyproject.toml or constraints.txt has changed
# since. PYTHON=/path/to/python3 picks the interpreter (3.11 or newer); pip's own settings say where
# packages come from.

# The tests start hundreds of Pythons, and each would compile lancekit anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo notebooks browser check test tests bare lab bench performance docs lint fix matrix torture releases setup proto pins newest binder

VENV := .venv
RUN := $(VENV)/bin
# A variable, because a call would be cut at its commas.
EVERYTHING := -e '.[dev,lab,java]'
DOCS_EXTRA := import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
	print(*project['optional-dependencies']['docs'])
QUICK := 'not spark and not over_connect and not notebook and not browser and not torture'
# The oldest release of the reference implementation that datasets are exchanged with.
PYLANCE4 := .venv-pylance4
DOCS := .venv-docs

help: ## List the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 13

demo: $(VENV)/.ready ## Run three notebooks on real data, and say where to look
	@$(RUN)/python notebooks/run_demo.py

notebooks: $(VENV)/.ready ## Run all notebooks, and compare what they show with what is saved
	@$(RUN)/python -m pytest -q --whole -m notebook tests/notebook/test_notebooks.py

check: $(VENV)/.ready $(PYLANCE4)/.ready lint ## Lint, check types, run the quick half of the tests
	@$(RUN)/python -m pytest -q -n 2 --dist loadgroup -m $(QUICK) \
		tests/api tests/format tests/pipeline tests/project tests/scan tests/storage tests/test_*.py

test: ## Lint, check types, run all tests
	@$(MAKE) --no-print-directory --jobs=2 lint tests

bare: ## Run all tests as CI does: without Java, an empty HOME, no variables
	@.ci/run

tests: $(VENV)/.ready $(PYLANCE4)/.ready
	@.ci/tests $(RUN)/python

lab: $(VENV)/.ready ## Open the notebooks in JupyterLab
	@$(RUN)/jupyter lab --notebook-dir=notebooks

bench: $(VENV)/.ready ## Measure against the reference implementation
	@$(RUN)/python -m benchmarks
	@$(RUN)/python -m benchmarks.files
	@$(RUN)/python -m benchmarks.diffs
	@$(RUN)/python -m benchmarks.durable_puts
	@$(RUN)/python -m benchmarks.histories
	@$(RUN)/python -m benchmarks.key_filters
	@$(RUN)/python -m benchmarks.mem_wal_reads
	@$(RUN)/python -m benchmarks.nearest
	@$(RUN)/python -m benchmarks.indices
	@$(RUN)/python -m benchmarks.operations
	@$(RUN)/python -m benchmarks.writers

performance: $(VENV)/.bench ## Measure what users feel, and write docs/performance.md
	@$(RUN)/python -m benchmarks.page

docs: $(DOCS)/.ready ## Build the guides and the reference of all functions into site/
	@PATH="$(CURDIR)/$(DOCS)/bin:$$PATH" NO_MKDOCS_2_WARNING=1 mkdocs build --quiet
	@echo "Look at site/index.html"

browser: $(VENV)/.ready ## Look at cards, pictures and widgets in Chromium
	@$(RUN)/python -c "from tests.support.chromium import program; exit(not program())" || \
		$(RUN)/playwright install chromium
	@$(RUN)/python -m pytest -q --whole -m browser --timeout=0 tests/browser

lint: $(VENV)/.ready ## Check style and types
	@$(RUN)/ruff check
	@$(RUN)/ruff format --check
	@$(RUN)/mypy
	@$(RUN)/python -m tests.support.public_types

fix: $(VENV)/.ready ## Format, and mend what the linter can mend
	@$(RUN)/ruff check --fix
	@$(RUN)/ruff format

proto: $(VENV)/.ready ## Generate the protobuf classes anew
	@$(RUN)/python -m grpc_tools.protoc -Iproto --python_out=. --pyi_out=. \
		proto/lancekit/_format/pb/*.proto
	@sed -i 's/_Mapping\]/_Mapping[str, object]]/g' lancekit/_format/pb/*.pyi # said in full

torture: releases ## Run the long, seeded tests at full length
	@$(RUN)/python -m pytest -m torture --whole --timeout=0

matrix: $(VENV)/.ready $(PYLANCE4)/.ready ## Run the quick tests on every Python here, and without each extra
	@nice -n 10 $(RUN)/python -m tests.support.matrix

releases: $(VENV)/.ready $(PYLANCE4)/.ready ## Set up other releases of pylance, where they install
	@$(RUN)/python -m tests.support.releases

setup: $(VENV)/.ready $(PYLANCE4)/.ready ## Set up only, compiled kernels too
	@$(RUN)/python -c "import lancekit as lk; lk.warm_up(spark=False)"

pins: $(VENV)/.ready ## Pin the newest releases of all packages in constraints.txt
	@$(RUN)/python -m tests.support.pins

newest: $(VENV)/.ready $(PYLANCE4)/.ready ## Run the quick tests with the newest packages, and with the oldest
	@nice -n 10 $(RUN)/python -m tests.support.matrix newest oldest

binder: $(VENV)/.ready ## Set up what Binder sets up, and run the first notebook there
	@$(RUN)/python -m tests.support.binder

# $(call install,folder,requirements)
# pip applies constraints to what it installs, not to what builds it: setuptools comes first, and builds.
# Of ten thousands of modules few are ever loaded: each is compiled when it is, not all of them here.
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt
define install
	@$(1)/bin/python $(PIP_INSTALL) setuptools
	@$(1)/bin/python $(PIP_INSTALL) --no-build-isolation $(2)
	@touch $@
endef

# $(call environment,folder,requirements)
define environment
	@test -x $(1)/bin/pip || { \
		python=$$(.ci/find-python) && "$$python" -m venv $(1) || { rm -rf $(1); exit 1; }; }
	@echo "Setting up $(1) (some minutes the first time)"
	$(call install,$(1),$(2))
endef

$(VENV)/.ready: pyproject.toml setup.cfg constraints.txt
	$(call environment,$(VENV),$(EVERYTHING))

# What lancekit is measured beside.
$(VENV)/.bench: $(VENV)/.ready
	$(call install,$(VENV),-e '.[bench]')

# The site is made of the source as text: the package itself is not installed there.
$(DOCS)/.ready: pyproject.toml constraints.txt
	$(call environment,$(DOCS),$$($(DOCS)/bin/python -c "$(DOCS_EXTRA)"))

$(PYLANCE4)/.ready: Makefile constraints.txt
	$(call environment,$(PYLANCE4),pylance==4.0.0)
