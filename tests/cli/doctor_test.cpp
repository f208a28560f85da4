#include <catch2/catch.hpp>
#include <cstdlib>
#include <sstream>
#include <thread>

#include "core/console/pseudo_terminal.h"
#include "levin/cli/config/plugin_loader.h"
#include "levin/cli/doctor/findings.h"
#include "levin/core/base/format.h"
#include "levin/core/files/atomic_file.h"
#include "support/temporary_folder.h"

namespace levin::cli {
namespace {

using Catch::Contains;
using levin::test::EnvironmentVariable;
using levin::test::TemporaryFolder;

/// A machine whose files are these.
class Machine {
 public:
  Machine& with(const std::string& file, const std::string& text) {
    write_file(root() / file, text);
    return *this;
  }
  std::filesystem::path root() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

Finding finding(const Findings& findings, const std::string& what) {
  for (const Finding& each : findings) {
    if (each.what == what) return each;
  }
  FAIL("nothing is said of " << what);
  return {};
}

}  // namespace

TEST_CASE("a LibTorch that is not the one levin was built with is wrong") {
  const std::string stamp = "levin-plug-in{levin=0.1;headers=abc;torch=2.13.0;compiler=g++ 12.2}";
  const auto of = [&](const std::string& config) {
    return finding(version_findings(stamp, config, "/opt/libtorch_cpu.so"), "LibTorch");
  };
  CHECK(of("PyTorch built with:\n  - GCC 13\n  - Build settings: TORCH_VERSION=2.13.0, USE_CUDA=OFF").verdict == Verdict::kOk);
  CHECK(of("TORCH_VERSION=2.13.0+cpu, USE_CUDA=OFF").verdict == Verdict::kOk);
  const Finding other = of("BLAS_INFO=mkl, TORCH_VERSION=2.11.0, USE_CUDA=OFF");
  CHECK(other.verdict == Verdict::kWrong);
  CHECK(other.value == "built with 2.13.0, loaded 2.11.0 (/opt/libtorch_cpu.so)");
  CHECK(of("").verdict == Verdict::kWrong);
  CHECK_THAT(finding(version_findings(stamp, "", ""), "levin").value, Contains("ABI 0.1, headers abc, compiled by g++ 12.2"));
  CHECK_FALSE(stamp_field(own_stamp(), "torch").empty());
}

TEST_CASE("other LibTorches are reported, and are wrong where they may be loaded") {
  Machine machine;
  for (const char* folder : {"mine", "cache/torch-1-cpu/torch/lib", "cache/torch-2-cpu/torch/lib"})
    machine.with(format("{}/libtorch_cpu.so", folder), "");
  machine.with("cache/pch/of_levin", "");
  const std::string loaded = machine.root() / "cache/torch-2-cpu/torch/lib/libtorch_cpu.so";
  const auto found = [&](const std::string& search_path) {
    return other_libtorch_findings(loaded, search_path, machine.root() / "cache");
  };
  CHECK(found("").size() == 1);
  CHECK(finding(found(""), "also there").verdict == Verdict::kOk);
  CHECK_THAT(finding(found(""), "also there").value, Contains("cache/torch-1-cpu (this"));
  const std::string own = (machine.root() / "cache/torch-2-cpu/torch/lib").string();
  CHECK(found("/usr/lib::" + own).size() == 1);
  const Finding led_astray = finding(found(own + ":" + (machine.root() / "mine").string()), "LD_LIBRARY_PATH");
  CHECK(led_astray.verdict == Verdict::kWarning);
  CHECK_THAT(led_astray.value, Contains((machine.root() / "mine").string()));
  CHECK(other_libtorch_findings(loaded, "", machine.root() / "none").empty());
}

namespace {

/// Programs that say this, and nothing else, are on PATH.
class Programs {
 public:
  Programs& with(const std::string& name, const std::string& script) {
    machine_.with(name, "#!/bin/sh\n" + script + "\n");
    std::filesystem::permissions(machine_.root() / name, std::filesystem::perms::owner_all);
    return *this;
  }
  Finding found(const std::string& what) const { return finding(program_findings(60), what); }
  std::string place(const std::string& name) const { return machine_.root() / name; }

 private:
  Machine machine_;
  EnvironmentVariable path_{"PATH", machine_.root().c_str()}, cxx_{"CXX", nullptr}, python_{"PYTHON", nullptr},
      wandb_{"WANDB_CORE", nullptr};
};

}  // namespace

TEST_CASE("what a plug-in is built with is missing, too old, or named") {
  Programs programs;
  for (const auto& [what, advice] : {std::pair{"compiler", "apt-get install g++"},
                                     {"CMake", "apt-get install cmake"},
                                     {"build tool", "apt-get install ninja-build"}}) {
    CHECK(programs.found(what).verdict == Verdict::kMissing);
    CHECK_THAT(programs.found(what).advice, Contains(advice));
  }
  const auto verdict = [&](const char* name, const std::string& says, const char* what) {
    return programs.with(name, "echo '" + says + "'").found(what).verdict;
  };
  CHECK(verdict("c++", "c++ (Debian 12.2.0-14) 12.2.0", "compiler") == Verdict::kOk);
  CHECK(verdict("c++", "g++ (GCC) 11.4.1 20231218 (Red Hat 11.4.1-3)", "compiler") == Verdict::kMissing);
  CHECK_THAT(programs.found("compiler").value, Contains("which is older than 12.0"));
  CHECK(verdict("c++", "Debian clang version 14.0.6", "compiler") == Verdict::kOk);
  CHECK(verdict("c++", "Ubuntu clang version 13.0.1-2ubuntu2", "compiler") == Verdict::kMissing);
  const EnvironmentVariable chosen("CXX", "g++-13");
  CHECK(programs.found("compiler").value == "no g++-13");
  CHECK(verdict("g++-13", "g++-13 (GCC) 13.1.0", "compiler") == Verdict::kOk);
  CHECK(verdict("cmake", "cmake version 3.18.4", "CMake") == Verdict::kMissing);
  CHECK(verdict("cmake", "cmake version 3.25.1", "CMake") == Verdict::kOk);
  CHECK(verdict("cmake", "cmake version 4.0.0-rc1", "CMake") == Verdict::kOk);
  CHECK(verdict("make", "GNU Make 4.3", "build tool") == Verdict::kOk);
  CHECK(programs.with("ninja", "echo 1.11.1").found("build tool").value == "Ninja 1.11.1");
  // One that fails is not there.
  CHECK(programs.with("cmake", "echo cmake version 3.30.0; exit 1").found("CMake").verdict == Verdict::kMissing);
}

TEST_CASE("other programs that the documentation names are missing with their cure") {
  Programs programs;
  CHECK(programs.found("Python").value == "no python3");
  programs.with("python3", "printf 'python 3.11.2\\n'");
  CHECK(programs.found("Python").value == "python3 3.11.2, without venv");
  CHECK(programs.found("Python").verdict == Verdict::kMissing);
  CHECK_THAT(programs.found("Python").advice, Contains("apt-get install python3-venv"));
  CHECK(programs.found("Optuna").verdict == Verdict::kMissing);
  CHECK_THAT(programs.found("Optuna").advice, Contains("pip install optuna"));
  CHECK(programs.found("wandb-core").value == "none");
  programs.with("python3", "printf 'python 3.11.2\\nvenv yes\\noptuna 4.0.0\\nwandb 0.20.1\\n'");
  CHECK(programs.found("Python").verdict == Verdict::kOk);
  CHECK(programs.found("Optuna").value == "4.0.0");
  CHECK_THAT(programs.found("wandb-core").value, Contains("not on PATH"));
  CHECK(programs.found("wandb-core").verdict == Verdict::kMissing);
  programs.with("wandb", "");
  CHECK(programs.found("wandb-core").verdict == Verdict::kOk);
  CHECK_THAT(programs.found("wandb-core").value, Contains("0.20.1, " + programs.place("wandb")));
  const EnvironmentVariable core("WANDB_CORE", "/nowhere/wandb-core");
  CHECK(programs.found("wandb-core").verdict == Verdict::kWarning);
}

TEST_CASE("the Python that is asked answers what the doctor reads") {
  const EnvironmentVariable python("PYTHON", nullptr);
  if (std::system("python3 --version >/dev/null 2>&1") != 0) return;
  CHECK_THAT(finding(program_findings(60), "Python").value, Catch::Matches("python3 3\\.[0-9]+\\..*"));
}

TEST_CASE("memory is what the machine has and its control groups leave") {
  Machine machine;
  machine.with("proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\nMemAvailable:    8388608 kB\n");
  CHECK(finding(memory_findings(machine.root()), "memory").value == "16 GiB, 8 GiB available");
  CHECK(memory_findings(machine.root()).size() == 1);

  // The group above has the lower limit.
  machine.with("proc/self/cgroup", "0::/user/shell\n").with("sys/fs/cgroup/user/memory.max", "1073741824\n");
  machine.with("sys/fs/cgroup/user/shell/memory.max", "max\n");
  const Finding limit = finding(memory_findings(machine.root()), "memory limit");
  CHECK(limit.value == "1 GiB (cgroup)");
  CHECK(limit.verdict == Verdict::kWarning);
  machine.with("sys/fs/cgroup/user/shell/memory.max", "104857600\n");
  CHECK(finding(memory_findings(machine.root()), "memory limit").verdict == Verdict::kWrong);

  machine.with("proc/self/cgroup", "4:memory:/docker\n0::/\n")
      .with("sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(memory_findings(machine.root()).size() == 1);
  machine.with("sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "3221225472\n");
  CHECK(finding(memory_findings(machine.root()), "memory limit").value == "3 GiB (cgroup)");

  machine.with("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 102400 kB\n");
  CHECK(finding(memory_findings(machine.root()), "memory").verdict == Verdict::kWrong);
}

TEST_CASE("fewer cores' worth of time than cores is reported with the number of threads to set") {
  Machine machine;
  machine.with("proc/cpuinfo", "processor : 0\nmodel name\t: A Processor\n").with("proc/self/cgroup", "0::/\n");
  CHECK(finding(processor_findings(machine.root(), 8, false), "CPU").value == "A Processor");
  CHECK(finding(processor_findings(machine.root(), 8, false), "cores").verdict == Verdict::kOk);
  machine.with("sys/fs/cgroup/cpu.max", "200000 100000\n");
  const Finding cores = finding(processor_findings(machine.root(), 8, false), "cores");
  CHECK(cores.value == "8 cores, time of 2 of them (cgroup)");
  CHECK(cores.verdict == Verdict::kWarning);
  CHECK_THAT(cores.advice, Contains("OMP_NUM_THREADS=2"));
  CHECK(finding(processor_findings(machine.root(), 8, true), "cores").verdict == Verdict::kOk);
  CHECK(finding(processor_findings(machine.root(), 2, false), "cores").verdict == Verdict::kOk);
  machine.with("proc/self/cgroup", "1:cpu,cpuacct:/\n").with("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n");
  machine.with("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  CHECK_THAT(finding(processor_findings(machine.root(), 8, false), "cores").value, Contains("time of 1.5 of them"));
}

TEST_CASE("GPUs are those that the driver knows") {
  Machine machine;
  const auto graphics_findings = [&](const std::string& config = "CUDA_VERSION=12.6, USE_CUDA=ON") {
    return cli::graphics_findings(machine.root(), config);
  };
  CHECK(graphics_findings().empty());
  machine.with("proc/driver/nvidia/version", "NVRM version: 580.159\nGCC version: 12\n");
  machine.with("proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA H100\nIRQ: 1\n");
  CHECK(finding(graphics_findings(), "NVIDIA's driver").value == "NVRM version: 580.159");
  CHECK(finding(graphics_findings(), "GPU").value == "NVIDIA H100 at 0000:01:00.0");

  // A driver that is older than what LibTorch's CUDA needs.
  const auto driver_with = [&](const std::string& config) { return finding(graphics_findings(config), "NVIDIA's driver"); };
  CHECK(driver_with("CUDA_VERSION=13.0, USE_CUDA=ON").verdict == Verdict::kOk);
  machine.with("proc/driver/nvidia/version",
               "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12\nGCC version: 12.2\n");
  CHECK(driver_with("CUDA_VERSION=12.6, USE_CUDA=ON").verdict == Verdict::kOk);
  CHECK(driver_with("USE_CUDA=OFF").verdict == Verdict::kOk);
  CHECK(driver_with("CUDA_VERSION=13.0, USE_CUDA=ON").verdict == Verdict::kWarning);
  CHECK_THAT(driver_with("CUDA_VERSION=13.0, USE_CUDA=ON").advice, Contains("CUDA 13.0 needs 580"));
}

TEST_CASE("low limits are reported") {
  Machine machine;
  constexpr rlim_t kPlenty = 100'000;
  const auto verdict = [&](rlim_t files, rlim_t threads, rlim_t locked, const std::string& what) {
    return finding(limit_findings(machine.root(), files, threads, locked), what).verdict;
  };
  CHECK(verdict(kPlenty, kPlenty, 0, "open files") == Verdict::kOk);
  CHECK(verdict(256, kPlenty, 0, "open files") == Verdict::kWarning);
  CHECK(verdict(16, kPlenty, 0, "open files") == Verdict::kWrong);
  CHECK(verdict(kPlenty, 100, 0, "threads") == Verdict::kWarning);
  CHECK(verdict(kPlenty, kPlenty, 0, "locked memory") == Verdict::kOk);
  machine.with("sys/class/infiniband/mlx5_0", "").with("proc/self/cgroup", "0::/\n").with("sys/fs/cgroup/pids.max", "20\n");
  CHECK(verdict(kPlenty, kPlenty, 65536, "locked memory") == Verdict::kWarning);
  CHECK(verdict(kPlenty, kPlenty, 0, "threads") == Verdict::kWrong);
}

TEST_CASE("a clock that is slow, goes back or is not set by others is reported") {
  Machine machine;
  machine.with("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n");
  const Findings bad = clock_findings(machine.root(), false, 3);
  CHECK(finding(bad, "clock source").verdict == Verdict::kWarning);
  CHECK(finding(bad, "time of day").verdict == Verdict::kWarning);
  CHECK(finding(bad, "steady clock").verdict == Verdict::kWrong);
  CHECK(finding(bad, "steady clock").value == "went back 3 times");
  machine.with("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
  for (const Finding& each : clock_findings(machine.root(), true, 0)) CHECK(each.verdict == Verdict::kOk);
  CHECK(count_steps_back() == 0);
}

TEST_CASE("variables that count are shown, without what is secret") {
  const Findings found = environment_findings({"LEVIN_TRAINER__MAX_EPOCHS=5", "WANDB_API_KEY=0123456789", "HOME=/root",
                                               "OMP_NUM_THREADS=", "MLFLOW_TRACKING_PASSWORD=hunter2",
                                               "MLFLOW_TRACKING_URI=https://me:hunter2@host", "LEVIN_RUN_TOKEN=abc"});
  CHECK(found.size() == 6);
  CHECK(finding(found, "LEVIN_TRAINER__MAX_EPOCHS").value == "5");
  CHECK(finding(found, "OMP_NUM_THREADS").value == "empty");
  for (const char* secret : {"WANDB_API_KEY", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_URI", "LEVIN_RUN_TOKEN"})
    CHECK(finding(found, secret).value == "set (not shown)");
  CHECK(environment_findings({"HOME=/root"}).front().what == "variables");
}

TEST_CASE("a folder that cannot be written to is wrong, and one that can is left as it was") {
  const TemporaryFolder folder;
  const Findings good = folder_findings("working folder", folder.path());
  CHECK(good.size() == 1);
  CHECK(good[0].verdict != Verdict::kWrong);
  CHECK_THAT(good[0].value, Contains(folder.path().string()) && Contains("free, writes"));
  CHECK(std::filesystem::is_empty(folder.path()));
  CHECK(folder_findings("cache", folder.path() / "none")[0].verdict == Verdict::kWrong);
  const Finding kernel = folder_findings("cache", "/proc")[0];  // nobody makes files there, whoever he is
  CHECK(kernel.verdict == Verdict::kWrong);
  CHECK_THAT(kernel.value, Contains("/proc"));
}

TEST_CASE("a full /dev/shm is reported") {
  CHECK(shared_memory_findings(1 << 30, 1 << 30)[0].verdict == Verdict::kOk);
  const Finding full = shared_memory_findings(64 << 20, 0)[0];
  CHECK(full.verdict == Verdict::kWarning);
  CHECK(full.value == "64 MiB, 0 B free");
  CHECK_THAT(full.advice, Contains("--shm-size"));
}

TEST_CASE("two ranks that fail or hang are wrong") {
  const auto found = [](const std::string& script, double seconds) {
    return rank_findings({"/bin/sh", "-c", script}, seconds);
  };
  const Findings slow = found(
      "printf 'group | collective | size | time | GB/s\\n"
      "gloo  | all_reduce | 1 KiB | 250.0 us | 0.004 | 0.004\\ngloo  | all_reduce | 4 MiB | 4 ms |  1.05 | 1.05\\n'",
      60);
  CHECK(finding(slow, "gloo").value == "all-reduce of two ranks: 250.0 us for 1 KiB, 1.05 GB/s for 4 MiB");
  CHECK(finding(slow, "shared memory").verdict == Verdict::kWarning);
  const Finding failed = found("printf 'levin: no port\\nlevin: the others end\\n'; exit 3", 60)[0];
  CHECK(failed.verdict == Verdict::kWrong);
  CHECK(failed.value == "two ranks ended with status 3: levin: no port");
  CHECK(found("sleep 1000", 0.1)[0].value == "two ranks did not end within 0.1 s: without any output");
}

TEST_CASE("a host name that cannot be resolved is reported") {
  const Finding lost = host_name_findings("node7", {}, "Name or service not known")[0];
  CHECK(lost.verdict == Verdict::kWarning);
  CHECK(lost.value == "node7 cannot be resolved (Name or service not known)");
  CHECK(host_name_findings("node7", {"10.0.0.7"}, "")[0].value == "node7 is 10.0.0.7");
  CHECK_THAT(host_name_findings("node7", {"127.0.1.1"}, "")[0].value, Contains("MASTER_ADDR"));
}

TEST_CASE("a check that does not end, or fails, is a finding") {
  // The thread stays until the program ends.
  const Findings hangs = run_with_timeout(0.05, "disk", [] {
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
    return Findings();
  });
  CHECK(hangs[0].verdict == Verdict::kWrong);
  CHECK_THAT(hangs[0].value, Contains("no answer within"));
  CHECK(run_with_timeout(60, "disk", []() -> Findings { throw std::runtime_error("it is gone"); })[0].value == "it is gone");
  CHECK(run_with_timeout(60, "disk", [] { return Findings{{"disk", "spins"}}; })[0].value == "spins");
}

TEST_CASE("the report fits 100 columns, and says how much is wrong") {
  const std::string path = "/" + std::string(180, 'x');
  const std::vector<DoctorSection> sections = {
      {"storage",
       {{"a folder", path + " " + path, Verdict::kWrong, "choose another one"}, {"A_VARIABLE_WITH_A_VERY_LONG_NAME", "1"}}},
      {"programs", {{"CMake", "no cmake", Verdict::kMissing, "install it"}}},
      {"clock", {{"time", "slow", Verdict::kWarning, "wait"}, {"steady", "yes", Verdict::kOk, "never shown"}}}};
  const std::string text = report_text(sections);
  CHECK_THAT(text, Catch::StartsWith("levin doctor: 1 wrong, 1 warning; 1 missing, which only some need\n"));
  CHECK_THAT(
      text,
      Contains(
          "\nclock\n  warning  time             slow\n                            wait\n  ok       steady           yes\n"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 100);
  CHECK(report_status(sections) == 1);
  CHECK_THAT(text, Contains("\n  missing  CMake            no cmake\n                            install it\n"));
  CHECK(report_status({sections[1], sections[2]}) == 0);
  const Value value = report_value(sections);
  CHECK(value.at("wrong") == Value(1));
  CHECK(value.at("missing") == Value(1));
  CHECK(value.at("sections").as_list()[2].at("findings").as_list()[0].at("verdict") == Value("warning"));
}

}  // namespace levin::cli
