// Bytes that are encoded with a byte-level tokenizer and decoded again: the text comes back, with U+FFFD for what was no UTF-8.
#include "fuzz/fuzz.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/text/tokenizer.h"
#include "levin/text/unicode/unicode_library.h"
#include "levin/text/utf8.h"

namespace {

/// All bytes, and some merges.
levin::Tokenizer byte_level_tokenizer() {
  std::string vocabulary;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const std::string_view character = levin::detail::byte_level_character(static_cast<unsigned char>(byte));
    const bool is_escaped = character == "\"" || character == "\\";
    vocabulary += levin::format("\"{}{}\":{},", is_escaped ? "\\" : "", character, byte);
  }
  const std::string json =
      levin::format(R"({{"model":{{"type":"BPE","vocab":{{{}"ab":256,"abab":257,"aa":258,"Ġa":259}},)", vocabulary) +
      R"("merges":["a b","a a","Ġ a",["ab","ab"]]},"decoder":{"type":"ByteLevel"},)"
      R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false}})";
  return {json, "byte_level", *levin_unicode_library()};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return levin::fuzz::run<levin::Error>(data, size, [](std::string_view input) {
    static const levin::Tokenizer tokenizer = byte_level_tokenizer();
    std::string valid;
    levin::detail::append_valid_utf8(valid, input);
    const std::string decoded = tokenizer.decode(tokenizer.encode(input));
    FUZZ_CHECK(decoded == valid, levin::format("{} became {}", valid, decoded));
  });
}
