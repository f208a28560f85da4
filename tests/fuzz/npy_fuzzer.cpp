// A NumPy file.
#include "fuzz/fuzz.h"

#include "levin/core/base/error.h"
#include "levin/data/array_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return levin::fuzz::run<levin::IoError>(data, size, [](std::string_view input) {
    const at::Tensor tensor = levin::parse_npy(std::string(input), "fuzz.npy");
    // Half floats and bytes that become wider signed numbers are the most that an element grows.
    FUZZ_CHECK(tensor.nbytes() <= 4 * input.size(), std::to_string(tensor.nbytes()));
  });
}
