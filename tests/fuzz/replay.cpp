// Runs a fuzz target over files instead of over what libFuzzer makes: every case of the corpus, in `make test`, with limits on
// memory. Usage: TARGET_replay FOLDER
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "fuzz/fuzz.h"

namespace {

namespace fs = std::filesystem;

constexpr long kFixedKiB = 160 * 1024;  // what a case may add to the memory in use, however small it is
constexpr long kTimesItsSize = 100;

/// KiB of a line of /proc/self/status; 0 when it cannot be read.
long memory(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) return std::atol(line.c_str() + name.size() + 1);
  }
  return 0;
}

/// Makes VmHWM, the most memory that was in use, count from now on.
void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

bool run(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string input(std::istreambuf_iterator<char>(stream), {});
  std::printf("%s\n", file.filename().c_str());
  std::fflush(stdout);
  reset_peak();
  const long before = memory("VmRSS");
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  const long added = memory("VmHWM") - before;
  const long allowed = kFixedKiB + kTimesItsSize * static_cast<long>(input.size()) / 1024;
  if (added > allowed) std::printf("  took %ld KiB of memory, %ld are allowed\n", added, allowed);
  return added <= allowed;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(argv[1])) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  // A target that starts its library for the first case takes memory for that.
  LLVMFuzzerTestOneInput(nullptr, 0);
  const long failed = std::count_if(files.begin(), files.end(), [](const fs::path& file) { return !run(file); });
  std::printf("%zu cases, %ld failed\n", files.size(), failed);
  return files.empty() || failed > 0 ? 1 : 0;
}
