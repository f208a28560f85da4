// A pickle of torch's: Python's stack machine, and what of it becomes plain values.
#include "fuzz/fuzz.h"
#include "levin/core/base/error.h"
#include "levin/core/formats/pickle.h"
#include "levin/core/options/value_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const levin::Pickle pickle(levin::fuzz::text_of(data, size));
    const levin::Value plain = levin::PlainValues(pickle.bytes()).of(pickle.root());
    FUZZ_CHECK(levin::parse_json(levin::to_json(plain)).size() == plain.size(), levin::to_json(plain));
  } catch (const levin::IoError&) {
  }
  return 0;
}
