#pragma once

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>

namespace levin::benchmarks {

/// Reports to the driver (run.py) what was measured: one line of JSON a sample.
inline void print_sample(double value) {
  std::printf("{\"value\": %.9g}\n", value);
  std::fflush(stdout);
}

/// A line of /proc/self/status, such as "VmHWM:", in MB.
inline double status_megabytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key)) return std::stod(line.substr(key.size() + 1)) * 1024e-6;
  }
  return 0;
}

/// Seconds since it was made or started again.
class Stopwatch {
 public:
  void start() { started_ = std::chrono::steady_clock::now(); }
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count(); }

 private:
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

/// Reports to the driver when the first step of a process ended, on the clock by which it has started the process.
inline void print_first_step() {
  const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
  std::printf("{\"at\": %.9f}\n", now.count());
  std::fflush(stdout);
}

}  // namespace levin::benchmarks
