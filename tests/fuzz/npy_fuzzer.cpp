// A NumPy file.
#include "fuzz/fuzz.h"

#include "levin/core/base/error.h"
#include "levin/data/data_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const at::Tensor tensor = levin::parse_npy(std::string(levin::fuzz::text_of(data, size)), "fuzz.npy");
    // Half floats and bytes that become wider signed numbers are the most that an element grows.
    FUZZ_CHECK(tensor.nbytes() <= 4 * size, std::to_string(tensor.nbytes()));
  } catch (const levin::IoError&) {
  }
  return 0;
}
