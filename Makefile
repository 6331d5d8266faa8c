# The project's commands. `make test` and `make run` set up everything they need.

PY ?= 3.13
MINUTES ?= 5
ARGS ?=
JOBS ?= 2

PYTHON := .venvs/$(PY)/bin/python
# Skipped tests are listed with the reason, and the slowest tests with their times.
PYTEST := $(PYTHON) -X faulthandler -m pytest -ra --durations=5

.PHONY: run test test-all rust-test core-test smoke-test ecosystem-test docs lint format wheels wheel check-tag conformance mutants asan tsan soak bench stubtest setup clean

# Installs only what it needs: `make bench` installs all rivals.
run:
	@scripts/venv.sh $(PY) dev bench-tools
	@scripts/build.sh $(PY)
	@$(PYTHON) -m bench.install --demo
	@$(PYTHON) -m bench --demo --html .build/demo.html

# All that one change can break, on one version of Python: groups of tests at the same time, see tests/groups.py. What
# fails is run again, alone. The sums are the last line. CONTRIBUTING.md has the tiers.
test: setup
	@$(PYTHON) -m tests.groups $(ARGS)

# What .ci/run runs on the oldest and the newest version: the conformance tests, and a file of each room.
smoke-test: setup-core
	@$(PYTHON) -m tests.groups --tier smoke $(ARGS)

# All tests except the Rust tests, tests/ecosystem and tests/bench, which depend little on the version of Python.
core-test: setup-core
	@$(PYTHON) -m tests.groups --tier core $(ARGS)

# Everything, for hours: every version on every file engine, sanitizers, stress. Its sums are written to
# tests/record.json, whose age .ci/run prints.
test-all: setup
	$(PYTHON) -m tests.record

ecosystem-test: setup
	$(PYTEST) tests/ecosystem tests/check

rust-test: setup-dev
	@scripts/rust-tests.sh $(PY)

lint: setup-dev
	cargo fmt --all --check
	PYO3_PYTHON=$(CURDIR)/$(PYTHON) CARGO_TARGET_DIR=target/lint cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo fmt --manifest-path bench/native/Cargo.toml --check
	cargo clippy --locked --manifest-path bench/native/Cargo.toml --all-targets -- -D warnings
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy python/oneloop tests release docs/site $(wildcard bench)

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

# Mutants that the tests must detect: those written by hand and, with ENGINE=1, those of the engine by cargo-mutants.
mutants: setup-core
	$(PYTHON) -m tests.mutants $(ARGS)
ifdef ENGINE
	@scripts/cargo-mutants.sh
endif

# The engine's tests, and with asan also tests of the extension, under a sanitizer of the compiler.
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

# The documentation site, in .build/docs/html. The API reference imports every public module, so it needs their packages.
docs: setup-core
	@scripts/venv.sh $(PY) ecosystem docs
	PYTHONPATH=python $(PYTHON) -m docs.site $(ARGS)

# Compares the stubs with the built module.
stubtest: setup-core
	$(PYTHON) -m mypy.stubtest --ignore-missing-stub oneloop._native

# Set-up targets, each of which includes the ones before it. A step is skipped if its inputs did not change.
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
	@scripts/dockerfile-linter.sh
	@scripts/autobahn.sh

clean:
	rm -rf target .venvs .pythons .build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -f python/oneloop/_native*.so
