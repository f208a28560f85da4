# What a developer of levin types. `make help` lists it. Everything here is a thin layer over CMake.
BUILD ?= build
BUILD_TYPE ?= Release
# Warnings are errors in `make clang` and with WERROR=ON: a newer compiler may warn of more.
WERROR ?= OFF
# A compiler of many sources that read torch's headers takes 2.1 GB.
JOBS ?= $(shell awk '/MemAvailable/ {m = int($$2 / 2200000)} END {n = $(shell nproc); j = m < n ? m : n; print j < 1 ? 1 : j}' /proc/meminfo)
# Many tests wait for processes of theirs: four more at a time than there are cores.
TEST_JOBS ?= $(shell echo $$(($$(nproc) + 4)))
# Files that clang-format and the house tests read.
SOURCES = git ls-files '*.h' '*.cpp' '*.cu'

.PHONY: help setup configure build demo metric-references python-classes packages test test-tsan test-asan test-all benchmarks clang test-trackers test-export-models test-packages test-readme wheel deb fuzzers fuzz gpu-check bench bench-quick format formatted lint tidy site picture clean

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 12

setup: ## Install what is missing: Debian packages, and LibTorch into ~/.cache/levin
	@scripts/setup.sh

configure: setup
	@scripts/configure.sh $(BUILD) -DCMAKE_BUILD_TYPE=$(BUILD_TYPE) -DLEVIN_WERROR=$(WERROR) $(CMAKE_FLAGS)

build: configure ## Build everything but the benchmarks: the program is then build/bin/levin
	@cmake --build $(BUILD) -j $(JOBS)

demo: configure ## Train the digits example on two ranks, and say where the results are
	@cmake --build $(BUILD) -j $(JOBS) --target levin_program digits
	@scripts/demo.sh $(BUILD)

test: build ## Run the tests, with samples of large matrices
	@ctest --test-dir $(BUILD) --output-on-failure --no-tests=error -j $(TEST_JOBS)

# What needs no LibTorch compiles in a minute or two, so it has a separate build folder; test-asan compiles nearly everything.
test-tsan: setup ## Run what needs no LibTorch under ThreadSanitizer: protocol, simulation, processes, shared memory, console
	@scripts/configure.sh build-tsan -DCMAKE_BUILD_TYPE=Release -DLEVIN_SANITIZE=thread $(CMAKE_FLAGS)
	@cmake --build build-tsan -j $(JOBS) --target torchfree_tests
	@ctest --test-dir build-tsan --output-on-failure --no-tests=error -L torchfree -j 2

test-asan: setup ## Run every unit test under AddressSanitizer, LeakSanitizer and UBSan
	@scripts/configure.sh build-asan -DCMAKE_BUILD_TYPE=Release -DLEVIN_SANITIZE=address $(CMAKE_FLAGS)
	@cmake --build build-asan -j $(JOBS) --target unit_tests
	@ctest --test-dir build-asan --output-on-failure --no-tests=error -L unit -j 2

# No verdict may depend on the compiler or on the processor: kernels add in an order that depends on it. By default they use all it has.
test-all: build clang ## Run every test, whole matrices instead of samples (hours): with clang, on the least processor, under sanitizers, too
	@scripts/setup.sh launchers
	@env -u MKL_CBWR -u ATEN_CPU_CAPABILITY ctest --test-dir $(BUILD) --output-on-failure --no-tests=error -j 2 -C whole -LE sample
	@MKL_CBWR=COMPATIBLE ATEN_CPU_CAPABILITY=default ctest --test-dir $(BUILD) --output-on-failure --no-tests=error -j $(TEST_JOBS)
	@cmake --build build-clang -j $(JOBS)
	@ctest --test-dir build-clang --output-on-failure --no-tests=error -j $(TEST_JOBS)
	@$(MAKE) --no-print-directory test-tsan
	@$(MAKE) --no-print-directory test-asan
	@$(MAKE) --no-print-directory test-readme

# SECONDS: how long each target runs.
SECONDS ?= 60
FUZZERS ?=
fuzzers: ## Build the fuzz targets for libFuzzer
	@scripts/setup.sh fuzz
	@scripts/configure.sh build-fuzz -DCMAKE_CXX_COMPILER=clang++-14 -DLEVIN_FUZZ=ON -DLEVIN_PCH=OFF -DLEVIN_UNITY=OFF $(CMAKE_FLAGS)
	@cmake --build build-fuzz -j $(JOBS) --target fuzzers

fuzz: fuzzers ## Fuzz what reads files, configurations and peers: SECONDS for each target (60), or FUZZERS="csv npy"
	@scripts/fuzz.sh build-fuzz $(SECONDS) $(FUZZERS)

gpu-check: ## Check on this machine's GPU what needs one (docs/gpu.md); without a GPU it exits with 77
	@scripts/gpu_check.sh

# BENCH_FLAGS: such as --only step,start.
BENCH_FLAGS ?=
benchmarks: build
	@cmake --build $(BUILD) -j $(JOBS) --target benchmarks

bench: benchmarks ## Measure levin and others (an hour and a half), and write benchmarks/results.md and a picture
	@python3 benchmarks/run.py --build $(BUILD) $(BENCH_FLAGS)

bench-quick: benchmarks ## The same with few repetitions (3 minutes), written to the build folder
	@python3 benchmarks/run.py --build $(BUILD) --quick $(BENCH_FLAGS)

format: ## Format the sources
	@scripts/setup.sh lint
	@$(SOURCES) | xargs clang-format-14 -i

lint: ## Check formatting and house rules, that clang does not warn, and changed sources with clang-tidy
	@$(MAKE) --no-print-directory formatted build
	@ctest --test-dir $(BUILD) --output-on-failure --no-tests=error -L house
	@$(MAKE) --no-print-directory clang
	@$(MAKE) --no-print-directory tidy

formatted: ## Check that clang-format has formatted the sources
	@scripts/setup.sh lint
	@$(SOURCES) | xargs clang-format-14 --dry-run -Werror

clang: ## Build what is not a test, and each public header alone, with clang 14 in build-clang, where a warning is an error
	@scripts/setup.sh lint
	@scripts/configure.sh build-clang -DCMAKE_CXX_COMPILER=clang++-14 -DCMAKE_BUILD_TYPE=Release -DLEVIN_WERROR=ON $(CMAKE_FLAGS)
	@cmake --build build-clang -j $(JOBS) --target levin_program examples benchmarks house_headers

# TIDY: library, all, or names of sources. Many sources are checked together, as they are compiled.
TIDY ?=
TIDY_UNITY = $(if $(filter library all,$(TIDY)),ON,OFF)
tidy: ## Run clang-tidy, with .clang-tidy's settings, over sources that differ from origin/main, or over TIDY=library or TIDY=all
	@scripts/setup.sh lint
	@scripts/configure.sh build-tidy -DCMAKE_CXX_COMPILER=clang++-14 -DCMAKE_BUILD_TYPE=Release -DLEVIN_UNITY=$(TIDY_UNITY) -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON $(CMAKE_FLAGS)
	@cmake --build build-tidy --target generated_headers
	@scripts/tidy.sh build-tidy $(TIDY)

test-trackers: build ## Test files and uploads with TensorBoard, MLflow, W&B and Optuna themselves, from PyPI
	@test -x $(BUILD)/trackers/bin/python || python3 -m venv $(BUILD)/trackers
	@$(BUILD)/trackers/bin/python -m pip install --quiet --disable-pip-version-check -r tests/loggers/requirements.txt
	@cmake -DLEVIN_TRACKERS_PYTHON=$(abspath $(BUILD))/trackers/bin/python $(BUILD) >/dev/null
	@cmake --build $(BUILD) -j $(JOBS)
	@ctest --test-dir $(BUILD) --output-on-failure --no-tests=error -L trackers

# MODELS: names of some, or of fields: "gpt2 graphs".
MODELS ?=
test-export-models: build ## Export models of packages from PyPI, and train each with levin and with Lightning: hours, and gigabytes of packages
	@test -x $(BUILD)/models/bin/python || python3 -m venv $(BUILD)/models
	@$(BUILD)/models/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r tests/exported/models/requirements.txt
	@$(BUILD)/models/bin/python tests/exported/models/run_models.py --build $(BUILD) --store $(BUILD)/models/results $(MODELS)

# TORCH: the version of torch that a package is for.
TORCH ?=
CHECKSUMS = cd dist && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS
wheel: ## Make a wheel for PyPI's torch, or TORCH=2.12.0, in dist/, with a bill of materials and checksums
	@TORCH=$(TORCH) JOBS=$(JOBS) scripts/wheel.sh
	@$(CHECKSUMS)

deb: ## Make a Debian package in dist/; `levin setup` then downloads LibTorch
	@TORCH=$(TORCH) JOBS=$(JOBS) scripts/deb.sh
	@$(CHECKSUMS)

# PACKAGES: some of the checks, such as venv,plugin.
PACKAGES ?=
test-packages: wheel deb ## Test the packages as users have them: in a virtual environment, in a Debian without compilers, with both compilers
	@python3 tests/packages/check_packages.py $(PACKAGES)

test-readme: ## Run the README's first commands in an empty Debian, in a fresh clone: most of an hour
	@python3 tests/packages/check_readme.py

# EXPORT_PYTHON: one with torch, lightning and torchmetrics from PyPI.
EXPORT_PYTHON ?= python3
packages: ## Export the packages of tests/exported again, with EXPORT_PYTHON
	@PYTHONPATH=python $(EXPORT_PYTHON) tests/exported/make_packages.py

# METRICS_PYTHON: one with torch and torchmetrics 1.9 from PyPI.
METRICS_PYTHON ?= python3
metric-references: ## Write torchmetrics' results for the cases of tests/metrics again, with METRICS_PYTHON
	@$(METRICS_PYTHON) tests/metrics/make_references.py

python-classes: ## Write python/levin_train/registered.py, the classes that levin_train.export() knows
	@scripts/python_classes.py $(BUILD)/bin/levin

site: ## Make a site of docs/ and of the public headers in build/site, with mkdocs and Doxygen
	@scripts/setup.sh site
	@scripts/site.sh

picture: ## Make the pictures of the README and the documentation again
	@cmake --build $(BUILD) -j $(JOBS) --target levin_program digits shown_items
	@rm -rf $(BUILD)/demo
	@scripts/picture_of_a_run.py --typed "make demo" docs/images/digits.svg scripts/demo.sh $(BUILD)
	@scripts/picture_of_figures.sh $(BUILD)
	@scripts/picture_of_report.py --build $(BUILD)
	@scripts/picture_of_a_run.py --columns 120 --rows 38 --until "best       val_loss=0.0" \
	  --typed "levin fit --config examples/digits/config.yaml --trainer.devices=2" docs/images/live.svg \
	  $(BUILD)/bin/levin fit --config examples/digits/config.yaml --trainer.devices=2 --trainer.default_root_dir=$(BUILD)/demo

clean: ## Remove the build folders
	@cmake -E rm -rf $(BUILD) build-tsan build-asan build-fuzz build-tidy build-clang build-package build-packages dist
