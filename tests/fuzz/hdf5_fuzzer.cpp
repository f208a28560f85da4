// An HDF5 file: the first and the last rows of its arrays.
#include <algorithm>
#include <span>
#include <stdexcept>
#include <vector>

#include "fuzz/fuzz.h"
#include "levin/columns/hdf5/hdf5_files.h"

/// HDF5 1.10 itself loses memory where it refuses a file.
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5"; }
/// It asks for the sizes that a file states, and refuses the file when there is no such memory.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return levin::fuzz::run<std::runtime_error>(data, size, [](std::string_view input) {
    const auto file = levin_hdf5_files()->open_memory(std::as_bytes(std::span(input)));
    for (std::size_t number = 0; number < file->arrays().size(); ++number) {
      const levin::Hdf5Array& array = file->arrays()[number];
      if (array.kind == 0 || array.shape.empty() || array.shape[0] == 0) continue;
      std::int64_t row_bytes = array.bytes;
      for (std::size_t side = 1; side < array.shape.size(); ++side) row_bytes *= array.shape[side];
      constexpr std::int64_t kMostBytes = 1 << 22;
      if (row_bytes > kMostBytes) continue;
      std::vector<std::int64_t> rows = {0};
      if (array.shape[0] > 1) rows.push_back(array.shape[0] - 1);
      std::vector<std::byte> values(static_cast<std::size_t>(row_bytes) * rows.size());
      try {
        file->read(number, rows, values.data());
      } catch (const std::runtime_error&) {
        continue;  // others may be whole
      }
    }
  });
}
