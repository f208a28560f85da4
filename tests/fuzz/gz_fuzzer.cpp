// A data file that may be compressed, from its bytes on the disk to a table.
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "levin/core/base/error.h"
#include "levin/data/csv_file.h"
#include "levin/data/read_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int descriptor = memfd_create("fuzz.csv.gz", 0);
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  const bool written = ftruncate(descriptor, 0) == 0 && pwrite(descriptor, data, size, 0) == static_cast<ssize_t>(size);
  FUZZ_CHECK(written, path);
  try {
    const std::string content = levin::read_input_file(path);
    FUZZ_CHECK(content.size() <= (64u << 20) + 100 * size + (1u << 20), std::to_string(content.size()));
    if (content.size() < (1u << 20)) levin::read_csv(path);
  } catch (const levin::IoError&) {
  }
  return 0;
}
