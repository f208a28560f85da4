// A file of MNIST's format.
#include "fuzz/fuzz.h"

#include "levin/core/base/error.h"
#include "levin/data/array_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return levin::fuzz::run<levin::IoError>(data, size, [](std::string_view input) {
    const at::Tensor tensor = levin::parse_idx(std::string(input), "fuzz.idx");
    FUZZ_CHECK(tensor.nbytes() <= input.size(), std::to_string(tensor.nbytes()));
  });
}
