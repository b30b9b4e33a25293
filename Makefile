# make run    the demo, end to end, on this machine; needs a Rust toolchain
# make test   every test; needs Rust and Python 3

CARGO ?= cargo
PYTHON ?= python3
CHECK := .venv/check
SIGNERS := infra/tests/foreign_signers
CONSOLE := infra/tests/console
LOOK = .venv/console/bin/python -m pytest -q $(patsubst %,$(CONSOLE)/%.py,$(1))
RECEIVERS := infra/tests/receivers
RECIPES := infra/tests/recipes
EXAMPLES := infra/examples
# Without npm, the tests skip the recipes that need it.
RECIPE_LOCKS := $(if $(shell command -v npm),$(wildcard $(EXAMPLES)/*/package-lock.json))
CDK_PACKAGES := $(if $(shell command -v npm),infra/cdk/node_modules/stamp)
CLIENTS := infra/tests/clients
CLIENT_PACKAGES := $(if $(shell command -v npm),$(CLIENTS)/node_modules/stamp)
RECIPE_PACKAGES := .venv/recipes/stamp $(RECIPE_LOCKS:package-lock.json=node_modules/stamp)
NODE_PEER := infra/bench/peers/node
NODE_BUNDLES := target/bench/catcher.mjs target/bench/powertools.mjs
CASES := 5000000
DELIVERIES := 5000
SECONDS := 60
SEED := 1
EVENTS := 100000
COUNT := 0
RATE := 200
PROFILE := test
ROWS := 1000 100000
MAN := target/man
# The path contains the version, so that make installs the tool again when the version changes.
DENY := .tools/cargo-deny-0.20.2/bin/cargo-deny
CYCLONEDX := .tools/cargo-cyclonedx-0.5.9/bin/cargo-cyclonedx
VALGRIND := $(or $(shell command -v valgrind),.tools/valgrind/usr/bin/valgrind)
# Builds the executables that ministack runs and that `make budgets` measures. They are built as SAM builds them, but
# without link-time optimization, which takes a minute and a half for each function.
UNLINKED := CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
# Every target uses the whole workspace. With fewer crates, cargo would build the dependencies again with fewer features.
TEST := $(CARGO) test --workspace --locked
CHAOS := $(TEST) --profile $(PROFILE) --test chaos -- --ignored --nocapture
# A recipe that names MAKE itself runs also with `make -n`.
CHAOS_CASE = $(MAKE) --no-print-directory chaos-$(CASE)
SIMULATION := $(CARGO) build --profile simulation --workspace --locked
# Installs tools into folders that git ignores.
INSTALL = CARGO=$(CARGO) PYTHON=$(PYTHON) infra/tests/install $@ $<

.PHONY: $(shell grep -ohE '^[a-z-]+:' $(MAKEFILE_LIST) | tr -d :)

help: ## Show the targets for daily work
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

build: # Build the functions and webhookctl as the tests run them
	$(CARGO) build --workspace --locked

# Builds only the binaries of the demo, without optimization. This takes a quarter of the time of a workspace build.
first:
	@test -e target/first/webhookctl || echo "First build: about 4 minutes on two cores, 2 GB in target/first."
	$(CARGO) build --profile first --locked -p webhookctl -p catcher -p processor -p backup-sync

run: first ## Send the demo's webhooks through the whole system and check each outcome
	target/first/webhookctl dev --demo --once --port 0

dev: first ## Run the demo and keep it running; DEV="--state DIR" keeps the state
	target/first/webhookctl dev --demo $(DEV)

release: # Build the functions as Lambda runs them, for the architecture of this machine
	$(CARGO) build --release --locked -p catcher -p processor -p backup-sync

package: $(CHECK)/stamp $(CYCLONEDX) ## Build the files of a release in target/package: functions and webhookctl, SBOMs, checksums; PART=webhookctl builds one part
	rm -rf target/package
	$(CHECK)/bin/python infra/package.py --cyclonedx $(abspath $(CYCLONEDX)) $(if $(PART),--part $(PART))

check: $(CHECK)/stamp .venv/scanners/stamp $(DENY) target/fetched ## Check format, lints, template, policies, dependencies, workflows and budgets
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path infra/checks/fuzz/Cargo.toml --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) clippy --manifest-path infra/checks/fuzz/Cargo.toml --target-dir target --locked -- -D warnings
	$(CHECK)/bin/python infra/tests/template_gate.py
	$(CHECK)/bin/python infra/tests/posture_gate.py
	$(CHECK)/bin/python infra/tests/policy_gate.py
	$(DENY) --frozen --log-level error check licenses bans sources
	.venv/scanners/bin/zizmor --offline --quiet --strict-collection --persona auditor .github
	$(MAKE) --no-print-directory budgets

# Not a part of check, because check must not fail if there is no network or a new advisory.
advisories: $(DENY) target/fetched # Check the dependencies for known vulnerabilities; needs the network
	$(DENY) --locked check advisories

test: test-rust ## Run every test
	$(MAKE) --no-print-directory -j2 chaos beside-chaos

# Chaos delivers for half a minute, in which it limits the response times, and then waits for retries for minutes. The
# other steps use this time. The longest are first.
beside-chaos:
	sleep 60
	$(MAKE) --no-print-directory -j3 test-template recipes second-opinion test-pages sam-local chaos-agents EVENTS=100

# Uses the features that the tests add, so that cargo builds the dependencies only once for all targets.
test-build:
	$(CARGO) build --workspace --all-targets --locked
	$(if $(filter-out test,$(PROFILE)),$(CARGO) build --workspace --locked --profile $(PROFILE))

test-rust: test-build # Run the unit and integration tests in Rust, on the local stack
	CARGO=$(CARGO) $(PYTHON) infra/tests/rust_tests.py
	@# Fails for a wrong verdict; names presets that are old.
	target/debug/webhookctl presets check > /dev/null

test-template: $(CHECK)/stamp .venv/scanners/stamp $(DENY) $(CDK_PACKAGES) $(CLIENT_PACKAGES) # Check the invariants of the template and the pages, and that the gates reject faults
	$(CHECK)/bin/python -m pytest -q infra/tests

second-opinion: test-build $(CHECK)/stamp .venv/ministack/stamp # Run the ledger tests, the end-to-end test and every command of infra/docs/deploy.md on ministack, deployed by SAM
	$(UNLINKED) $(CHECK)/bin/python infra/tests/journey_on_ministack.py
	$(CHECK)/bin/python infra/tests/readme_on_ministack.py

sam-local: test-build $(CHECK)/stamp # Run the functions with the environments of `sam local` and `cargo lambda watch`; BUILD=--build also lets cargo lambda build them
	$(CHECK)/bin/python infra/tests/sam_local.py $(BUILD)

recipes: test-build $(RECIPE_PACKAGES) $(CLIENT_PACKAGES) # Run each recipe of infra/examples and send events to it; needs Node 20 and Go for some of them
	.venv/recipes/bin/python -m pytest -q $(RECIPES)/http_receivers.py $(RECIPES)/aws_receivers.py $(RECIPES)/first_event.py $(RECIPES)/clients.py $(RECIPES)/frameworks.py

test-pages: test-build # Run the commands of the pages, and compare the pictures with what the commands print
	$(PYTHON) infra/tests/documented_commands.py
	$(PYTHON) infra/pictures.py --check

# The pictures are first: the other tests send events. Three stacks run at the same time.
test-console: test-build .venv/console/stamp # Look at the console with Debian's Chromium (CHROMIUM=name selects another), and write the pictures of infra/docs/console
	@$(call LOOK,access filters strangers) & first=$$!; $(call LOOK,changes approvals hostile) & second=$$!; \
	$(call LOOK,screenshots pages rights live); status=$$?; \
	wait $$first || status=$$?; wait $$second || status=$$?; exit $$status

bench-console: .venv/console/stamp # Measure the console in Chromium, optimized: first paint, rows, reads and sizes; of the demo, or ROWS=1000000
	$(SIMULATION)
	$(if $(filter command,$(origin ROWS)),scale=$$($(CARGO) bench --profile dev --workspace --locked --bench scale --no-run 2>&1 | sed -n 's/.*(\(.*\)).*/\1/p' | tail -n 1) && \
	ROWS=$(ROWS) MITT_SCALE=$$scale )WEBHOOKCTL=$(abspath target/simulation/webhookctl) .venv/console/bin/python $(CONSOLE)/bench.py

test-mcp: test-build .venv/mcp/stamp # Let a client of the Model Context Protocol, in both generations, read the demo, propose a replay and work on a queue
	.venv/mcp/bin/python infra/tests/mcp_client.py
	MITT_MCP_CALLS=10000 $(TEST) --test cli -- without_the_flag_no_input

chaos: test-build # Run the real functions with faults in all services, and check the history of the run; CASE=agents or another case runs `make chaos-agents`
	$(if $(CASE),$(CHAOS_CASE),MITT_DELIVERIES=$(DELIVERIES) $(CHAOS) faults_lose)

chaos-agents: test-build $(CHECK)/stamp $(CLIENT_PACKAGES) # Kill the clients for workers while they open tickets in a tracker without keys; EVENTS=n sets the size
	$(if $(filter command,$(origin EVENTS)),MITT_EVENTS=$(EVENTS)) $(CHAOS) agents::

chaos-ablations: test-build # Run chaos with one protection removed: the check must fail
	$(CHAOS) --test-threads 1 without_

chaos-cells: test-build # Test each call of the functions with each kind of fault, twenty times
	$(CHAOS) each_call

dev-chaos: test-build # Check that the scenarios of `dev --chaos` end as their descriptions say
	$(TEST) --test cli -- --ignored --test-threads 3 dev_chaos

evolution: test-build # Deploy these functions and those of the previous release in turn on one inbox; PREVIOUS=revision selects the release
	CARGO=$(CARGO) PREVIOUS=$(PREVIOUS) infra/checks/chaos/previous
	MITT_PREVIOUS=$(CURDIR)/target/previous MITT_DELIVERIES=$(DELIVERIES) $(CHAOS) evolution

models: # Check the protocol in every reachable state, and that each protection is needed
	$(CARGO) run --release --locked -p models

simulate: # Run the functions in virtual time with failing stores; SEED=n repeats a run, EVENTS=n sets the size, CASE="strict order" runs one case
	$(SIMULATION) --bin simulation
	target/simulation/simulation --seed $(SEED) --events $(EVENTS) $(if $(CASE),--only "$(CASE)")

fuzz: .tools/bin/cargo-fuzz # Run each fuzz target for SECONDS; needs a nightly toolchain
	PATH=$(CURDIR)/.tools/bin:$$PATH infra/checks/fuzz/run $(SECONDS)

properties: # Run the property tests for every provider, with CASES cases for each property
	MITT_CASES=$(CASES) $(TEST) --profile simulation --test properties

load: test-build # Apply new versions of the sources while RATE webhooks arrive in a second
	MITT_RATE=$(RATE) $(TEST) --profile $(PROFILE) --test stack -- --nocapture under_load

trial: test-build # Run a trial with DELIVERIES webhooks before a route that loses, doubles and delays some of them
	MITT_DELIVERIES=$(DELIVERIES) $(TEST) --profile $(PROFILE) --test cli -- --nocapture trial::the_report

long-actions: test-build # Run handlers of eight minutes, and kill the function that waits for one
	$(TEST) --test stack -- --ignored --nocapture long::

vectors: # Verify signed requests of all presets; FILE=path uses another set
	MITT_VECTORS=$(abspath $(FILE)) $(TEST) --test vectors -- --nocapture

foreign-signers: test-build .venv/foreign/stamp $(SIGNERS)/node_modules/stamp # Test signatures with the providers' SDKs: they sign for the catcher and verify our signatures; needs Node 20
	$(TEST) --test stack -- --ignored foreign

receivers: test-build .venv/receivers/stamp $(RECEIVERS)/node/node_modules/stamp # Send to receivers that verify with the providers' unmodified SDKs; needs Node 20
	$(TEST) --test stack -- --ignored receivers

clauses: test-build # Remove each clause of each condition: a ledger test must fail; ONLY="pul hld" selects conditions that contain one of these words
	$(PYTHON) infra/tests/clauses.py $(ONLY)

mutants: test-build .tools/bin/cargo-mutants # Mutate the code that makes decisions: a test must fail for each mutant; COUNT=n tries n mutants
	$(PYTHON) infra/tests/mutants.py $(COUNT) $(SEED)

test-long: test-build .tools/bin/cargo-fuzz .tools/bin/cargo-mutants .venv/foreign/stamp $(SIGNERS)/node_modules/stamp .venv/receivers/stamp $(RECEIVERS)/node/node_modules/stamp ## Run the long tests and print one table; STEPS="chaos fuzz" selects steps
	CARGO=$(CARGO) $(PYTHON) infra/tests/long.py $(STEPS)

budgets: test-build $(CHECK)/stamp $(VALGRIND) # Compare instructions, requests and write units with infra/bench/budgets.toml; needs valgrind
	$(UNLINKED) CARGO=$(CARGO) PYTHON=$(PYTHON) infra/bench/run budgets

bench: $(VALGRIND) .venv/peers/stamp $(NODE_BUNDLES) ## Compare the functions with Node.js, Python and a minimal program; needs Node 20
	CARGO=$(CARGO) ROWS="$(ROWS)" infra/bench/run table $(BENCH)

bench-profile: $(VALGRIND) # Profile the instructions, bytes and memory of the catcher; needs valgrind and binutils
	CARGO=$(CARGO) infra/bench/run profile

bench-verify: # Count the instructions of verification and of the presets; needs valgrind
	$(CARGO) bench --workspace --locked --bench verify

bench-cli: # Measure the CPU time of the webhookctl commands, in milliseconds
	$(SIMULATION)
	$(PYTHON) infra/tests/bench_cli.py target/simulation/webhookctl

bench-scale: test-build # Measure the cost of list, inspect, stats, receive, claim, sweep and others as the inbox grows; ROWS="1000 100000 1000000"
	$(CARGO) bench --profile dev --workspace --locked --bench scale -- $(ROWS)

bench-sweep: # Measure how many of 100,000 due rows one run of sweep and drain handles, in virtual time
	$(TEST) --profile simulation --test rounds -- --ignored --nocapture --test-threads 1 hundred_thousand

cost: # Calculate the cost in US$ of a million events and of an idle month, on this machine; COST="--json", or "--page infra/docs/cost.md"
	$(SIMULATION)
	target/simulation/bench cost $(COST)

pictures: test-build # Record the pictures of the pages again, if the commands print other text
	$(PYTHON) infra/pictures.py

docs: build ## Write the generated pages: presets, configuration, doctor checks
	target/debug/webhookctl sources presets --markdown > infra/docs/presets.md
	target/debug/webhookctl sources settings --markdown > infra/docs/configuration.md
	target/debug/webhookctl doctor --markdown > infra/docs/doctor.md

man: build # Write a man page for each command of webhookctl, into MAN=folder
	target/debug/webhookctl man $(MAN)

venv: $(CHECK)/stamp .venv/scanners/stamp .venv/ministack/stamp # Install the Python tools, each set in its own folder

clean: ## Remove all build output and installed tools
	rm -rf target .venv .tools .mitt .aws-sam $(SIGNERS)/node_modules $(RECEIVERS)/node/node_modules $(NODE_PEER)/node_modules $(CLIENTS)/node_modules $(EXAMPLES)/*/node_modules $(EXAMPLES)/*/.next
	cd infra/checks/fuzz && rm -rf target corpus artifacts

$(CHECK)/stamp: infra/requirements.txt
.venv/scanners/stamp: infra/requirements-scanners.txt
.venv/ministack/stamp: infra/requirements-ministack.txt
.venv/mcp/stamp: infra/requirements-mcp.txt
.venv/foreign/stamp: $(SIGNERS)/requirements.txt
.venv/receivers/stamp: $(RECEIVERS)/python/requirements.txt
.venv/console/stamp: $(CONSOLE)/requirements.txt
.venv/recipes/stamp: $(RECIPES)/requirements.txt $(wildcard $(EXAMPLES)/*/requirements.txt)
.venv/peers/stamp: infra/bench/peers/python/requirements.txt
.venv/%/stamp:
	$(INSTALL)
%/node_modules/stamp: %/package-lock.json
	$(INSTALL)
$(DENY) $(CYCLONEDX) .tools/bin/cargo-fuzz .tools/bin/cargo-mutants .tools/valgrind/usr/bin/valgrind:
	$(INSTALL)

$(NODE_BUNDLES): target/bench/%.mjs: $(NODE_PEER)/node_modules/stamp $(wildcard $(NODE_PEER)/*.mjs) $(NODE_PEER)/package.json
	cd $(NODE_PEER) && npm run --silent bundle -- --alias:handler=./$*.mjs --outfile=$(abspath $@)

# Downloads every crate in Cargo.lock, including those for other systems, so that cargo-deny needs no network.
target/fetched: Cargo.lock
	$(CARGO) fetch --locked
	mkdir -p $(@D)
	touch $@
