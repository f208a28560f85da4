// The JSON of a checkpoint's manifest.
#include "fuzz/fuzz.h"
#include "fuzz/same_value.h"
#include "levin/core/config/value_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return levin::fuzz::run<levin::IoError>(data, size, [](std::string_view input) {
    const levin::Value value = levin::parse_json(input);
    const std::string written = levin::to_json(value);
    FUZZ_CHECK(levin::fuzz::same(levin::parse_json(written), value), written);
  });
}
