// Runs a fuzz target without libFuzzer, in `make test`: over every case of the corpus, with limits on memory, and over inputs
// that are like them, the same ones each time. Usage: TARGET_replay FOLDER
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>

#include "fuzz/fuzz.h"
#include "support/file_text.h"

namespace {

constexpr long kFixedKiB = 160 * 1024;  // what a case may add to the memory in use, however small it is
constexpr long kTimesItsSize = 100;
constexpr std::uint64_t kMutated = 2000;

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

void run_target(const std::string& name, const std::string& input) {
  std::printf("%s\n", name.c_str());
  std::fflush(stdout);
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

bool keeps_limits(const std::string& name, const std::string& input) {
  reset_peak();
  const long before = memory("VmRSS");
  run_target(name, input);
  const long added = memory("VmHWM") - before;
  const long allowed = kFixedKiB + kTimesItsSize * static_cast<long>(input.size()) / 1024;
  if (added > allowed) std::printf("  took %ld KiB of memory, %ld are allowed\n", added, allowed);
  return added <= allowed;
}

/// Bytes of a case, or any bytes, in which some are changed, removed, or added from another case.
std::string mutated(const std::map<std::string, std::string>& cases, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::size_t bound) { return static_cast<std::size_t>(random() % bound); };
  const auto any_case = [&] { return std::next(cases.begin(), static_cast<std::ptrdiff_t>(below(cases.size())))->second; };
  std::string input = any_case();
  if (below(8) == 0) std::generate(input.begin(), input.end(), [&] { return static_cast<char>(random()); });
  for (std::size_t changes = 1 + below(6); changes > 0; --changes) {
    const std::size_t at = below(input.size() + 1);
    const std::size_t length = 1 + below(16);
    const std::string other = any_case();
    const std::size_t kind = below(3);
    if (kind == 0 && at < input.size()) input[at] = static_cast<char>(random());
    if (kind == 1) input.erase(at, length);
    if (kind == 2) input.insert(at, other, below(other.size() + 1), length);
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::map<std::string, std::string> cases;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1]))
    cases[entry.path().filename()] = levin::test::read_text(entry.path());
  // A target that starts its library for the first case takes memory for that.
  LLVMFuzzerTestOneInput(nullptr, 0);
  const long failed =
      std::count_if(cases.begin(), cases.end(), [](const auto& each) { return !keeps_limits(each.first, each.second); });
  std::printf("%zu cases, %ld failed\n", cases.size(), failed);
  if (cases.empty() || failed > 0) return 1;
  for (std::uint64_t seed = 1; seed <= kMutated; ++seed) run_target("mutated " + std::to_string(seed), mutated(cases, seed));
  return 0;
}
