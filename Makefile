# The project's commands. `make test` and `make run` set up everything that they need.

PY ?= 3.13
MINUTES ?= 5
ARGS ?=
JOBS ?= 2

PYTHON := .venvs/$(PY)/bin/python
# Tests say what they skip and why; slowest tests are named.
PYTEST := $(PYTHON) -X faulthandler -m pytest -ra --durations=5

.PHONY: run test rust-test core-test ecosystem-test lint format wheels wheel check-tag conformance mutants asan tsan soak bench stubtest setup clean

run: setup-dev
	@scripts/venv.sh $(PY) bench-tools
	@scripts/build.sh $(PY)
	$(PYTHON) -m bench.install
	$(PYTHON) -m bench --demo

# All of it, whatever fails on the way; pytest's closing line is the last. The servers of the ecosystem's tests and the farm
# of tests/check are children of a process of their own: tests of `waitpid(-1)` would find them, and tests of deadlocks
# the thread that c-ares keeps.
test: setup
	@status=0; \
	$(MAKE) --no-print-directory rust-test || status=1; \
	$(MAKE) --no-print-directory conformance PY=$(PY) || status=1; \
	$(MAKE) --no-print-directory stubtest PY=$(PY) || status=1; \
	$(PYTEST) tests/ecosystem tests/check || status=1; \
	$(PYTEST) tests --ignore=tests/ecosystem --ignore=tests/check || status=1; \
	exit $$status

# What runs on every Python version in .ci/run: everything but Rust and the ecosystem.
core-test: setup-core
	$(PYTEST) tests --ignore=tests/ecosystem --ignore=tests/bench

ecosystem-test: setup
	$(PYTEST) tests/ecosystem tests/check

rust-test: setup-dev
	cargo test --locked --quiet -p oneloop-engine -p oneloop-http1 -p oneloop-websocket
	PYO3_PYTHON=$(CURDIR)/$(PYTHON) CARGO_TARGET_DIR=target/lint \
	LD_LIBRARY_PATH=$$($(PYTHON) -c 'import sysconfig; print(sysconfig.get_config_var("LIBDIR"))') \
	cargo test --locked --quiet -p oneloop-native --lib
	cargo test --locked --quiet --release --manifest-path bench/native/Cargo.toml

lint: setup-dev
	cargo fmt --all --check
	PYO3_PYTHON=$(CURDIR)/$(PYTHON) CARGO_TARGET_DIR=target/lint cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo fmt --manifest-path bench/native/Cargo.toml --check
	cargo clippy --locked --manifest-path bench/native/Cargo.toml --all-targets -- -D warnings
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy python/oneloop tests release $(wildcard bench)

format:
	cargo fmt --all
	cargo fmt --manifest-path bench/native/Cargo.toml
	@scripts/venv.sh $(PY) dev
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

# What a release uploads, in dist: the source distribution, the wheel for other systems and a wheel for each target and
# version of Python, each tried on its interpreter. TARGETS: x86_64-gnu aarch64-gnu x86_64-musl aarch64-musl; VERSIONS:
# 3.11 ... 3.15; all by default. The debug symbols are in dist/debug.
wheels:
	@scripts/venv.sh $(PY) dev release
	$(PYTHON) -m release $(if $(TARGETS),--targets $(TARGETS)) $(if $(VERSIONS),--versions $(VERSIONS))

# The wheel for this machine.
wheel:
	@$(MAKE) --no-print-directory wheels TARGETS=$(shell uname -m)-gnu VERSIONS=$(PY)

# A release's tag is `v` and the version.
check-tag:
	@version=$$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml); \
	if [ "$(TAG)" != "v$$version" ]; then echo "the tag is '$(TAG)' and the version in Cargo.toml is $$version" >&2; exit 1; fi

conformance: setup-core
	$(PYTHON) -m tests.conformance --jobs $(JOBS) $(ARGS)

# Mistakes that tests must see: those written by hand, and, with ENGINE=1, all that cargo-mutants finds in the engine.
mutants: setup-core
	$(PYTHON) -m tests.mutants $(ARGS)
ifdef ENGINE
	@scripts/cargo-mutants.sh
endif

# The engine's own tests, and with asan the extension's, under a sanitizer of the compiler.
asan: setup-core
	scripts/sanitize.sh address $(PY) $(ARGS)

tsan: setup-dev
	scripts/sanitize.sh thread $(PY)

soak: setup-core
	$(PYTHON) -m tests.stress.soak --minutes $(MINUTES) $(ARGS)
	$(PYTHON) -m tests.differential --minutes $(MINUTES)

bench: setup-dev
	@scripts/venv.sh $(PY) bench-tools
	@scripts/build.sh $(PY)
	$(PYTHON) -m bench.install
	$(PYTHON) -m bench $(ARGS)

# The stubs against the built module.
stubtest: setup-core
	$(PYTHON) -m mypy.stubtest --ignore-missing-stub oneloop._native

# Set-up, from least to most. Each step is skipped when its inputs did not change.
.PHONY: setup-dev setup-core setup
setup-dev:
	@scripts/venv.sh $(PY) dev test ecosystem bench-tools

setup-core:
	@scripts/system-packages.sh
	@scripts/venv.sh $(PY) dev test bench-tools
	@scripts/build.sh $(PY)

setup: setup-core
	@scripts/venv.sh $(PY) ecosystem
	@scripts/anyio-tests.sh $(PY)
	@scripts/httptools-tests.sh $(PY)
	@scripts/autobahn.sh

clean:
	rm -rf target .venvs .pythons .build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -f python/oneloop/_native*.so
