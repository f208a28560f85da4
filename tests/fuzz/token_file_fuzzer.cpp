// A token file and its index: both in one input, of which the first two bytes say where the index begins.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "fuzz/fuzz.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/text/token_file.h"

namespace {

void put(const std::filesystem::path& file, std::string_view bytes) {
  std::ofstream(file, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::filesystem::path file =
      std::filesystem::temp_directory_path() / levin::format("levin-token-file-fuzzer-{}", getpid());
  return levin::fuzz::run<levin::Error>(data, size, [](std::string_view input) {
    levin::fuzz::Bytes bytes(input);
    const std::size_t length = bytes.byte() * std::size_t{256} + bytes.byte();
    const std::string_view tokens = bytes.take(length);
    put(file, tokens);
    if (bytes.empty()) {
      std::filesystem::remove(levin::index_of(file));
    } else {
      put(levin::index_of(file), bytes.rest());
    }
    const levin::TokenFile read(file);
    FUZZ_CHECK(read.size() * levin::bytes_of(read.type()) <= static_cast<std::int64_t>(tokens.size()),
               "more tokens than bytes");
    std::vector<std::int64_t> all(static_cast<std::size_t>(read.size()));
    read.read(0, all);
    for (const std::uint64_t end : read.document_ends()) FUZZ_CHECK(end <= all.size(), std::to_string(end));
  });
}
