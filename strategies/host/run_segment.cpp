#include "levin/strategies/host/run_segment.h"

#include <fcntl.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>

#include "levin/core/base/byte_reader.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/protocol/boundary_exchange.h"

namespace levin {

namespace {

constexpr std::uint64_t kMagic = 0x6c6576696e303031;  // "levin001"

std::size_t segment_bytes(int ranks) { return sizeof(SegmentHeader) + sizeof(RankSlot) * static_cast<std::size_t>(ranks); }

/// `memory`: what this rank has already, if anything. `make()` and `open(place)` give it, or throw IoError.
template <class Memory, class Make, class Open>
Memory share(const RankTexts& ranks, int maker, Memory memory, const Make& make, const Open& open, std::string& failure) {
  std::string own_failure;
  const auto attempt = [&](const auto& get) {
    try {
      if (!memory) memory = get();
    } catch (const IoError& error) {
      own_failure = error.what();
    }
  };
  if (ranks.rank == maker) attempt(make);
  const std::vector<std::string> places = ranks.gather(ranks.rank == maker && memory ? memory->place() : "");
  const std::string& place = places.at(static_cast<std::size_t>(maker));
  if (!place.empty()) attempt([&] { return open(place); });
  const std::vector<std::string> failures = ranks.gather(own_failure);
  for (std::size_t rank = 0; rank < failures.size(); ++rank) {
    if (failures[rank].empty()) continue;
    failure = format("rank {}: {}", rank, failures[rank]);
    return Memory();
  }
  return memory;
}

}  // namespace

RankCores RankCores::own() {
  std::string kernel;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> kernel;
  Fnv1aHash hash;
  hash.add(kernel.empty() ? host_name() : kernel);
  RankCores own{.host = hash.value()};
  if (sched_getaffinity(0, sizeof(own.cores), &own.cores) == 0) return own;
  // More of them than the set has room for.
  for (int core = 0; core < std::min(usable_cores(), CPU_SETSIZE); ++core) CPU_SET(core, &own.cores);
  return own;
}

HostCores cores_of_host(const std::vector<RankCores>& by_rank, int rank) {
  const RankCores& own = by_rank.at(static_cast<std::size_t>(rank));
  std::vector<int> ranks_on(CPU_SETSIZE);
  HostCores result{.ranks = 0, .cores = 0};
  for (const RankCores& other : by_rank) {
    if (other.host != own.host) continue;
    ++result.ranks;
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &other.cores) && ranks_on[static_cast<std::size_t>(core)]++ == 0) ++result.cores;
    }
  }
  double share = 0;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &own.cores)) share += 1.0 / ranks_on[static_cast<std::size_t>(core)];
  }
  constexpr double kRounding = 1e-6;
  result.share = std::max(1, static_cast<int>(share + kRounding));
  return result;
}

void CallHeader::set(const GroupCall& call) noexcept {
  bytes = call.bytes;
  operation = static_cast<std::uint32_t>(call.operation);
  root = call.root;
  what[call.what.copy(what.data(), what.size() - 1)] = '\0';
}

GroupCall CallHeader::call() const { return {static_cast<GroupOperation>(operation), text_in(what), bytes, root}; }

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

bool RestartState::write(std::string_view text) noexcept {
  if (text.size() > kLongest) return false;
  const std::uint32_t other = 1 - newest_.load(std::memory_order_relaxed);
  rooms_[other].length = text.size();
  std::copy(text.begin(), text.end(), rooms_[other].text.begin());
  newest_.store(other, std::memory_order_release);
  return true;
}

std::string RestartState::read() const {
  const Room& room = rooms_[newest_.load(std::memory_order_acquire)];
  return {room.text.data(), room.length};
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
  if (bytes < sizeof(SegmentHeader)) throw IoError("shared memory of the run: the descriptor is not a segment of levin");
  std::shared_ptr<RunSegment> segment(new RunSegment(std::move(file)));
  const SegmentHeader& header = segment->header();
  if (header.magic != kMagic || header.layout != sizeof(RankSlot) || header.ranks < 1 || bytes != segment_bytes(header.ranks)) {
    throw IoError("shared memory of the run: made by another version of levin; all ranks must run the same program");
  }
  return segment;
}

std::shared_ptr<RunSegment> RunSegment::attach(int descriptor) {
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  return checked(SharedFile::attach(Descriptor(fcntl(descriptor, F_DUPFD_CLOEXEC, 0))));
}

std::shared_ptr<RunSegment> RunSegment::open_at(const std::string& place) { return checked(SharedFile::open_at(place)); }

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
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

RankTexts::RankTexts(ControlGroup& group)
    : RankTexts(group.rank(), [&group](const std::string& mine) {
        return RankExchange(group).gather_text(mine, {"sharing memory", "every rank joins the run"});
      }) {}

std::optional<SharedFile> share_memory(const RankTexts& ranks, int maker, std::size_t bytes, std::string& failure) {
  using Memory = std::shared_ptr<SharedFile>;
  const Memory shared = share(
      ranks, maker, Memory(), [&] { return std::make_shared<SharedFile>(SharedFile::create(bytes)); },
      [](const std::string& place) { return std::make_shared<SharedFile>(SharedFile::open_at(place)); }, failure);
  return shared ? std::optional<SharedFile>(std::move(*shared)) : std::nullopt;
}

std::shared_ptr<RunSegment> share_segment(const RankTexts& ranks, int maker, int size, std::shared_ptr<RunSegment> launched,
                                          std::string& failure) {
  const auto segment = share(
      ranks, maker, std::move(launched), [&] { return RunSegment::create(size, maker); }, RunSegment::open_at, failure);
  if (segment) segment->join(ranks.rank);
  return segment;
}

}  // namespace levin
