// What a rank sends at a boundary: frames, and the new metrics of the second exchange.
#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "fuzz/fuzz.h"
#include "levin/core/base/error.h"
#include "levin/core/protocol/boundary_exchange.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/protocol/frame.h"

namespace {

using namespace levin;
using namespace levin::detail;

constexpr std::size_t kRanks = 3;
constexpr std::size_t kSlots = 4;

struct Frame {
  FrameHeader header;
  std::array<Slot, kSlots> slots;
};

/// The frames of all ranks, as far as the input goes; a byte before each says whether it is to begin as a frame does.
void read_frames(std::span<const std::byte>& input) {
  std::array<Frame, kRanks> frames{};
  std::vector<FrameHeader> headers;
  for (Frame& frame : frames) {
    if (input.empty()) break;
    const bool good = input.front() != std::byte{0};
    input = input.subspan(1);
    const auto part = input.first(std::min(sizeof frame, input.size()));
    if (!part.empty()) std::memcpy(static_cast<void*>(&frame), part.data(), part.size());
    const FrameHeader header;
    if (good) std::memcpy(static_cast<void*>(&frame), &header, 8);
    input = input.subspan(part.size());
    headers.push_back(frame.header);
  }
  if (headers.empty()) return;
  try {
    require_same_boundary(headers);
    for (const FrameHeader& header : headers) {
      FUZZ_CHECK(header.new_metrics_bytes <= kMostNewMetricsBytes && header.hook < Hook::kCount, "header");
    }
  } catch (const DesyncError&) {
  }
  std::vector<Votes> votes;
  for (const FrameHeader& header : headers) votes.push_back(unpack_votes(header.votes));
  static_cast<void>(merge(votes));
  for (std::size_t index = 0; index < kSlots; ++index) {
    std::vector<Slot> slots;
    for (const Frame& frame : frames) slots.push_back(frame.slots[index]);
    if (std::none_of(slots.begin(), slots.end(), [](const Slot& slot) { return slot.present(); })) continue;
    for (const Reduce reduce : {Reduce::kMean, Reduce::kSum, Reduce::kMin, Reduce::kMax}) {
      static_cast<void>(reduce_epoch(slots, reduce));
      static_cast<void>(reduce_step(slots, reduce));
    }
  }
}

void read_news(std::span<const std::byte> bytes) {
  try {
    const NewMetrics new_metrics = unpack_new_metrics(bytes);
    const std::vector<std::byte> again = pack(new_metrics);
    FUZZ_CHECK(std::ranges::equal(again, bytes), "new metrics");
    static_cast<void>(merge(std::vector<NewMetrics>{new_metrics, new_metrics}));
  } catch (const Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::span<const std::byte> input = std::as_bytes(std::span(data, size));
  if (input.empty()) return 0;
  const bool frames = input.front() != std::byte{0};
  input = input.subspan(1);
  static_cast<void>(text_in({reinterpret_cast<const char*>(input.data()), input.size()}));
  if (frames) read_frames(input);
  read_news(input);
  return 0;
}
