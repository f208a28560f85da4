// A file of MNIST's format.
#include "fuzz/fuzz.h"

#include "levin/core/base/error.h"
#include "levin/data/data_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const at::Tensor tensor = levin::parse_idx(std::string(levin::fuzz::text_of(data, size)), "fuzz.idx");
    FUZZ_CHECK(tensor.nbytes() <= size, std::to_string(tensor.nbytes()));
  } catch (const levin::IoError&) {
  }
  return 0;
}
