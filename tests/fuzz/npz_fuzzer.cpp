// A NumPy archive: all of its arrays.
#include "fuzz/fuzz.h"

#include "levin/core/base/error.h"
#include "levin/data/npz_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return levin::fuzz::run<levin::IoError>(data, size, [](std::string_view input) {
    const levin::NpzFile file(std::string(input), "fuzz.npz");
    for (const std::string& name : file.names()) {
      const at::Tensor tensor = file.read(name);
      // What may always be expanded to, and half floats and bytes that become wider.
      constexpr std::size_t kMost = 4 * ((64 << 20) + (1 << 20));
      FUZZ_CHECK(tensor.nbytes() <= kMost + 400 * input.size(), std::to_string(tensor.nbytes()));
    }
  });
}
