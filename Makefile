# The front door. `make demo` and `make test` each do everything on a fresh machine: install packages
# (Debian, Ubuntu), build, run. CMake does the building; CMakePresets.json has the configurations.

PYTHON ?= /usr/bin/python3
BIN := build/release/bin
JOBS ?= $(shell nproc)

.PHONY: all build packages-build packages-test demo test lint format bench fuzz clean help

all: build ## build the release binaries into build/release/bin

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

packages-build:
	@tools/install_packages.sh build

packages-test:
	@tools/install_packages.sh test

# The tests come along only where their packages are installed.
build: packages-build
	@cmake --preset release -DSMELTR_TESTS=OFF -DSMELTR_BENCH=OFF >build/release.configure.log 2>&1 || \
	  { cat build/release.configure.log; exit 1; }
	cmake --build --preset release -j $(JOBS)

demo: build ## record the bundled transformer on this machine's GPU and show where its time went
	@tools/demo.sh $(BIN)

test: packages-test ## build and run every test: release, ASan+UBSan, TSan
	$(PYTHON) tools/run_tests.py -j $(JOBS)

lint: packages-test ## clang-format, clang-tidy, ruff, folder and size rules
	tools/lint.sh

format: ## reformat the sources in place
	tools/format.sh

bench: packages-test ## run the benchmarks that docs/benchmarks.md tells of
	tools/bench.sh

fuzz: packages-test ## run each fuzz target for FUZZ_SECONDS (default 60)
	tools/fuzz.sh $${FUZZ_SECONDS:-60}

clean: ## remove what was built
	rm -rf build

# Needed by `build` before the build folder exists.
build packages-build: | build/.keep
build/.keep:
	@mkdir -p build && touch $@
