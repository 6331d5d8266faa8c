# The project's commands. `make test` and `make run` set up everything they need.

PY ?= 3.13
MINUTES ?= 5
ARGS ?=
JOBS ?= 2

PYTHON := .venvs/$(PY)/bin/python
# Skipped tests are listed with the reason, and the slowest tests with their times.
PYTEST := $(PYTHON) -X faulthandler -m pytest -ra --durations=5

.PHONY: run test test-all test-new faults nomemory models miri fuzz control-test rust-test core-test smoke-test ecosystem-test docs lint format wheels wheel check-tag conformance gevent-suite mutants asan tsan soak soak-client bench record record-docs stubtest setup clean

# The six rows of the README on this machine, in a minute after the build, and a page with charts. Installs only what it
# needs: `make bench` installs all rivals.
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

# The tests that differ from the last landed commit, fifty times beside four busy loops. ARGS: --since COMMIT, or tests.
test-new: setup
	@$(PYTHON) -m tests.changed $(ARGS)

# Everything, for hours: every version on every file engine, sanitizers, stress. Its sums are written to
# tests/record.json, whose age .ci/run prints.
test-all: setup
	$(PYTHON) -m tests.record

ecosystem-test: setup
	$(PYTEST) tests/ecosystem tests/examples tests/check

# The tests that a failure on a stock server excuses, on that server: a control that fails excuses everything.
control-test: setup
	ONELOOP_CONTROL=1 $(PYTEST) -m controlled tests/ecosystem

rust-test: setup-dev
	@scripts/rust-tests.sh $(PY)

lint: setup-dev
	cargo fmt --all --check
	PYO3_PYTHON="$(CURDIR)/$(PYTHON)" CARGO_TARGET_DIR=target/lint cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo fmt --manifest-path bench/native/Cargo.toml --check
	cargo clippy --locked --manifest-path bench/native/Cargo.toml --all-targets -- -D warnings
	$(PYTHON) -m release.changes check
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy python/oneloop tests release docs/site examples/*/app.py $(wildcard bench)
	@scripts/venv.sh $(PY) types
	$(PYTHON) -m pyright --pythonpath $(PYTHON)

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

# A release's tag is `v` and the version, and its figures are those of its code.
check-tag:
	@version=$$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml); \
	if [ "$(TAG)" != "v$$version" ]; then echo "the tag is '$(TAG)' and the version in Cargo.toml is $$version" >&2; exit 1; fi
	python3 -m bench.report.record --release

conformance: setup-core
	$(PYTHON) -m tests.conformance --jobs $(JOBS) $(ARGS)

# gevent's own tests on the facade; with ARGS="--on gevent" on the gevent that is installed.
gevent-suite: setup-core
	@scripts/gevent-tests.sh $(PY)
	$(PYTHON) -m tests.gevent_suite --jobs $(JOBS) $(ARGS)

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

# Every system call of small programs fails once, in every way. ARGS="http --most 8": only these, and fewer of the calls.
faults: setup-core
	@scripts/build-faults.sh $(PY)
	PYTHONPATH=$(CURDIR)/.build/faults/python $(PYTHON) -m tests.faults --wrong --jobs $(JOBS) $(ARGS)

# Every allocation of Python fails once in small programs. ARGS="http --every 10": only these.
nomemory: setup-core
	$(PYTHON) -W ignore -m tests.faults.nomemory $(ARGS)

# All orders in which threads may meet in the waker, the thread pool and the threads of WSGI applications, by loom.
# PREEMPTIONS=6 takes an hour.
models:
	ONELOOP_MODELS_PREEMPTIONS=$(or $(PREEMPTIONS),5) cargo test --locked --quiet --release -p oneloop-engine \
	    --features models --lib models:: -- --nocapture --test-threads $(JOBS)

# The engine's data structures in Miri, which needs the nightly compiler with its components miri and rust-src.
miri:
	MIRIFLAGS=-Zmiri-disable-isolation CARGO_TARGET_DIR=.build/miri cargo +nightly miri test --locked --quiet \
	    -p oneloop-engine --lib -- timers:: heap:: slots:: gate::

# Random variations of real traffic for every parser, together for MINUTES; goes on where earlier runs have ended.
fuzz: setup-core
	@scripts/venv.sh $(PY) fuzz
	@scripts/build-fuzz.sh
	$(PYTHON) -m tests.fuzz --minutes $(MINUTES) $(ARGS)

# One mixed program for HOURS in which two system calls of each round fail; its figures are drawn in .build/soak.svg.
HOURS ?= 1
soak: setup-core
	@scripts/build-faults.sh $(PY)
	PYTHONPATH=$(CURDIR)/.build/faults/python $(PYTHON) -m tests.stress.soak --hours $(HOURS) --faults 2 \
	    --picture .build/soak.svg $(ARGS)
	$(PYTHON) -m tests.differential --minutes $(MINUTES)

# A million requests of coroutines, of green threads and of plain code. ARGS="--caller green --count 100000".
soak-client: setup-core
	$(PYTHON) -m tests.stress.requests $(ARGS)

bench: setup-dev
	@scripts/venv.sh $(PY) bench-tools
	@scripts/build.sh $(PY)
	$(PYTHON) -m bench.install
	$(PYTHON) -m bench $(ARGS)

# The run of record, from which the figures of the documents come: more than an hour on a quiet machine. SUITES=http,tls
# measures only these; after an interruption the same command goes on. DIRTY=1: with uncommitted changes, which it notes.
record: setup-dev
	@scripts/venv.sh $(PY) bench-tools
	@scripts/build.sh $(PY)
	$(PYTHON) -m bench.install
	$(PYTHON) -m bench.record $(if $(SUITES),--suites $(SUITES)) $(if $(DIRTY),--dirty) $(ARGS)

# Writes the figures of the record into README.md and docs.
record-docs: setup-dev
	$(PYTHON) -m bench.report.record

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
	@scripts/rust-tests.sh $(PY) --no-run
	@scripts/anyio-tests.sh $(PY)
	@scripts/gevent-tests.sh $(PY)
	@scripts/httptools-tests.sh $(PY)
	@scripts/httpx-tests.sh $(PY)
	@scripts/go-site.sh
	@scripts/h2spec.sh
	@scripts/dockerfile-linter.sh
	@scripts/autobahn.sh

clean:
	rm -rf target .venvs .pythons .build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -f python/oneloop/_native*.so
