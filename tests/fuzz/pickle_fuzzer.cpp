// A pickle of torch's: Python's stack machine, and what of it becomes plain values.
#include "fuzz/fuzz.h"
#include "levin/core/base/error.h"
#include "levin/core/config/value_json.h"
#include "levin/core/formats/pickle.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return levin::fuzz::run<levin::IoError>(data, size, [](std::string_view input) {
    const levin::Pickle pickle(input);
    const levin::Value plain = levin::PlainValues(pickle.bytes()).of(pickle.root());
    FUZZ_CHECK(levin::parse_json(levin::to_json(plain)).size() == plain.size(), levin::to_json(plain));
  });
}
