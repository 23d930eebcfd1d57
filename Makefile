# Two commands do everything on a fresh machine: `make demo` and `make test`.
# All that they make lives in .venv/, target/ and site/; tools and downloads are cached per user.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Each step uses all cores by itself, and its output should stay in one piece.
.NOTPARALLEL:

# ---- where things are

VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
STEP := scripts/step
DENY_VERSION := 0.20.2
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/feedline
# Every test has a limit of its own. This one, in seconds, is for what hangs outside of tests.
LAST_RESORT := 7200
DENY := $(CACHE)/cargo-deny-$(DENY_VERSION)/bin/cargo-deny

# How the wheel is built: `dev` to try and to test it, as the tests are, `release` for all that is measured or
# published.
PROFILE ?= dev
bench wheel check-wheel release-check: PROFILE := release

# A first `make demo` sets up only what it shows: few packages, no charts as PNG, which are a fifth of the
# build, and not the checks that tests want. Everything else sets up everything, and `make demo` then uses that.
ifeq ($(MAKECMDGOALS):$(wildcard $(VENV)/.ready),demo:)
  READY := $(VENV)/.ready-for-demo
  FEATURES := --no-default-features --features abi3,stubs
  export CARGO_PROFILE_DEV_DEBUG := false
  export CARGO_PROFILE_DEV_DEBUG_ASSERTIONS := false
  export CARGO_PROFILE_DEV_OVERFLOW_CHECKS := false
else
  READY := $(VENV)/.ready
  FEATURES :=
endif

# rustup keeps its toolchains next to .cargo. With another HOME than that of the user who
# installed it, cargo on the PATH still leads there.
ifeq ($(RUSTUP_HOME)$(wildcard $(HOME)/.rustup/toolchains/*),)
  rustup_home := $(wildcard $(abspath $(dir $(shell command -v cargo))../../.rustup))
  ifneq ($(rustup_home),)
    export RUSTUP_HOME := $(rustup_home)
  endif
endif

# The extension module is built against the environment's interpreter, whatever is on the PATH.
export PYO3_PYTHON := $(BIN)/python
# An activated environment of somebody else's, or a user's site-packages, must not leak in.
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export PYTHONNOUSERSITE := 1
unexport PYTHONPATH PYTHONHOME
# The machine's certificates, as pip and cargo use them: a company's proxy may have its own.
export UV_SYSTEM_CERTS := 1

# ---- what people call

.PHONY: help demo setup test test-versions check lint fmt bench docs wheel stubs loom sanitize soak lock release-check release clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.installed ## Set everything up and run the main job on data it makes itself
	@$(BIN)/python examples/demo.py

setup: $(VENV)/.installed ## Set everything up and install feedline into .venv/

test: forget-logs lint test-rust test-doc loom test-python ## Set everything up, then lint and run all tests
	@scripts/summary

test-versions: target/wheels/.built ## Test the drop-in with the oldest, a middle and the newest torch, on each Python there is
	@$(STEP) test-versions scripts/test-versions

check: test ## What CI runs: the same as test

lint: lint-format lint-workflows lint-clippy lint-stubs lint-types ## Format, clippy, ruff, types, stubs, workflows

fmt: $(VENV)/.ready ## Format Rust and Python sources
	cargo fmt --all
	$(BIN)/ruff check --quiet --fix-only .
	$(BIN)/ruff format .

bench: $(VENV)/.installed ## Run every benchmark table
	@$(STEP) bench-engine cargo run --release --quiet --locked -p feedline-benches --bin engine
	@$(STEP) bench-kernel cargo run --release --quiet --locked -p feedline-benches --bin images
	@$(STEP) bench-volume-kernel cargo run --release --quiet --locked -p feedline-benches --bin volumes
	@for table in benches/*.py; do \
	  $(STEP) "bench-$$(basename "$$table" .py)" $(BIN)/python "$$table"; \
	done

docs: $(VENV)/.installed ## Build the prose pages, the Python API and rustdoc into site/
	@RUSTDOCFLAGS="-D warnings" $(STEP) docs-rust cargo doc --workspace --no-deps --locked
	@rm -rf site docs/reference/generated
	@$(STEP) docs-pages $(BIN)/sphinx-build -W --keep-going -q -E -d target/doctrees docs site
	@cp -r target/doc site/rust
	@$(STEP) docs-links $(BIN)/python docs/check_links.py site
	@echo "open site/index.html"

wheel: target/wheels/.built ## Build the wheel into target/wheels/
	@ls -l target/wheels/*.whl

stubs: target/wheels/.built ## Regenerate python/feedline/_feedline.pyi from the extension module
	@$(STEP) stubs scripts/stubs write $(PROFILE)

# Model checking replaces the atomics, so it has a build of its own.
loom: ## Model-check the concurrent parts
	@export RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom; \
	export LOOM_MAX_PREEMPTIONS="$${LOOM_MAX_PREEMPTIONS:-3}"; \
	models="cargo test -p feedline-core -p feedline-ipc --locked --lib"; \
	$(STEP) loom-build $$models --quiet --no-run; \
	$(STEP) loom timeout $(LAST_RESORT) $$models models::

# The compiler's sanitizers are in the stable toolchain, behind the switch for unstable flags. Some tests ask for more
# memory than there is, which must be an error of theirs and not the sanitizer's end.
sanitize: ## Run the Rust tests of the crates with unsafe code under AddressSanitizer
	@export RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address" CARGO_TARGET_DIR=target/sanitize; \
	export ASAN_OPTIONS=allocator_may_return_null=1; \
	$(STEP) sanitize cargo test --locked --target "$$(rustc -vV | sed -n 's/host: //p')" --lib --tests \
	  -p feedline-core -p feedline-ipc -p feedline-sources -p feedline-tables -p feedline-ops -p feedline-volume -p feedline-bench

soak: $(VENV)/.installed ## Run the long tests that `make test` leaves out
	@$(STEP) soak-rust scripts/test-rust soak
	@$(STEP) soak-python scripts/soak-python

lock: $(VENV)/.uv ## Resolve pyproject.toml's dev group again into requirements/dev.txt
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --group dev \
	  --no-emit-index-url --custom-compile-command "make lock" --output-file requirements/dev.txt

release-check: check-licences check-stubs check-features check-crates check-wheel check-sdist ## Check all that a release would publish

release: ## Make the next version, its changelog and its tag: make release VERSION=1.2.3
	@scripts/release "$(VERSION)"

clean: ## Remove everything that make made, except the caches
	rm -rf $(VENV) target site docs/reference/generated .mypy_cache .ruff_cache .pytest_cache .hypothesis

# ---- the parts of lint and test

.PHONY: forget-logs lint-format lint-workflows lint-clippy lint-stubs lint-types
.PHONY: test-rust test-doc test-python

forget-logs:
	@rm -rf target/logs

lint-format: $(VENV)/.ready
	@$(STEP) lint-format scripts/lint-format

lint-workflows: $(VENV)/.ready
	@$(STEP) lint-workflows scripts/lint-workflows

lint-clippy: $(VENV)/.ready
	@$(STEP) lint-clippy cargo clippy --quiet --workspace --all-targets --locked -- -D warnings

lint-stubs: target/wheels/.built
	@$(STEP) lint-stubs scripts/stubs check $(PROFILE)

lint-types: $(VENV)/.installed
	@$(STEP) lint-types scripts/lint-types

test-rust: $(VENV)/.ready
	@$(STEP) test-rust scripts/test-rust

test-doc: $(VENV)/.ready
	@$(STEP) test-doc cargo test --quiet --workspace --doc --locked

test-python: $(VENV)/.installed
	@$(STEP) test-python timeout $(LAST_RESORT) $(BIN)/pytest tests/python --pyargs feedline -n logical --dist loadfile

# ---- the parts of release-check

.PHONY: check-licences check-stubs check-features check-crates check-wheel check-sdist

check-licences: $(DENY)
	@$(STEP) check-licences $(DENY) --log-level warn check --hide-inclusion-graph \
	  --allow unused-wrapper licenses bans sources

# `lint-stubs` compares the stubs with the signatures that the library carries; this with what it does.
check-stubs: $(VENV)/.installed
	@$(STEP) check-stubs env MYPYPATH=$(CURDIR)/python $(BIN)/stubtest --mypy-config-file pyproject.toml feedline._feedline

check-features: $(VENV)/.uv
	@$(STEP) check-features scripts/check-features

check-crates: $(VENV)/.uv
	@$(STEP) check-crates scripts/check-crates

check-wheel: target/wheels/.built
	@$(STEP) check-wheel scripts/wheel-check target/wheels/*.whl target/debug-symbols/*.debug
	@$(STEP) check-wheel-metadata $(BIN)/twine check --strict target/wheels/*.whl
	@$(STEP) check-wheel-abi $(BIN)/abi3audit --strict --summary target/wheels/*.whl
	@$(STEP) check-wheel-platform $(BIN)/auditwheel show target/wheels/*.whl

check-sdist: $(VENV)/.ready
	@$(STEP) check-sdist scripts/check-sdist

# ---- set-up: each stamp is made again only when something before it changed

# The interpreter with uv in it.
$(VENV)/.uv: | scripts/choose-python scripts/debian-packages
	@python=$${PYTHON:-$$(scripts/choose-python)}; \
	$(STEP) setup-debian scripts/debian-packages "$$python"; \
	$(STEP) setup-venv "$$python" -m venv --clear $(VENV)
	@$(STEP) setup-uv $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  "$$(grep '^uv==' requirements/dev.txt || echo uv)"
	@touch $@

# All tools and libraries, at the versions of the lock file; compiled, because tests start many
# interpreters, and importing torch takes more than twice as long from sources.
$(VENV)/.ready: $(VENV)/.uv requirements/dev.txt
	@$(STEP) setup-requirements $(BIN)/uv pip sync --quiet --compile-bytecode requirements/dev.txt
	@touch $@
	@rm -f $(VENV)/.installed

# What examples/demo.py says it needs, and what builds the wheel.
$(VENV)/.ready-for-demo: $(VENV)/.uv requirements/dev.txt
	@$(STEP) setup-requirements $(BIN)/uv pip install --quiet --compile-bytecode --constraints requirements/dev.txt \
	  matplotlib maturin numpy pillow torch torchvision
	@touch $@
	@rm -f $(VENV)/.installed

# The wheel: everything that goes into it, and the list of those files, which changes when one
# is deleted.
wheel_sources := Cargo.toml Cargo.lock pyproject.toml $(wildcard LICENSE-*) \
  .cargo/config.toml $(shell find crates python -type f -not -name '*.pyc' -not -path '*/tests/*' | LC_ALL=C sort)

target/wheels/.sources: force
	@mkdir -p $(@D); \
	printf '%s\n' $(PROFILE) "$(FEATURES)" $(wheel_sources) >$@.new; \
	if cmp --silent $@.new $@; then rm $@.new; else mv $@.new $@; fi

target/wheels/.built: $(READY) target/wheels/.sources $(wheel_sources)
	@rm -rf target/wheels/*.whl target/debug-symbols
	@$(STEP) wheel $(BIN)/maturin build --profile $(PROFILE) --locked --quiet \
	  $(FEATURES) --interpreter $(BIN)/python --out target/wheels
	@$(STEP) wheel-symbols scripts/split-debug target/wheels target/debug-symbols
	@touch $@

$(VENV)/.installed: target/wheels/.built $(READY)
	@$(STEP) install $(BIN)/uv pip install --quiet --reinstall --no-deps --no-cache target/wheels/*.whl
	@touch $@

# Compiled once per user and version, into the cache.
$(DENY):
	@$(STEP) setup-cargo-deny env CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --debug --locked \
	  --root $(CACHE)/cargo-deny-$(DENY_VERSION) cargo-deny --version $(DENY_VERSION)

.PHONY: force
force:
