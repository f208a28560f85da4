// A tokenizer's file, and a text that is encoded with it and decoded again: both in one input, divided by a zero.
#include "fuzz/fuzz.h"
#include "levin/core/base/error.h"
#include "levin/text/tokenizer.h"
#include "levin/text/unicode/unicode_library.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return levin::fuzz::run<levin::Error>(data, size, [](std::string_view input) {
    const std::size_t end = input.find('\0');
    const levin::Tokenizer tokenizer(input.substr(0, end), "tokenizer.json", *levin_unicode_library());
    const std::string_view text = end == std::string_view::npos ? "Hello, w\xc3\xb6rld 123" : input.substr(end + 1);
    const std::vector<std::int64_t> tokens = tokenizer.encode(text);
    for (const std::int64_t token : tokens) {
      FUZZ_CHECK(token >= 0 && token < std::int64_t{1} << 31, std::to_string(token));
    }
    tokenizer.decode(tokens, /*skip_special_tokens=*/false);
  });
}
