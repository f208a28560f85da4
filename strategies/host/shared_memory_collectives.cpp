#include "levin/strategies/host/shared_memory_collectives.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"

namespace levin {

namespace {

constexpr std::size_t kMostChunkBytes = std::size_t{1} << 20;
constexpr std::size_t kLeastChunkBytes = std::size_t{64} << 10;
/// Of all ranks together, about.
constexpr std::size_t kMostMemoryBytes = std::size_t{64} << 20;
/// Shares begin on lines of the cache, so that ranks write none together.
constexpr std::size_t kLineBytes = 64;
constexpr std::size_t kPageBytes = 4096;
/// Up to here every rank combines everything by itself: a second wait for all ranks would take longer.
constexpr std::size_t kAtOnceBytes = std::size_t{16} << 10;
/// Two ranks then read and write no more, and each has its next data in its cache.
constexpr std::size_t kAtOnceBytesOfTwo = std::size_t{512} << 10;

/// What all_reduce_parts() combines at a time: it stays in the cache until it stands in each part.
constexpr std::size_t kBlockBytes = std::size_t{32} << 10;

/// Of the text with the address of shared memory.
constexpr std::size_t kTextBytes = 256;

std::size_t rounded_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

std::size_t chunk_bytes_of(int ranks) {
  const std::size_t share = kMostMemoryBytes / (4 * static_cast<std::size_t>(ranks));
  return std::clamp(share / kPageBytes * kPageBytes, kLeastChunkBytes, kMostChunkBytes);
}

constexpr std::size_t kSlotBytes = (sizeof(LaneSlot) + kPageBytes - 1) / kPageBytes * kPageBytes;

/// A slot, the two buffers of the lane, and two windows.
std::size_t bytes_of_rank(int ranks) { return kSlotBytes + 4 * chunk_bytes_of(ranks); }

std::vector<LanePart> lane_parts(const SharedFile& memory, int ranks) {
  if (memory.bytes() != SharedMemoryCollectives::memory_bytes(ranks)) {
    throw IoError(format("shared memory of the run: {} bytes for collectives of {} ranks", memory.bytes(), ranks));
  }
  std::vector<LanePart> parts;
  for (int rank = 0; rank < ranks; ++rank) {
    std::byte* const begin = memory.data() + static_cast<std::size_t>(rank) * bytes_of_rank(ranks);
    std::byte* const buffers = begin + kSlotBytes;
    parts.push_back({reinterpret_cast<LaneSlot*>(begin), {buffers, buffers + chunk_bytes_of(ranks)}});
  }
  return parts;
}

}  // namespace

std::size_t SharedMemoryCollectives::memory_bytes(int ranks) { return static_cast<std::size_t>(ranks) * bytes_of_rank(ranks); }

SharedMemoryCollectives::SharedMemoryCollectives(SharedFile memory, std::shared_ptr<RunSegment> segment,
                                                 std::shared_ptr<StatusBoard> board, double timeout_seconds,
                                                 WaitingThread thread)
    : waits_(std::move(segment), std::move(board), timeout_seconds, thread),
      memory_(std::move(memory)),
      chunk_bytes_(chunk_bytes_of(size())),
      lane_(waits_, lane_parts(memory_, size())),
      sources_(static_cast<std::size_t>(size())),
      parts_(static_cast<std::size_t>(size())) {}

template <class Step>
void SharedMemoryCollectives::in_pieces(std::size_t bytes, std::size_t piece_bytes, const Step& step) {
  std::size_t offset = 0;
  do {
    const std::size_t length = std::min(piece_bytes, bytes - offset);
    step(offset, length);
    offset += length;
  } while (offset < bytes);
}

void SharedMemoryCollectives::publish_and_wait(const char* what, std::size_t total_bytes, bool is_first) {
  lane_.publish({GroupOperation::kAllGather, what, total_bytes});
  lane_.wait_for_all(what);
  if (is_first) lane_.check_same_call();
}

std::byte* SharedMemoryCollectives::window_of(int rank) const {
  std::byte* const begin = memory_.data() + static_cast<std::size_t>(rank) * bytes_of_rank(size());
  return begin + kSlotBytes + (2 + windows_reduced_ % 2) * chunk_bytes_;
}

std::size_t SharedMemoryCollectives::begin_of_share(int rank, std::size_t length) const {
  const auto ranks = static_cast<std::size_t>(size());
  return std::min(length, rounded_up((length + ranks - 1) / ranks, kLineBytes) * static_cast<std::size_t>(rank));
}

void SharedMemoryCollectives::combine(std::byte* result, const Values& values, std::size_t begin, std::size_t end) {
  if (begin >= end) return;
  for (std::size_t peer = 0; peer < sources_.size(); ++peer) parts_[peer] = sources_[peer] + begin;
  values.combine(result, parts_, (end - begin) / values.element_bytes);
}

void SharedMemoryCollectives::take_chunks() {
  for (int peer = 0; peer < size(); ++peer) sources_[static_cast<std::size_t>(peer)] = lane_.chunk(peer);
}

void SharedMemoryCollectives::all_reduce(const Values& values, const char* what) {
  waits_.check_usable();
  in_pieces(values.bytes.size(), chunk_bytes_, [&](std::size_t offset, std::size_t length) {
    std::byte* const piece = values.bytes.data() + offset;
    if (length > 0) std::memcpy(lane_.own_buffer(), piece, length);
    publish_and_wait(what, values.bytes.size(), offset == 0);
    take_chunks();
    combine_on_all(piece, length, values, what);
  });
}

void SharedMemoryCollectives::all_reduce_window(const Values& result, const char* what) {
  waits_.check_usable();
  publish_and_wait(what, result.bytes.size(), /*is_first=*/true);
  for (int peer = 0; peer < size(); ++peer) sources_[static_cast<std::size_t>(peer)] = window_of(peer);
  // As with chunks: a rank that sees all ranks in the next call knows that they have read this window.
  ++windows_reduced_;
  combine_on_all(result.bytes.data(), result.bytes.size(), result, what);
}

void SharedMemoryCollectives::combine_on_all(std::byte* result, std::size_t length, const Values& all, const char* what) {
  if (length <= (size() == 2 ? kAtOnceBytesOfTwo : kAtOnceBytes)) return combine(result, all, 0, length);
  combine(lane_.own_buffer(), all, begin_of_share(rank(), length), begin_of_share(rank() + 1, length));
  publish_and_wait(what, all.bytes.size(), /*is_first=*/false);
  for (int peer = 0; peer < size(); ++peer) {
    const std::size_t begin = begin_of_share(peer, length);
    const std::size_t bytes = begin_of_share(peer + 1, length) - begin;
    if (bytes > 0) std::memcpy(result + begin, lane_.chunk(peer), bytes);
  }
}

std::shared_ptr<const SharedParts> SharedMemoryCollectives::share_parts(std::size_t bytes, const char* what) {
  const auto gather = [&](std::string mine) {
    mine.resize(kTextBytes);
    std::vector<std::string> all(static_cast<std::size_t>(size()), mine);
    std::vector<std::byte*> places;
    for (std::string& text : all) places.push_back(reinterpret_cast<std::byte*>(text.data()));
    all_gather(std::as_bytes(std::span(mine)), places, what);
    for (std::string& text : all) text.resize(text.find_last_not_of('\0') + 1);
    return all;
  };
  std::string failure;
  auto memory =
      share_memory({rank(), gather}, /*maker=*/0,
                   rounded_up(std::max<std::size_t>(bytes, 1), kPageBytes) * static_cast<std::size_t>(size()), failure);
  return memory ? std::make_shared<const SharedParts>(std::move(*memory), size()) : nullptr;
}

void SharedMemoryCollectives::all_reduce_parts(const SharedParts& parts, const Values& values, const char* what) {
  waits_.check_usable();
  const std::size_t length = values.bytes.size();
  const std::size_t end = begin_of_share(rank() + 1, length);
  for (int peer = 0; peer < size(); ++peer) sources_[static_cast<std::size_t>(peer)] = parts.of(peer);
  block_.resize(kBlockBytes);
  publish_and_wait(what, length, /*is_first=*/true);
  for (std::size_t at = begin_of_share(rank(), length); at < end; at += kBlockBytes) {
    const std::size_t block_end = std::min(end, at + kBlockBytes);
    combine(block_.data(), values, at, block_end);
    for (int peer = 0; peer < size(); ++peer) std::memcpy(parts.of(peer) + at, block_.data(), block_end - at);
  }
  publish_and_wait(what, length, /*is_first=*/false);
}

template <class Take>
void SharedMemoryCollectives::gather(std::span<const std::byte> mine, const char* what, const Take& take) {
  waits_.check_usable();
  in_pieces(mine.size(), chunk_bytes_, [&](std::size_t offset, std::size_t length) {
    if (length > 0) std::memcpy(lane_.own_buffer(), mine.data() + offset, length);
    publish_and_wait(what, mine.size(), offset == 0);
    for (int peer = 0; length > 0 && peer < size(); ++peer) {
      take(static_cast<std::size_t>(peer), offset, std::span(lane_.chunk(peer), length));
    }
  });
}

void SharedMemoryCollectives::all_gather(std::span<const std::byte> mine, std::span<std::byte* const> all, const char* what) {
  gather(mine, what, [&](std::size_t peer, std::size_t offset, std::span<const std::byte> bytes) {
    std::memcpy(all[peer] + offset, bytes.data(), bytes.size());
  });
}

void SharedMemoryCollectives::all_gather_shares(std::span<const std::byte> mine, std::span<std::byte> values,
                                                const char* what) {
  gather(mine, what, [&](std::size_t peer, std::size_t offset, std::span<const std::byte> bytes) {
    const std::size_t begin = std::min(values.size(), peer * mine.size() + offset);
    std::copy_n(bytes.begin(), std::min(bytes.size(), values.size() - begin),
                values.begin() + static_cast<std::ptrdiff_t>(begin));
  });
}

void SharedMemoryCollectives::broadcast(std::span<std::byte> bytes, int root, const char* what) {
  waits_.check_usable();
  in_pieces(bytes.size(), chunk_bytes_, [&](std::size_t offset, std::size_t length) {
    if (length > 0 && rank() == root) std::memcpy(lane_.own_buffer(), bytes.data() + offset, length);
    publish_and_wait(what, bytes.size(), offset == 0);
    if (length > 0 && rank() != root) std::memcpy(bytes.data() + offset, lane_.chunk(root), length);
  });
}

void SharedMemoryCollectives::reduce_scatter(std::span<const std::byte> values, const Values& result, const char* what) {
  waits_.check_usable();
  const std::size_t room = chunk_bytes_ / static_cast<std::size_t>(size()) / kLineBytes * kLineBytes;
  in_pieces(result.bytes.size(), room, [&](std::size_t offset, std::size_t length) {
    for (std::size_t peer = 0; peer < static_cast<std::size_t>(size()); ++peer) {
      const std::size_t begin = std::min(values.size(), peer * result.bytes.size() + offset);
      const auto part = values.subspan(begin, std::min(length, values.size() - begin));
      std::byte* const place = lane_.own_buffer() + peer * room;
      std::fill(std::copy(part.begin(), part.end(), place), place + length, std::byte{});
    }
    publish_and_wait(what, result.bytes.size(), offset == 0);
    const std::size_t begin = static_cast<std::size_t>(rank()) * room;
    take_chunks();
    combine(result.bytes.data() + offset, result, begin, begin + length);
  });
}

}  // namespace levin
