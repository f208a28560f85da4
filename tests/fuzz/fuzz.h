#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

/// What libFuzzer calls with an input of its own making, and replay.cpp with each file of the corpus. Each *_fuzzer.cpp defines
/// it: an input is refused with one of levin's errors, or has the meaning that the target checks. Anything else (a signal,
/// another exception, FUZZ_CHECK) is a find.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace levin::fuzz {

/// The input as text.
inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Gives an input to a target, which may refuse it with an error of this kind.
template <class Refusal, class Target>
int run(const std::uint8_t* data, std::size_t size, const Target& target) {
  try {
    target(text_of(data, size));
  } catch (const Refusal&) {
  }
  return 0;
}

/// Ends the program as a crash does, so that libFuzzer keeps the input.
[[noreturn]] inline void fail(const char* what, const std::string& detail) {
  std::fprintf(stderr, "%s\n%s\n", what, detail.c_str());
  std::abort();
}

/// Reads an input piece by piece; at its end everything is 0.
class Bytes {
 public:
  explicit Bytes(std::string_view data) : rest_(data) {}

  bool empty() const { return rest_.empty(); }
  std::uint8_t byte() { return rest_.empty() ? 0 : static_cast<std::uint8_t>(take(1)[0]); }
  std::uint64_t number() {
    std::uint64_t number = 0;
    for (const char each : take(8)) number = number << 8 | static_cast<std::uint8_t>(each);
    return number;
  }
  std::string_view take(std::size_t size) {
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

}  // namespace levin::fuzz

#define FUZZ_CHECK(condition, detail) \
  if (!(condition)) ::levin::fuzz::fail("not so: " #condition, detail)
