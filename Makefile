# What a developer of levin types. `make help` lists it. Everything here is a thin layer over CMake.
BUILD ?= build
BUILD_TYPE ?= Release
# Warnings are errors with the compiler that levin is developed with; a newer one may warn of more.
WERROR ?= $(if $(filter 12,$(shell $(CXX) -dumpversion)),ON,OFF)
# A compiler that reads torch's headers takes 1.3 GB.
JOBS ?= $(shell awk '/MemAvailable/ {m = int($$2 / 1500000)} END {n = $(shell nproc); j = m < n ? m : n; print j < 1 ? 1 : j}' /proc/meminfo)
# Files that clang-format and the house tests look at.
SOURCES = git ls-files '*.h' '*.cpp' '*.cu'

.PHONY: help setup configure build demo test bench format lint clean

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 12

setup: ## Install what is missing: Debian packages, and LibTorch into ~/.cache/levin
	@scripts/setup.sh

configure: setup
	@scripts/configure.sh $(BUILD) -DCMAKE_BUILD_TYPE=$(BUILD_TYPE) -DLEVIN_WERROR=$(WERROR) $(CMAKE_FLAGS)

build: configure ## Build everything: the program is then build/bin/levin
	@cmake --build $(BUILD) -j $(JOBS)

demo: configure ## Train the digits example on two ranks, and say where the results lie
	@cmake --build $(BUILD) -j $(JOBS) --target levin_program digits
	@scripts/demo.sh $(BUILD)

test: build ## Run every test
	@ctest --test-dir $(BUILD) --output-on-failure --no-tests=error -j 2

bench: build ## Run the benchmarks
	@$(BUILD)/bin/step_overhead
	@$(BUILD)/bin/log_cost
	@$(BUILD)/bin/csv_logger_benchmark

format: ## Format the sources
	@scripts/setup.sh lint
	@$(SOURCES) | xargs clang-format-14 -i

lint: ## Check formatting, the house's rules, and that no warning slips in
	@scripts/setup.sh lint
	@$(SOURCES) | xargs clang-format-14 --dry-run -Werror
	@$(MAKE) --no-print-directory build WERROR=ON
	@ctest --test-dir $(BUILD) --output-on-failure --no-tests=error -L house

clean: ## Remove the build folder
	@cmake -E rm -rf $(BUILD)
