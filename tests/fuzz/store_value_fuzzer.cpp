// What is found in the run's store: posts of ranks, failures, and the messages of its own protocol, in pieces.
#include <algorithm>

#include "fuzz/fuzz.h"
#include "levin/core/base/error.h"
#include "levin/strategies/store/store_message.h"

namespace {

using namespace levin;

constexpr int kRanks = 4;
constexpr std::size_t kLargestRequest = 64 << 10;

void read_values(const std::string& text) {
  if (const auto post = post_from_text(text)) {
    FUZZ_CHECK(post_from_text(to_text(*post)) && !describe(post->where).empty(), text);
  }
  if (const auto failure = failure_from_text(text, kRanks)) {
    FUZZ_CHECK(failure->rank >= 0 && failure->rank < kRanks && failure_from_text(to_text(*failure), kRanks), text);
  }
}

/// As a server reads a connection, whose bytes come in pieces of `step`.
void read_messages(std::string_view bytes, std::size_t step) {
  StoreMessageReader reader;
  StoreTable table;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(step, bytes.size()))) {
    reader.add(bytes.substr(0, step));
    while (const auto message = reader.next(kLargestRequest)) {
      const StoreMessage answer = table.answer(*message);
      StoreMessageReader again;
      again.add(encode(answer));
      FUZZ_CHECK(again.next(kLargestMessage), "answer");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text = fuzz::text_of(data, size).substr(1);
  read_values(std::string(text));
  return fuzz::run<DesyncError>(data, size, [&](std::string_view) { read_messages(text, std::size_t{1} + data[0]); });
}
