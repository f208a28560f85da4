#include "levin/strategies/processes/run_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "levin/core/base/format.h"
#include "levin/core/console/standard_descriptors.h"
#include "levin/core/error.h"

namespace levin {

namespace {

constexpr std::uint64_t kMagic = 0x6c6576696e303031;  // "levin001"

std::size_t segment_bytes(int ranks) { return sizeof(SegmentHeader) + sizeof(RankSlot) * static_cast<std::size_t>(ranks); }

[[noreturn]] void throw_segment_failed(const std::string& what) {
  throw IoError(format("shared memory of the run: {} failed: {}", what, std::strerror(errno)));
}

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

RunSegment::RunSegment(int descriptor, std::size_t bytes)
    : descriptor_(descriptor), bytes_(bytes), memory_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)) {
  if (memory_ == MAP_FAILED) {
    close(descriptor_);
    throw_segment_failed(format("mmap of {} bytes", bytes));
  }
}

RunSegment::~RunSegment() {
  munmap(memory_, bytes_);
  close(descriptor_);
}

std::shared_ptr<RunSegment> RunSegment::make(int descriptor, int ranks, int first_rank) {
  const std::size_t bytes = segment_bytes(ranks);
  if (ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) {
    const int error = errno;
    close(descriptor);
    errno = error;
    throw_segment_failed(format("ftruncate to {} bytes", bytes));
  }
  std::shared_ptr<RunSegment> segment(new RunSegment(descriptor, bytes));
  segment->header().ranks = ranks;
  segment->header().first_rank = first_rank;
  segment->header().layout = sizeof(RankSlot);
  segment->header().magic = kMagic;
  return segment;
}

std::shared_ptr<RunSegment> RunSegment::create(int ranks, int first_rank) {
  open_standard_descriptors();
  const int descriptor = memfd_create("levin", MFD_CLOEXEC);
  if (descriptor < 0) throw_segment_failed("memfd_create");
  return make(descriptor, ranks, first_rank);
}

std::shared_ptr<RunSegment> RunSegment::create_named(const std::string& name, int ranks) {
  open_standard_descriptors();
  const int descriptor = shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) throw_segment_failed("shm_open of " + name);
  try {
    return make(descriptor, ranks, /*first_rank=*/0);
  } catch (...) {
    remove_name(name);
    throw;
  }
}

std::shared_ptr<RunSegment> RunSegment::attach(int descriptor) {
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  struct stat status {};
  if (fstat(descriptor, &status) != 0) throw_segment_failed(format("descriptor {}", descriptor));
  const auto bytes = static_cast<std::size_t>(status.st_size);
  if (bytes < sizeof(SegmentHeader)) throw IoError("shared memory of the run: the descriptor is no segment of levin");
  std::shared_ptr<RunSegment> segment(new RunSegment(descriptor, bytes));
  const SegmentHeader& header = segment->header();
  if (header.magic != kMagic || header.layout != sizeof(RankSlot) || header.ranks < 1 || bytes != segment_bytes(header.ranks)) {
    throw IoError("shared memory of the run: made by another version of levin; all ranks must run the same program");
  }
  return segment;
}

std::shared_ptr<RunSegment> RunSegment::attach_named(const std::string& name) {
  open_standard_descriptors();
  const int descriptor = shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0600);
  if (descriptor < 0) throw_segment_failed("shm_open of " + name);
  return attach(descriptor);
}

void RunSegment::remove_name(const std::string& name) noexcept { shm_unlink(name.c_str()); }

RankSlot& RunSegment::slot(int rank) const {
  auto* first = reinterpret_cast<RankSlot*>(static_cast<std::byte*>(memory_) + sizeof(SegmentHeader));
  return first[rank - first_rank()];
}

ProcessId RunSegment::process_of(int rank) const {
  const RankSlot& rank_slot = slot(rank);
  const pid_t number = rank_slot.process.load(std::memory_order_acquire);
  return {number, rank_slot.process_start.load(std::memory_order_relaxed)};
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
