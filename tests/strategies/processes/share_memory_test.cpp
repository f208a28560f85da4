#include "levin/strategies/host/share_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <thread>
#include <vector>

#include "levin/strategies/host/shared_memory_group.h"

using namespace levin;

namespace {

constexpr int kRanks = 6;
constexpr int kOnHost = 3;

int maker_of(int rank) { return rank / kOnHost * kOnHost; }

/// Runs `body` on ranks that are threads, with a control group of all.
void on_ranks(const std::shared_ptr<RunSegment>& segment, const std::function<void(int rank, ControlGroup& group)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      SharedMemoryGroup group(segment, std::make_shared<SharedMemoryStatusBoard>(segment, rank), /*timeout_seconds=*/30);
      body(rank, group);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// As long as this lives, no file may be longer.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit small = before_;
    small.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
};

}  // namespace

TEST_CASE("ranks that name one maker have one memory, and those of another host another") {
  std::vector<std::optional<SharedFile>> memories(kRanks);
  std::vector<std::string> failures(kRanks);
  on_ranks(RunSegment::create(kRanks), [&](int rank, ControlGroup& group) {
    const auto index = static_cast<std::size_t>(rank);
    if (auto memory = share_memory(group, maker_of(rank), 8192, failures[index])) memories[index].emplace(std::move(*memory));
  });
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    REQUIRE(memories[rank]);
    CHECK(memories[rank]->bytes() == 8192);
    memories[rank]->data()[rank] = static_cast<std::byte>(rank + 1);
  }
  CHECK(failures == std::vector<std::string>(kRanks));
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    for (std::size_t other = 0; other < kRanks; ++other) {
      const bool shares = maker_of(static_cast<int>(rank)) == maker_of(static_cast<int>(other));
      CHECK(memories[rank]->data()[other] == static_cast<std::byte>(shares ? other + 1 : 0));
    }
  }
}

TEST_CASE("ranks of a host share a segment that one of them makes or their launcher has made, and are seen in it") {
  // The launcher of the second host has made one.
  const auto launched = RunSegment::create(kOnHost, kOnHost);
  std::vector<std::shared_ptr<RunSegment>> segments(kRanks);
  std::string failure;
  on_ranks(RunSegment::create(kRanks), [&](int rank, ControlGroup& group) {
    std::string own_failure;
    segments[static_cast<std::size_t>(rank)] =
        share_segment(group, maker_of(rank), kOnHost, rank >= kOnHost ? launched : nullptr, own_failure);
    if (rank == 0) failure = own_failure;
  });
  CHECK(failure.empty());
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto& segment = segments[static_cast<std::size_t>(rank)];
    REQUIRE(segment);
    CHECK(segment->first_rank() == maker_of(rank));
    CHECK(segment->ranks() == kOnHost);
    segment->slot(rank).reductions = rank + 1;
  }
  for (const auto& segment : segments) {
    for (int rank = segment->first_rank(); rank < segment->end_rank(); ++rank) {
      CHECK(segment->process_of(rank).number == getpid());
      CHECK(segment->slot(rank).reductions == rank + 1);
    }
  }
  CHECK(segments[kOnHost] == launched);
}

TEST_CASE("where one host has no memory to share, no rank has any, and all know which could not make it") {
  std::vector<std::string> failures(kRanks);
  std::atomic<int> shared{0};
  const auto first = RunSegment::create(kRanks);
  const auto second = RunSegment::create(kRanks);
  const FileSizeLimit limit(65536);
  on_ranks(first, [&](int rank, ControlGroup& group) {
    const std::size_t bytes = rank == kOnHost ? 65537 : 8192;
    shared += share_memory(group, maker_of(rank), bytes, failures[static_cast<std::size_t>(rank)]).has_value();
  });
  CHECK(shared == 0);
  CHECK(failures ==
        std::vector<std::string>(kRanks, "rank 3: shared memory of the run: fallocate of 65537 bytes failed: File too large"));
  std::vector<std::string> of_segments(kRanks);
  on_ranks(second, [&](int rank, ControlGroup& group) {
    // That of the first host is there already.
    const auto launched = rank < kOnHost ? first : nullptr;
    shared += share_segment(group, maker_of(rank), kOnHost, launched, of_segments[static_cast<std::size_t>(rank)]) != nullptr;
  });
  CHECK(shared == 0);
  CHECK_THAT(of_segments[0], Catch::StartsWith("rank 3: shared memory of the run: fallocate of "));
  CHECK(of_segments == std::vector<std::string>(kRanks, of_segments[0]));
}
