# What a newcomer types. Every target sets up what it needs first, and can be repeated.
#
#   make PYTHON=/path/to/python3.12 ...   the interpreter for the virtual environment
#   make serve DATA=/srv/queues ARGS=...  another folder, more flags for `spoolrack serve`
#   make test ARGS="-k lease"             more arguments for pytest
#   make test WORKERS=1                   one test at a time

.DEFAULT_GOAL := help
.PHONY: help serve check lint docs test proof test-all newest torture torture-shards mutants interop interop-ceph image-steps bench-setup bench bench-alone budget pipeline system-tools setup format stubs clean

DATA ?= ./data
ARGS ?=
MINUTES ?= 30
WORKERS ?= 4
SPREAD = -n $(WORKERS) --no-loadscope-reorder --max-worker-restart 2
CHECKED = access brokerless client contract http proof/crash proof/mutants server store structure unit vsqs
LONG = $(patsubst %,--ignore-glob=tests/*/test_*%*.py,process kill install set_up wheel distribution crashes)
export PYTHON

help: ## List the targets.
	@sed -n 's/^\([a-z-]*\):.*## /  make \1	/p' Makefile | expand -t 20

serve: ## Serve the queues in ./data: gRPC on 127.0.0.1:50051, HTTP on 127.0.0.1:8080.
	@scripts/set-up server
	@exec .venv/bin/spoolrack serve --data "$(DATA)" $(ARGS)

check: lint ## The inner loop: lint, and tests without Spark, browsers, other languages, own processes and long campaigns.
	@.venv/bin/python -m pytest --sample $(SPREAD) $(CHECKED:%=tests/%) $(LONG) $(ARGS)
	@scripts/long-runs

lint: ## Check the format, lint, types, directions of imports, and the pages and links of the documentation.
	@scripts/set-up dev
	@.venv/bin/ruff format --check --quiet || { echo "make format formats these files."; exit 1; }
	@.venv/bin/ruff check --quiet
	@.venv/bin/lint-imports --no-logo --no-cache
	@.venv/bin/mypy
	@.venv/bin/python -m sphinx -b dummy -d build/lint -E -W --keep-going -q docs build/lint

docs: ## Build the documentation's site into build/site, to be opened from there or served by any server.
	@scripts/set-up dev
	@.venv/bin/python -m sphinx -W --keep-going -q -d build/doctrees docs build/site
	@echo "Open build/site/index.html"

test: ## Run every quick test, of tests/proof a sample; what was skipped, and why, is listed at the end.
	@scripts/set-up spark
	@exec .venv/bin/python -m pytest --sample $(SPREAD) $(ARGS)

proof: ## Run all of tests/proof, each night: more random stories and power cuts, each planted condition, the audit.
	@scripts/set-up spark
	@env SPOOLRACK_STORIES=$${SPOOLRACK_STORIES:-50} SPOOLRACK_TEST_CUTS=$${SPOOLRACK_TEST_CUTS:-30} \
	    SPOOLRACK_RACES=$${SPOOLRACK_RACES:-60} .venv/bin/python -m pytest --slow $(SPREAD) tests/proof $(ARGS)
	@$(if $(ARGS),,scripts/long-runs proof)

test-all: ## Run every test, the slow ones too, and more random stories and kills.
	@scripts/set-up spark
	@exec env SPOOLRACK_STORIES=$${SPOOLRACK_STORIES:-50} SPOOLRACK_TEST_KILLS=$${SPOOLRACK_TEST_KILLS:-12} \
	    SPOOLRACK_TEST_PEER_KILLS=$${SPOOLRACK_TEST_PEER_KILLS:-10} .venv/bin/python -m pytest --slow $(SPREAD) $(ARGS)

newest: ## Run the tests with the newest version of every dependency, in .venv-newest, and list what differs from the pins.
	@scripts/try-newest $(SPREAD) $(ARGS)

torture: ## Crash, kill and unplug for MINUTES, and count what was lost; as root on real disks, too.
	@scripts/set-up dev
	@.venv/bin/python -m tests.proof.torture.torture --minutes $(MINUTES) $(ARGS)
	@$(if $(ARGS)$(filter-out 30,$(MINUTES)),,scripts/long-runs torture)

torture-shards: ## Kill, freeze and cut off the servers of three shards for MINUTES, as root.
	@scripts/set-up dev
	@exec .venv/bin/python -m tests.proof.torture.shards --seconds $$(($(MINUTES) * 60)) $(ARGS)

image-steps: ## Run every step of the Dockerfile in a chroot, as root with debootstrap, and serve from what they make.
	@scripts/set-up dev
	@exec .venv/bin/python -m pytest --slow tests/image -k bare_debian $(ARGS)

bench-setup: ## Install the peers that `make bench` compares with: servers from Debian as root, clients with pip.
	@scripts/install-peers
	@scripts/set-up bench

bench: ## Compare with the limit and all peers that are installed, in ten minutes; best as root. Writes bench.json and a page.
	@scripts/set-up bench
	@.venv-bench/bin/python -m benchmarks.compare --json bench.json $(ARGS)
	@.venv-bench/bin/python -m benchmarks.page bench.json docs/explanation/performance.md
	@$(if $(ARGS),,scripts/long-runs bench)

bench-alone: ## Measure one message alone beside an echo of gRPC and a plain file, in four minutes; best as root. Writes alone.json and the page.
	@scripts/set-up dev
	@.venv/bin/python -m benchmarks.alone --json alone.json $(ARGS)
	@.venv/bin/python -m benchmarks.page alone.json docs/explanation/performance.md

budget: ## Count the system calls of each operation, and write them down; a test compares.
	@scripts/set-up dev
	@exec .venv/bin/python -m tests.budget.counting --write

mutants: ## Plant each known bug in a copy of the store, and show which test catches it.
	@scripts/set-up spark
	@exec .venv/bin/python -m tests.proof.mutants.plant $(ARGS)

pipeline: ## Run examples/sessions.py in ./pipeline: a log, a queue, Spark, Parquet and a second queue.
	@scripts/set-up spark
	@JAVA_HOME="$$(.venv/bin/python scripts/find-java)" SPARK_LOCAL_IP=127.0.0.1 PYSPARK_PYTHON="$(CURDIR)/.venv/bin/python" \
	    .venv/bin/python examples/sessions.py pipeline $(ARGS)

interop: ## Install what the clients in all languages need, as root on Debian, and test each against a server.
	@scripts/set-up dev
	@scripts/install-languages
	@SPOOLRACK_INTEROP=all .venv/bin/python -m pytest --slow tests/interop tests/sqs/test_sqs_old_clients.py $(ARGS)
	@$(if $(ARGS),,scripts/long-runs interop)

interop-ceph: ## Stand a CephFS up on the loopback, as root on Debian, and test servers of two hosts on it: kills, frozen hosts, evictions.
	@scripts/set-up dev
	@command -v ceph-fuse ceph-mon >/dev/null || apt-get install -y -q --no-install-recommends ceph-common ceph-mon ceph-mgr ceph-mds ceph-osd ceph-fuse
	@exec .venv/bin/python -m tests.ceph.cluster .venv/bin/python -m pytest --slow -s tests/ceph tests/client/contract -k "ceph or hosts" $(ARGS)

system-tools: ## Install what tests need besides Python, as root: mkfs, mount, strace, curl, rsync, nginx, HAProxy, Chromium, Node and Go.
	@scripts/install-system-tools
	@scripts/install-languages node go

setup: ## Set up .venv for development; `make test` does so by itself.
	@scripts/set-up dev
	@echo "Ready: .venv/bin/spoolrack, .venv/bin/pytest, .venv/bin/ruff, .venv/bin/mypy, .venv/bin/buf"

format: ## Format the code and the protos.
	@scripts/set-up dev
	@.venv/bin/ruff check --fix
	@.venv/bin/ruff format
	@.venv/bin/buf format --write

stubs: ## Generate client/spoolrack/v1 from protos/, and what is made from the schema of settings.
	@scripts/set-up dev
	@.venv/bin/python scripts/generate-stubs
	@.venv/bin/python scripts/generate-settings

clean: ## Remove what was set up and cached; ./data stays.
	@rm -rf build .venv .venv-bench .venv-newest .toolchains client/examples/*/build client/examples/node/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
	@find client server tests -name __pycache__ -prune -exec rm -rf {} +
