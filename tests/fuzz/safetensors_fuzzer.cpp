// A checkpoint's first bytes: length, header, and how the tensors lie in the rest.
#include "fuzz/fuzz.h"
#include "levin/core/base/error.h"
#include "levin/core/checkpoint/safetensors_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return levin::fuzz::run<levin::IoError>(data, size, [](std::string_view input) {
    const levin::SafetensorsHeader header = levin::parse_safetensors(input);
    FUZZ_CHECK(header.data_offset + header.data_size == input.size(), std::to_string(header.data_offset));
    std::uint64_t bytes = 0;
    for (const auto& [name, tensor] : header.tensors) {
      FUZZ_CHECK(tensor.begin <= tensor.end && tensor.end <= header.data_size, name);
      bytes += tensor.end - tensor.begin;
    }
    FUZZ_CHECK(bytes == header.data_size, std::to_string(bytes));

    const std::string written = levin::write_safetensors_header(header) + std::string(header.data_size, '\0');
    const levin::SafetensorsHeader again = levin::parse_safetensors(written);
    FUZZ_CHECK(again.metadata == header.metadata && again.tensors.size() == header.tensors.size(), written);
  });
}
