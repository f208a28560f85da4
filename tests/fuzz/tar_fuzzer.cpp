// A tar file, which may be compressed: its entries, and the bytes of most.
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "levin/core/base/error.h"
#include "levin/data/tar_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int descriptor = memfd_create("fuzz.tar", 0);
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  const bool written = ftruncate(descriptor, 0) == 0 && pwrite(descriptor, data, size, 0) == static_cast<ssize_t>(size);
  FUZZ_CHECK(written, path);
  return levin::fuzz::run<levin::IoError>(data, size, [&](std::string_view input) {
    levin::TarReader tar(path);
    std::int64_t bytes = 0;
    for (int entries = 0; const auto entry = tar.next(); ++entries) {
      FUZZ_CHECK(entry->size >= 0 && entry->offset >= levin::kTarBlock, std::to_string(entry->size));
      if (entries % 3 == 2) continue;
      const std::string read = tar.read();
      FUZZ_CHECK(std::ssize(read) == entry->size, std::to_string(read.size()));
      bytes += entry->size;
    }
    if (tar.seekable()) FUZZ_CHECK(bytes <= std::ssize(input), std::to_string(bytes));
  });
}
