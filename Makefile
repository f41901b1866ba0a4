# Short names for what Meson, pytest and the scripts in tools/ do. `make help` lists them.

PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 60

# One build folder a purpose: build/release, build/asan, … Every one is configured here and nowhere else.
OPTIONS_release =
OPTIONS_asan = --buildtype=debug -Doptimization=1 -Db_sanitize=address,undefined -Db_lundef=false
OPTIONS_tsan = --buildtype=debug -Doptimization=1 -Db_sanitize=thread -Db_lundef=false
OPTIONS_cov = --buildtype=debug -Db_coverage=true
OPTIONS_fuzz = --buildtype=debug -Doptimization=1 -Db_sanitize=address,undefined -Db_lundef=false -Dfuzz=true
ENV_fuzz = CC=clang

all: build-release ## release build in build/release (the default)

deps: ## install the packages (as root; else list them) and the Python environment that building and testing need
	tools/deps build test
	tools/venv

test: build-release venv deps-test ## build and run every test
	tools/suite release

unit: ## the unit tests of one file, building nothing else: UNIT=base_url; without UNIT: what there is
	@test -e build/release/build.ninja || $(MAKE) build-release
	@ninja -C build/release --quiet tests/unit/unit
	@LEAT_SOURCE_ROOT=$(CURDIR) AWS_EC2_METADATA_DISABLED=true build/release/tests/unit/unit $(or $(UNIT),--help)

check: build-release venv deps-check ## format, include table, clang-tidy, cppcheck, banned functions, symbols, …
	.venv/bin/python tools/check.py

check-deep: build-release venv deps-check ## clang-tidy, as closely for all files as `make check` is for a few that changed
	.venv/bin/python tools/check_tidy.py --deep

asan: build-asan venv deps-test ## the suite with AddressSanitizer and UndefinedBehaviorSanitizer, one case of each test; LONG=1 for all cases
	tools/suite asan

# Python cannot load code with ThreadSanitizer: there the agent and the commands are of build/tsan, the rest is not.
tsan: build-release build-tsan venv deps-test ## the suite with ThreadSanitizer
	tools/suite tsan

cov: deps-cov build-cov venv deps-test ## the suite with coverage; report in build/cov/coverage
	tools/coverage

fuzz: deps-fuzz build-fuzz ## every fuzz target for FUZZ_SECONDS=60; TARGETS="url ini" for some, KEEP=1 to keep finds
	tools/fuzz $(FUZZ_SECONDS) $(TARGETS)

times: ## how the time and the cost of .ci/run have grown, a line per landing
	@tools/times

test-s3: build-release venv deps-test deps-s3 ## against a real radosgw, started and torn down again
	@mkdir -p build/s3
	LEAT_BUILD=$(CURDIR)/build/release LEAT_JUNIT=$(CURDIR)/build/s3/pytest.junit.xml tests/s3/run

servers: venv ## the servers of tests/s3/requirements.txt, in build/servers
	@cmp -s tests/s3/requirements.txt build/servers/requirements || { rm -rf build/servers && python3 -m venv build/servers && \
		build/servers/bin/pip install --quiet --disable-pip-version-check -r tests/s3/requirements.txt && \
		cp tests/s3/requirements.txt build/servers/requirements; }

test-s3-all: test-s3 servers ## the same against moto (also with keys that count), rclone serve s3 and SeaweedFS
	@failed=0; for server in moto moto-keys rclone seaweedfs; do \
		LEAT_BUILD=$(CURDIR)/build/release tests/s3/run --server $$server || failed=1; done; exit $$failed

test-long: build-release venv deps-test deps-long ## what takes too long for make test
	tools/suite release --long

demo: build-release venv ## one training from a slow bucket, fed in four ways: a DataLoader and Leat, objects and larger pieces
	LEAT_BUILD=$(CURDIR)/build/release PYTHONPATH=build/release/python .venv/bin/python examples/demo/demo.py $(DEMO)

bench: build-release venv deps-bench ## benchmarks, or some: BENCH="store order"; prints tables, writes JSON to bench/out
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -r bench/requirements.txt || true
	.venv/bin/python bench/run.py $(BENCH)

bench-prep: build-release ## image preparation against Pillow, torchvision, OpenCV, SPDL, DALI, in an environment of its own
	@bench/prep_venv && build/bench-prep/bin/python bench/bench_prep.py

bench-plan: build-release venv ## the planner against published figures, simulation and traces
	@.venv/bin/python bench/bench_plan.py

bench-simulate: build-release venv ## simulated jobs beside the same ones run from a bucket in a box
	@.venv/bin/python bench/bench_simulate.py
	@.venv/bin/python bench/bench_simulate_job.py

bench-whatif: build-release venv ## what `leat whatif` says beside the same trainings run: caches of 0 to 100 %, one and two cores
	@.venv/bin/python bench/bench_whatif.py $(BENCH_WHATIF)

bench-disk: build-release venv ## the disk cache against dd and plain reads of the same files; reopening with 100 GB
	@.venv/bin/python bench/bench_disk.py $(BENCH_DISK)

bench-cache: build-release venv ## bytes from the bucket for caches of 10 to 90 %, in memory, on disk and both, beside LRU
	@.venv/bin/python bench/bench_cache.py

bench-deli: build-release venv ## waiting for small objects far away: one GET at a time, 16 in parallel, Leat
	@.venv/bin/python bench/bench_deli.py

bench-hedge: build-release venv ## second requests for reads that are late: 1 % of answers come a second late
	@.venv/bin/python bench/bench_hedge.py

bench-index: build-release venv ## indexing a million objects of a bucket in a box: rate and memory
	@.venv/bin/python bench/bench_index.py $(BENCH_INDEX)

bench-inplace: build-release venv ## small objects and tar shards where they lie, beside packed data and a DataLoader
	@.venv/bin/python bench/bench_inplace.py $(BENCH_INPLACE)

bench-job: build-release venv ## 1, 2, 4 and 8 machines with a cache each: what leaves the bucket, and what they get from each other
	@.venv/bin/python bench/bench_job.py $(BENCH_JOB)

bench-mount: build-release venv ## reading a mount beside `leat read`, and listing a million files
	@.venv/bin/python bench/bench_mount.py $(BENCH_MOUNT)

bench-pack-files: build-release venv ## packing many small files beside tar and other libraries (BENCH_PACK="--peers ENV/bin/python")
	@.venv/bin/python bench/bench_pack_files.py $(BENCH_PACK)

bench-peers: build-release venv ## bytes from another machine's memory beside iperf3 and bare OpenSSL, on the loopback
	@.venv/bin/python bench/bench_peers.py $(BENCH_PEERS)

bench-scripts: build-release venv ## what `leat profile --time` says of unedited scripts beside five full runs by hand
	@.venv/bin/python bench/bench_scripts.py $(BENCH_SCRIPTS)

bench-profile: build-release venv ## what watching a training costs it, and injected stalls beside what is reported
	@.venv/bin/python bench/bench_profile.py $(BENCH_PROFILE)

bench-share: build-release venv ## four jobs of one machine on the same data, beside one alone and four that do not share
	@.venv/bin/python bench/bench_share.py $(BENCH_SHARE)

bench-tar: build-release venv ## indexing a tar shard beside reading it
	@.venv/bin/python bench/bench_tar.py $(BENCH_TAR)

bench-tokens: build-release venv ## blocks of tokens beside random places of a memmap, from memory and from a bucket
	@.venv/bin/python bench/bench_tokens.py $(BENCH_TOKENS)

bench-sched: build-release venv ## what the scheduler's decisions cost
	@.venv/bin/python bench/bench_sched.py

install: build-release ## library, headers, pkg-config file, command and man pages under DESTDIR/PREFIX
	meson configure build/release --prefix=$(PREFIX)
	meson install -C build/release --tags runtime,command,devel,man $(if $(DESTDIR),--destdir=$(abspath $(DESTDIR)))

wheel: deps-build deps-wheel venv ## one wheel for every Python since 3.9 and glibc since 2.28, in dist
	tools/wheel

test-wheel: build-release venv deps-wheel ## installs the wheel of dist in clean environments of several Pythons and Debian releases and trains there (as root)
	@test -e dist/leat-$$(cat VERSION)-cp39-abi3-*.whl || tools/wheel
	LEAT_BUILD=$(CURDIR)/build/release .venv/bin/python -m pytest -c pyproject.toml tests/wheel $(PYTEST)

abi-dump: build-release venv deps-check ## store the C interface as it is now, after a change that was intended
	.venv/bin/python tools/check_abi.py --renew

format: venv ## put all sources into the one format
	.venv/bin/python tools/check.py --fix format ruff

clean: ## remove everything built (the Python environment stays)
	rm -rf build

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

venv: deps-build
	@tools/venv

deps-%:
	@tools/deps $*

# What ccache keeps serves other clones too, though debug information names a folder. Coverage needs the right one.
build-asan build-tsan: export CCACHE_NOHASHDIR = 1

build-%: deps-build
	@test -e build/$*/build.ninja || { tools/venv --bare && $(ENV_$*) meson setup build/$* $(OPTIONS_$*) \
		-Dpython=$(CURDIR)/.venv/bin/python; }
	@ninja -C build/$*

.PHONY: venv $(shell sed -n 's/^\([a-z0-9-]*\):.*\#\# .*/\1/p' $(MAKEFILE_LIST))
.DEFAULT_GOAL := all
