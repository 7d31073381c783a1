# The face of the build; Meson does the work. `make help` lists the targets.
SHELL := /bin/bash
BUILD := build
SECONDS ?= 600
FUZZ_SECONDS ?= 60
PREFIX ?= /usr/local
JOBS ?=

PACKAGES := scripts/packages.sh
NINJA := scripts/ninja.sh
ONLY_WORDS = $(if $(ONLY),-- $(ONLY))
export CASE JOBS
SANITIZED := -Db_sanitize=address,undefined -Db_lundef=false

# Ninja runs things side by side; the steps here build on one another.
.NOTPARALLEL:
.PHONY: all demo demo-restart story test test-quick test-full venv bench fuzz soak install docs tidy format clean help packages-%

all: packages-build $(BUILD)/build.ninja ## build the binary: build/muster
	@$(NINJA) $(BUILD) muster

demo: packages-demo $(BUILD)/build.ninja ## train on three nodes here: killed, added, drained, the same bits
	@test -e $(BUILD)/.with-mnist || { meson configure $(BUILD) -Dmnist=enabled && \
	  ninja -C $(BUILD) build.ninja > /dev/null && touch $(BUILD)/.with-mnist; }
	@$(NINJA) $(BUILD) muster examples/mnist
	@scripts/demo.py $(BUILD)

demo-restart: packages-build $(BUILD)/build.ninja ## the same for a script that knows nothing of muster
	@$(NINJA) $(BUILD) muster
	@scripts/demo_restart.py $(BUILD)/muster

story: packages-build $(BUILD)/build.ninja ## the protocol under it, simulated and told
	@$(NINJA) $(BUILD) tests/sim/sim
	@$(BUILD)/tests/sim/sim --demo

test: ready-test ready-fuzz ## all tests, in about 8 minutes; ONLY=NAME CASE=NAME: just that; the last line counts
	@tests/run.py test $(BUILD) build-fuzz $(ONLY_WORDS)

test-quick: ready-test ## units, simulator, one real job, Python's core: about a minute
	@tests/run.py quick $(BUILD)

test-full: export MUSTER_TEST_FULL := 1
test-full: ready-test ready-fuzz ready-asan ready-tsan ## every sweep, sanitizers, mutations; goes on where it was interrupted
	@tests/run.py full $(BUILD) build-fuzz build-tsan build-asan $(ONLY_WORDS)

venv: packages-venv $(BUILD)/build.ninja ## build/venv: TensorFlow, Keras and PyTorch of today, for the tests with them
	@scripts/venv.sh $(BUILD)/venv

bench: packages-bench $(BUILD)/build.ninja ## measure; a table here, JSON in bench/results
	@$(NINJA) $(BUILD)
	@bench/run.py $(BUILD)/bench bench/results

fuzz: ready-fuzz ## run every fuzzer for FUZZ_SECONDS (60) each
	@tests/fuzz/run.sh build-fuzz/tests/fuzz $(FUZZ_SECONDS)

soak: packages-soak $(BUILD)/build.ninja ## fresh seeds for SECONDS (600): half simulated, half chaos of real processes
	@$(NINJA) $(BUILD) muster tests/sim/sim tests/e2e/trainer
	@$(BUILD)/tests/sim/sim --soak $$(($(SECONDS) / 2))
	@SOAK=$$(($(SECONDS) / 2)) MUSTER_TEST_FULL=1 E2E_PROGRAMS=$(BUILD)/tests/e2e \
	  python3 tests/e2e/chaos_test.py $(BUILD)/muster

install: packages-build $(BUILD)/build.ninja ## command, library and Python package into PREFIX (/usr/local)
	@meson configure $(BUILD) -Dprefix=$(PREFIX)
	@ninja -C $(BUILD) build.ninja > /dev/null
	@$(NINJA) $(BUILD) installed
	@meson install -C $(BUILD) --no-rebuild

docs: packages-build $(BUILD)/build.ninja ## write what docs/http.md has from the program
	@$(NINJA) $(BUILD) muster
	@scripts/http_docs.py $(BUILD)/muster

tidy: packages-test ## check layers, purity, sizes and format
	@tests/tidy.py .

format: packages-test ## put all C files into the project's format
	@git ls-files -co --exclude-standard '*.c' '*.h' | xargs clang-format -i

clean: ## remove what was built
	@rm -rf $(BUILD) build-asan build-tsan build-fuzz

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

# --- Build folders, each made once -----------------------------------------------------------

packages-%:
	@$(PACKAGES) $*

# The order matters: packages first, then what needs them.
$(BUILD)/build.ninja: | packages-build
	@meson setup $(BUILD) > /dev/null || { cat $(BUILD)/meson-logs/meson-log.txt; exit 1; }

.PHONY: ready-test ready-fuzz ready-asan ready-tsan
ready-test: packages-test $(BUILD)/build.ninja
	@test -e $(BUILD)/.with-tests || { meson configure $(BUILD) -Dtests=enabled -Dmnist=enabled \
	  -Dpython=enabled && \
	  ninja -C $(BUILD) build.ninja > /dev/null && touch $(BUILD)/.with-tests; }
	@$(NINJA) $(BUILD)

ready-fuzz: packages-test
	@test -e build-fuzz/build.ninja || CC=clang meson setup build-fuzz $(SANITIZED) \
	  -Dfuzzers=true -Dtests=disabled > /dev/null
	@$(NINJA) build-fuzz

ready-asan: packages-test
	@test -e build-asan/build.ninja || CC=clang meson setup build-asan $(SANITIZED) \
	  -Dtests=enabled > /dev/null
	@$(NINJA) build-asan

# Only what threads share: the data plane, and checkpoints that the orchestrator keeps.
ready-tsan: packages-test
	@test -e build-tsan/build.ninja || CC=clang meson setup build-tsan -Db_sanitize=thread \
	  -Db_lundef=false -Dtests=enabled > /dev/null
	@$(NINJA) build-tsan comm-tests
