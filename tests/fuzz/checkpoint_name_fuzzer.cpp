// A template of a checkpoint's name: a byte of options, numbers for the epoch, the step and a metric, then the template.
#include <bit>

#include "fuzz/fuzz.h"
#include "levin/callbacks/checkpoint_name.h"
#include "levin/core/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return levin::fuzz::run<levin::ConfigError>(data, size, [](std::string_view input) {
    levin::fuzz::Bytes bytes(input);
    const unsigned choice = bytes.byte();
    const auto epoch = static_cast<std::int64_t>(bytes.number());
    const auto step = static_cast<std::int64_t>(bytes.number());
    const auto metric = std::bit_cast<double>(bytes.number());
    levin::MetricMap metrics{{"m", metric}};
    if (choice & 2) metrics["epoch"] = metric;
    const std::string pattern(bytes.rest());
    const std::string name = levin::checkpoint_name(pattern, (choice & 1) != 0, epoch, step, metrics);
    // A field takes three characters, and writes at most a float with all its digits, padded.
    FUZZ_CHECK(name.size() <= 300 * (pattern.size() + 1), name);
    FUZZ_CHECK(name.find('\0') == std::string::npos || pattern.find('\0') != std::string::npos, pattern);
  });
}
