# make run    the demo, end to end, on this machine; needs a Rust toolchain
# make test   every test; needs Rust and Python 3
# All tools are installed into folders that git ignores.

CARGO ?= cargo
PYTHON ?= python3
CHECK := .venv/check
SCANNERS := .venv/scanners
MINISTACK := .venv/ministack
FOREIGN := .venv/foreign
SIGNERS := infra/tests/foreign_signers
PEERS := .venv/peers
NODE_PEER := infra/bench/peers/node
CASES := 5000000
DELIVERIES := 5000
SECONDS := 60
SEED := 1
EVENTS := 100000
COUNT := 0
PROFILE := test
ROWS := 1000 100000
MAN := target/man
# The previous release: the newest tag before this commit. Until the first tag, the last commit that put each new event
# into the `work` index and could also find events outside it.
PREVIOUS ?= $(or $(shell git describe --tags --abbrev=0 HEAD^ 2>/dev/null),34d8323fc7b768ed8d43b72215cb1d96908b4ea8)
# The path contains the version, so that a changed version is installed.
DENY := .tools/cargo-deny-0.20.2/bin/cargo-deny
CYCLONEDX := .tools/cargo-cyclonedx-0.5.9/bin/cargo-cyclonedx
# Debian's package, unpacked and not installed, if the machine has no valgrind.
VALGRIND := $(or $(shell command -v valgrind),.tools/valgrind/usr/bin/valgrind)
COUNTING := $(if $(filter .tools/%,$(VALGRIND)),env VALGRIND_LIB=$(CURDIR)/.tools/valgrind/usr/libexec/valgrind $(CURDIR)/)$(VALGRIND)

# The CPU that cargo-lambda and SAM build for, if this machine supports it.
CPU := $(if $(shell grep -sm1 avx2 /proc/cpuinfo),haswell)$(if $(shell grep -sm1 asimddp /proc/cpuinfo),neoverse-n1)
# The deployed build, but with function names, which `strip` removes afterwards as the linker would. So each binary is
# linked once, which takes a minute and a half.
NAMED := --release --locked --config profile.release.strip=false $(CPU:%=--config 'build.rustflags="-Ctarget-cpu=%"')
# What SAM builds, without link-time optimization, which takes a minute and a half for each function. The budgets are
# counted on the executables that ministack runs.
UNLINKED := CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16

.PHONY: help run dev build first release check test test-build long-build docs models simulate vectors test-rust test-template second-opinion chaos chaos-cells chaos-ablations dev-chaos previous evolution test-long properties foreign-signers fuzz clauses mutants budgets bench bench-functions bench-tools bench-profile bench-verify bench-cli bench-scale bench-sweep man cost package advisories \
	venv clean

help: ## Show the targets for daily work
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

build: # The functions and webhookctl as the tests run them
	$(CARGO) build --workspace --locked

# Only the binaries of the demo, without optimization: a quarter of the time of a workspace build.
first:
	@test -e target/first/webhookctl || echo "First build: about 4 minutes on two cores, 2 GB in target/first."
	$(CARGO) build --profile first --locked -p webhookctl -p catcher -p processor -p backup-sync

run: first ## Send the demo's webhooks through the whole system and check each outcome
	target/first/webhookctl dev --demo --once --port 0

dev: first ## Run the demo and keep it running; DEV="--state DIR" keeps the state
	target/first/webhookctl dev --demo $(DEV)

release: # The functions as Lambda runs them, for this machine's architecture
	$(CARGO) build --release --locked -p catcher -p processor -p backup-sync

package: $(CHECK)/stamp $(CYCLONEDX) ## Build zips of the functions for both architectures, with SBOMs and checksums, in target/package
	rm -rf target/package
	$(CHECK)/bin/python infra/package.py --cyclonedx $(abspath $(CYCLONEDX))

check: $(CHECK)/stamp $(SCANNERS)/stamp $(DENY) target/fetched ## Check format, lints, template, policies, dependencies, workflows and budgets
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path infra/checks/fuzz/Cargo.toml --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) clippy --manifest-path infra/checks/fuzz/Cargo.toml --target-dir target --locked -- -D warnings
	$(CHECK)/bin/python infra/tests/template_gate.py
	$(CHECK)/bin/python infra/tests/posture_gate.py
	$(CHECK)/bin/python infra/tests/policy_gate.py
	$(DENY) --frozen --log-level error check licenses bans sources
	$(SCANNERS)/bin/zizmor --offline --quiet --strict-collection --persona auditor .github
	$(MAKE) --no-print-directory budgets

# Not a part of check, which must not fail without a network or because of a new advisory.
advisories: $(DENY) target/fetched # Known vulnerabilities of the dependencies; needs the network
	$(DENY) --locked check advisories

# The last step measures response times, so it runs alone.
test: test-rust ## Run every test
	$(MAKE) --no-print-directory -j2 test-template second-opinion
	$(MAKE) --no-print-directory chaos

# With the features that the tests add, so that the dependencies are built once for all targets.
test-build:
	$(CARGO) build --workspace --all-targets --locked

test-rust: test-build # Unit and integration tests in Rust, on the local stack
	CARGO=$(CARGO) $(PYTHON) infra/tests/rust_tests.py

chaos: test-build # The real functions with faults in all services; checks the history of the run
	MITT_DELIVERIES=$(DELIVERIES) $(CARGO) test --profile $(PROFILE) --workspace --locked --test chaos -- --ignored --nocapture whatever_breaks

chaos-ablations: test-build # The same with one protection removed: the check must fail
	$(CARGO) test --profile $(PROFILE) --workspace --locked --test chaos -- --ignored --nocapture --test-threads 1 without_

dev-chaos: test-build # The scenarios of `dev --chaos` run to the end and match their descriptions
	$(CARGO) test --workspace --locked --test cli -- --ignored --test-threads 3 dev_chaos

chaos-cells: test-build # Each call of the functions with each kind of fault, twenty times
	$(CARGO) test --profile $(PROFILE) --workspace --locked --test chaos -- --ignored --nocapture each_call

# In separate folders, so that neither build invalidates the other.
previous:
	git worktree prune
	test -e target/previous/source || git worktree add --force --detach target/previous/source $(PREVIOUS)
	git -C target/previous/source checkout --quiet --detach $(PREVIOUS)
	cd target/previous/source && CARGO_TARGET_DIR=$(CURDIR)/target/previous/build $(CARGO) build --locked -p catcher -p processor -p backup-sync

evolution: test-build previous # These functions and those of the previous release, deployed in turn over one inbox; PREVIOUS=revision selects it
	MITT_PREVIOUS=$(CURDIR)/target/previous MITT_DELIVERIES=$(DELIVERIES) $(CARGO) test --workspace --locked --test chaos -- --ignored --nocapture evolution

models: # Check the protocol in every reachable state, and that each protection is needed
	$(CARGO) run --release --locked -p models

simulate: # The functions in virtual time with failing stores; SEED=n repeats a run, EVENTS=n, CASE="strict order" for one case
	$(CARGO) build --profile simulation --workspace --locked --bin simulation
	target/simulation/simulation --seed $(SEED) --events $(EVENTS) $(if $(CASE),--only "$(CASE)")

vectors: # Verify real signed requests of 70 providers; FILE=path uses another set
	MITT_VECTORS=$(abspath $(FILE)) $(CARGO) test --workspace --locked --test vectors -- --nocapture

docs: build ## Write the generated pages: presets, doctor checks
	target/debug/webhookctl sources presets --markdown > infra/docs/presets.md
	target/debug/webhookctl doctor --markdown > infra/docs/doctor.md

test-template: $(CHECK)/stamp $(SCANNERS)/stamp $(DENY) # The invariants of the template and the pages, and that the gates reject faults
	$(CHECK)/bin/python -m pytest -q infra/tests

second-opinion: test-build $(CHECK)/stamp $(MINISTACK)/stamp # The ledger and the end-to-end test on ministack, deployed by SAM, and every command of infra/docs/deploy.md
	$(UNLINKED) $(CHECK)/bin/python infra/tests/journey_on_ministack.py
	$(CHECK)/bin/python infra/tests/readme_on_ministack.py

foreign-signers: test-build $(FOREIGN)/stamp $(SIGNERS)/node_modules/stamp # The providers' SDKs sign for the catcher and verify our signatures; needs Node 20
	$(CARGO) test --workspace --locked --test stack -- --ignored foreign

# Builds everything first, so that no build runs beside a measurement.
long-build: test-build .tools/bin/cargo-fuzz .tools/bin/cargo-mutants $(FOREIGN)/stamp $(SIGNERS)/node_modules/stamp
	$(CARGO) build --profile simulation --workspace --locked --bins
	$(CARGO) test --profile simulation --workspace --locked --test properties --test chaos --no-run
	$(CARGO) build --release --locked -p models
	PATH=$(CURDIR)/.tools/bin:$$PATH infra/checks/fuzz/run 0
	$(PYTHON) infra/tests/mutants.py build

test-long: long-build ## Run the long tests and print one table; STEPS="chaos fuzz" selects some
	$(PYTHON) infra/tests/long.py $(STEPS)

properties: # Property tests over every provider, with CASES cases for each property
	MITT_CASES=$(CASES) $(CARGO) test --profile simulation --workspace --locked --test properties

fuzz: .tools/bin/cargo-fuzz # Run each fuzz target for SECONDS; needs a nightly toolchain
	PATH=$(CURDIR)/.tools/bin:$$PATH infra/checks/fuzz/run $(SECONDS)

clauses: test-build # Remove each clause of each condition: a ledger test must fail; ONLY="words" selects conditions that contain them
	$(PYTHON) infra/tests/clauses.py $(ONLY)

mutants: test-build .tools/bin/cargo-mutants # Mutate the code that decides: a test must fail; COUNT=n tries some
	$(PYTHON) infra/tests/mutants.py $(COUNT) $(SEED)

budgets: test-build $(CHECK)/stamp $(VALGRIND) # Instructions, requests and write units against infra/bench/budgets.toml; needs valgrind
	$(UNLINKED) PATH="$(CURDIR)/$(CHECK)/bin:$$PATH" $(CARGO) lambda build --release --locked --bin catcher --bin processor --bin backup-sync
	mkdir -p target/budget
	for name in catcher processor backup-sync; do cp target/lambda/$$name/bootstrap target/budget/$$name || exit 1; done
	target/debug/bench figures target/budget "$(COUNTING)" > target/budget/figures.json
	$(PYTHON) infra/tests/budget_gate.py target/budget/figures.json

bench: $(VALGRIND) $(PEERS)/stamp target/bench/catcher.mjs ## Compare the functions with Node.js, Python and a minimum; needs Node 20
	$(MAKE) --no-print-directory -j2 bench-functions bench-tools
	$(CARGO) bench --profile dev --locked -p bench -p webhookctl --bench scale -- $(ROWS) > target/bench/scale.txt
	target/debug/bench table target/bench "$(COUNTING)" target/bench/catcher.mjs $(PEERS)/bin/python \
		--scale target/bench/scale.txt --named target/release/catcher $(BENCH)

# In parallel with bench-tools, because linking the functions uses one core.
bench-functions:
	$(CARGO) build $(NAMED) -p catcher -p processor -p backup-sync -p floor
	mkdir -p target/bench
	for name in catcher processor backup-sync floor; do strip -o target/bench/$$name target/release/$$name || exit 1; done

bench-tools:
	$(CARGO) build --locked -p bench -p webhookctl --bins --bench scale

bench-profile: $(VALGRIND) # Profile the instructions, bytes and memory of the catcher; needs valgrind and binutils
	$(CARGO) build $(NAMED) -p catcher
	$(CARGO) build --locked -p bench
	target/debug/bench profile target/release/catcher "$(COUNTING)"

bench-verify: # Instructions of verification and of the presets; needs valgrind
	$(CARGO) bench --workspace --locked --bench verify

bench-cli: # CPU time of the webhookctl commands, in milliseconds
	$(CARGO) build --profile simulation --workspace --locked
	$(PYTHON) infra/tests/bench_cli.py target/simulation/webhookctl

man: build # Write a man page for each command of webhookctl, into MAN=folder
	target/debug/webhookctl man $(MAN)

bench-scale: test-build # Cost of list, inspect, stats, receive, claim, sweep and others as the inbox grows; ROWS="1000 100000 1000000"
	$(CARGO) bench --profile dev --workspace --locked --bench scale -- $(ROWS)

bench-sweep: # How many of 100,000 due rows one run of sweep and drain handles, in virtual time
	$(CARGO) test --profile simulation --workspace --locked --test rounds -- --ignored --nocapture --test-threads 1 hundred_thousand

cost: # US$ for a million events and for an idle month, counted on this machine; COST="--json", or "--page infra/docs/cost.md"
	$(CARGO) build --profile simulation --workspace --locked
	target/simulation/bench cost $(COST)

venv: $(CHECK)/stamp $(SCANNERS)/stamp $(MINISTACK)/stamp # Install the Python tools, each set in its own folder

$(CHECK)/stamp: infra/requirements.txt
$(SCANNERS)/stamp: infra/requirements-scanners.txt
$(MINISTACK)/stamp: infra/requirements-ministack.txt
$(FOREIGN)/stamp: $(SIGNERS)/requirements.txt
$(PEERS)/stamp: infra/bench/peers/python/requirements.txt
.venv/%/stamp:
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check -r $<
	touch $@

%/node_modules/stamp: %/package-lock.json
	cd $* && npm ci --ignore-scripts --no-audit --no-fund
	touch $@

target/bench/catcher.mjs: $(NODE_PEER)/node_modules/stamp $(wildcard $(NODE_PEER)/*.mjs) $(NODE_PEER)/package.json
	cd $(NODE_PEER) && npm run --silent bundle -- --outfile=$(abspath $@)

# Every crate in Cargo.lock, including those for other systems, so that cargo-deny needs no network.
target/fetched: Cargo.lock
	$(CARGO) fetch --locked
	mkdir -p $(@D)
	touch $@

# Without optimization: cargo-deny runs for a second, and its build takes much longer.
$(DENY):
	CARGO_PROFILE_DEV_DEBUG=0 $(CARGO) install --debug --locked --root .tools/cargo-deny-0.20.2 cargo-deny@0.20.2

$(CYCLONEDX):
	CARGO_PROFILE_DEV_DEBUG=0 $(CARGO) install --debug --locked --root .tools/cargo-cyclonedx-0.5.9 cargo-cyclonedx@0.5.9

.tools/valgrind/usr/bin/valgrind:
	@command -v apt-get dpkg > /dev/null || { echo "valgrind is missing; it counts instructions. Install valgrind." >&2; exit 1; }
	rm -rf .tools/valgrind && mkdir -p .tools/valgrind
	cd .tools/valgrind && apt-get --quiet download valgrind && dpkg -x valgrind_*.deb .
	touch $@

.tools/bin/cargo-fuzz:
	$(CARGO) install --root .tools --locked cargo-fuzz

.tools/bin/cargo-mutants:
	$(CARGO) install --root .tools --locked cargo-mutants

clean: ## Remove all build output and installed tools
	rm -rf target .venv .tools .mitt .aws-sam $(SIGNERS)/node_modules $(NODE_PEER)/node_modules
	cd infra/checks/fuzz && rm -rf target corpus artifacts
