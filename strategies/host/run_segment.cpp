#include "levin/strategies/host/run_segment.h"

#include <fcntl.h>

#include <bit>
#include <cstring>
#include <ctime>

#include "levin/core/base/error.h"
#include "levin/strategies/host/host_cores.h"

namespace levin {

namespace {

constexpr std::uint64_t kMagic = 0x6c6576696e303031;  // "levin001"

std::size_t segment_bytes(int ranks) { return sizeof(SegmentHeader) + sizeof(RankSlot) * static_cast<std::size_t>(ranks); }

}  // namespace

void SharedText::write(const char* text) noexcept {
  std::array<std::uint64_t, kCallTextBytes / 8> words{};
  // The last byte stays 0.
  std::memcpy(words.data(), text, strnlen(text, kCallTextBytes - 1));
  for (std::size_t i = 0; i < words.size(); ++i) {
    words_[i].store(words[i], std::memory_order_relaxed);
    if (words[i] == 0) break;
  }
}

std::string SharedText::read() const {
  std::array<std::uint64_t, kCallTextBytes / 8> words{};
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = words_[i].load(std::memory_order_relaxed);
  const auto* text = reinterpret_cast<const char*>(words.data());
  return std::string(text, strnlen(text, kCallTextBytes));
}

std::shared_ptr<RunSegment> RunSegment::create(int ranks, int first_rank) {
  std::shared_ptr<RunSegment> segment(new RunSegment(SharedFile::create(segment_bytes(ranks))));
  segment->header().ranks = ranks;
  segment->header().first_rank = first_rank;
  segment->header().layout = sizeof(RankSlot);
  segment->header().magic = kMagic;
  return segment;
}

std::shared_ptr<RunSegment> RunSegment::checked(SharedFile file) {
  const std::size_t bytes = file.bytes();
  if (bytes < sizeof(SegmentHeader)) throw IoError("shared memory of the run: the descriptor is no segment of levin");
  std::shared_ptr<RunSegment> segment(new RunSegment(std::move(file)));
  const SegmentHeader& header = segment->header();
  if (header.magic != kMagic || header.layout != sizeof(RankSlot) || header.ranks < 1 || bytes != segment_bytes(header.ranks)) {
    throw IoError("shared memory of the run: made by another version of levin; all ranks must run the same program");
  }
  return segment;
}

std::shared_ptr<RunSegment> RunSegment::attach(int descriptor) {
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  return checked(SharedFile::attach(fcntl(descriptor, F_DUPFD_CLOEXEC, 0)));
}

std::shared_ptr<RunSegment> RunSegment::open_at(const SharedFilePlace& place) { return checked(SharedFile::open_at(place)); }

RankSlot& RunSegment::slot(int rank) const {
  auto* first = reinterpret_cast<RankSlot*>(file_.data() + sizeof(SegmentHeader));
  return first[rank - first_rank()];
}

ProcessId RunSegment::process_of(int rank) const {
  const RankSlot& rank_slot = slot(rank);
  const pid_t number = rank_slot.process.load(std::memory_order_acquire);
  return {number, rank_slot.process_start.load(std::memory_order_relaxed)};
}

void RunSegment::join(int rank) {
  const cpu_set_t own = RankCores::own().cores;
  std::array<std::uint64_t, CPU_SETSIZE / 64> words{};
  static_assert(sizeof(words) == sizeof(own));
  std::memcpy(words.data(), &own, sizeof(own));
  for (std::size_t i = 0; i < words.size(); ++i) slot(rank).cores[i].store(words[i], std::memory_order_relaxed);
  const ProcessId self = ProcessId::self();
  slot(rank).process_start.store(self.start_time, std::memory_order_relaxed);
  slot(rank).process.store(self.number, std::memory_order_release);
}

std::optional<int> RunSegment::cores() const {
  std::array<std::uint64_t, CPU_SETSIZE / 64> all{};
  for (int rank = first_rank(); rank < end_rank(); ++rank) {
    if (process_of(rank).number == 0) return std::nullopt;
    for (std::size_t i = 0; i < all.size(); ++i) all[i] |= slot(rank).cores[i].load(std::memory_order_relaxed);
  }
  int count = 0;
  for (const std::uint64_t word : all) count += std::popcount(word);
  return count;
}

ProcessId RunSegment::launcher() const {
  const pid_t number = header().launcher.load(std::memory_order_acquire);
  return {number, header().launcher_start.load(std::memory_order_relaxed)};
}

void RunSegment::set_launcher(const ProcessId& process) {
  header().launcher_start.store(process.start_time, std::memory_order_relaxed);
  header().launcher.store(process.number, std::memory_order_release);
}

std::int64_t monotonic_nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace levin
