// The memory of a run, how ranks come to share it, and what they learn of one another's cores.
#include "levin/strategies/host/run_segment.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "levin/core/base/process.h"
#include "levin/strategies/host/shared_memory_group.h"
#include "strategies/support/rank_threads.h"

namespace levin::test {
namespace {

constexpr int kRanks = 6;
constexpr int kOnHost = 3;

int maker_of(int rank) { return rank / kOnHost * kOnHost; }

/// Runs `body` on ranks that are threads, with a control group of all.
void on_ranks(const std::shared_ptr<RunSegment>& segment, const std::function<void(int rank, ControlGroup& group)>& body) {
  const auto errors = on_threads(kRanks, [&](int rank) {
    SharedMemoryGroup group(segment, std::make_shared<SharedMemoryStatusBoard>(segment, rank), /*timeout_seconds=*/30);
    body(rank, group);
  });
  CHECK(errors == no_errors(kRanks));
}

/// While it lives, no file may be longer.
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

RankCores rank_on(std::uint64_t host, std::initializer_list<int> cores) {
  RankCores rank{.host = host};
  for (const int core : cores) CPU_SET(core, &rank.cores);
  return rank;
}

void check(const HostCores& found, int ranks, int cores, int share) {
  CHECK(found.ranks == ranks);
  CHECK(found.cores == cores);
  CHECK(found.share == share);
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace

TEST_CASE("a key is new once, whoever inserts it") {
  const auto keys = std::make_unique<SharedKeySet>();
  constexpr int kRanks = 4;
  constexpr std::uint64_t kKeys = 200;
  std::atomic<int> firsts = 0;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&] {
      for (std::uint64_t key = 0; key < kKeys; ++key) firsts += keys->insert(key * 0x9e3779b97f4a7c15) ? 1 : 0;
    });
  }
  for (std::thread& rank : ranks) rank.join();
  CHECK(firsts == static_cast<int>(kKeys));
}

TEST_CASE("when there is no more room every key is new") {
  const auto keys = std::make_unique<SharedKeySet>();
  for (std::uint64_t key = 1; key <= 256; ++key) CHECK(keys->insert(key));
  CHECK_FALSE(keys->insert(256));
  CHECK(keys->insert(257));
  CHECK(keys->insert(257));
}

TEST_CASE("the text that was kept last is read") {
  const auto segment = RunSegment::create(1);
  RestartState& state = segment->header().restart_state;
  CHECK(state.read().empty());
  for (const std::string text : {"one", "a longer one", "", "last"}) {
    CHECK(state.write(text));
    CHECK(state.read() == text);
  }
  CHECK(state.write(std::string(RestartState::kLongest, 'x')));
  CHECK_FALSE(state.write(std::string(RestartState::kLongest + 1, 'y')));
  CHECK(state.read() == std::string(RestartState::kLongest, 'x'));
}

TEST_CASE("a process that is killed while it keeps a text leaves the one before, or the new one, whole") {
  const auto segment = RunSegment::create(1);
  RestartState& state = segment->header().restart_state;
  state.write(std::string(1000, 'a'));
  for (int round = 0; round < 50; ++round) {
    const pid_t writer = fork();
    if (writer == 0) {
      for (int number = 0;; ++number)
        state.write(std::string(static_cast<std::size_t>(number % 3000), static_cast<char>('b' + number % 20)));
    }
    usleep(200);
    kill(writer, SIGKILL);
    waitpid(writer, nullptr, 0);
    const std::string text = state.read();
    CHECK(text.find_first_not_of(text.substr(0, 1)) == std::string::npos);
  }
}

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

TEST_CASE("ranks that may run on the same cores divide them") {
  const std::vector<RankCores> two = {rank_on(1, {0, 1}), rank_on(1, {0, 1})};
  check(cores_of_host(two, 0), 2, 2, 1);
  const std::vector<RankCores> three(3, rank_on(1, {0, 1, 2, 3, 4, 5, 6}));
  check(cores_of_host(three, 2), 3, 7, 2);
  const std::vector<RankCores> many(4, rank_on(1, {0, 1}));
  check(cores_of_host(many, 3), 4, 2, 1);
}

TEST_CASE("ranks that are bound to cores of their own have those") {
  const std::vector<RankCores> bound = {rank_on(1, {0}), rank_on(1, {1}), rank_on(1, {2, 3, 4, 5})};
  check(cores_of_host(bound, 0), 3, 6, 1);
  check(cores_of_host(bound, 2), 3, 6, 4);
  // Two of them in one socket, one in another.
  const std::vector<RankCores> sockets = {rank_on(1, {0, 1, 2, 3}), rank_on(1, {0, 1, 2, 3}), rank_on(1, {4, 5, 6, 7})};
  check(cores_of_host(sockets, 1), 3, 8, 2);
  check(cores_of_host(sockets, 2), 3, 8, 4);
}

TEST_CASE("ranks of other hosts have cores of the same numbers") {
  const std::vector<RankCores> hosts = {rank_on(1, {0, 1, 2}), rank_on(2, {0, 1, 2}), rank_on(2, {0, 1, 2})};
  check(cores_of_host(hosts, 0), 1, 3, 3);
  check(cores_of_host(hosts, 1), 2, 3, 1);
}

TEST_CASE("a process knows where it may run") {
  const RankCores own = RankCores::own();
  CHECK(CPU_COUNT(&own.cores) == usable_cores());
  CHECK(RankCores::own().host == own.host);
  check(cores_of_host({own}, 0), 1, usable_cores(), usable_cores());
}

TEST_CASE("memory of a run is refused when it is not what this program lays out") {
  const auto segment = RunSegment::create(2);
  // A rank that joins again after an error has the same descriptor.
  for (int joining = 0; joining < 2; ++joining) CHECK(RunSegment::attach(segment->descriptor())->ranks() == 2);
  segment->header().layout = 1;
  for (int joining = 0; joining < 2; ++joining) {
    CHECK_THROWS_WITH(RunSegment::attach(segment->descriptor()), Catch::Contains("made by another version of levin"));
  }
  const int nothing = open("/dev/null", O_RDWR);
  for (int joining = 0; joining < 2; ++joining) {
    CHECK_THROWS_WITH(RunSegment::attach(nothing), Catch::Contains("Invalid argument"));
  }
  close(nothing);
}

TEST_CASE("memory of a run has no name: others of this user open it where its maker has it") {
  const auto segment = RunSegment::create(3);
  const auto opened = RunSegment::open_at(segment->place());
  CHECK(opened->ranks() == 3);
  segment->slot(2).reductions = 7;
  CHECK(opened->slot(2).reductions == 7);
  CHECK_THROWS_WITH(RunSegment::open_at(std::to_string(getpid()) + " 1000000 7"),
                    Catch::Contains("shared memory of the run: open of /proc/"));
  CHECK_THROWS_WITH(RunSegment::open_at(segment->place() + "1"), Catch::Contains("which is another file here"));
}

TEST_CASE("memory beyond the limit of file sizes is an error, not a signal") {
  {
    const FileSizeLimit limit(4096);
    CHECK_THROWS_WITH(SharedFile::create(8192), Catch::Contains("fallocate of 8192 bytes failed: File too large"));
  }
  CHECK(SharedFile::create(8192).bytes() == 8192);
}

// What ranks pass to one another besides memory.

TEST_CASE("a message brings bytes and open descriptors to another socket") {
  const auto [sender, receiver] = connected_sockets(SOCK_SEQPACKET);
  std::array<int, 2> numbers{};
  REQUIRE(pipe(numbers.data()) == 0);
  const Descriptor output(numbers[0]);
  const Descriptor input(numbers[1]);
  REQUIRE(send_descriptors(sender.number(), bytes_of("hello"), numbers, 0) == 5);

  std::array<std::byte, 16> bytes{};
  std::vector<Descriptor> descriptors(1);
  REQUIRE(receive_descriptors(receiver.number(), bytes, descriptors, MSG_DONTWAIT) == 5);
  CHECK(std::memcmp(bytes.data(), "hello", 5) == 0);
  REQUIRE(descriptors.size() == 2);
  CHECK(fcntl(descriptors[0].number(), F_GETFD) == FD_CLOEXEC);
  CHECK(write(descriptors[1].number(), "x", 1) == 1);
  char read_back = 0;
  CHECK(read(output.number(), &read_back, 1) == 1);
  CHECK(read_back == 'x');
}

TEST_CASE("a message without descriptors gives none, and no message says so") {
  const auto [sender, receiver] = connected_sockets(SOCK_SEQPACKET);
  std::array<std::byte, 16> bytes{};
  std::vector<Descriptor> descriptors(1);
  CHECK(receive_descriptors(receiver.number(), bytes, descriptors, MSG_DONTWAIT) == -1);
  CHECK(errno == EAGAIN);
  CHECK(descriptors.empty());
  REQUIRE(send(sender.number(), "abc", 3, 0) == 3);
  CHECK(receive_descriptors(receiver.number(), bytes, descriptors, MSG_DONTWAIT) == 3);
  CHECK(descriptors.empty());
}

TEST_CASE("of a message with more descriptors than are expected none is received") {
  const auto [sender, receiver] = connected_sockets(SOCK_SEQPACKET);
  std::array<int, 2 * kMostDescriptors> many{};
  many.fill(sender.number());
  char byte = 'x';
  iovec part{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(many))> space{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = space.data();
  header.msg_controllen = space.size();
  *CMSG_FIRSTHDR(&header) = {CMSG_LEN(sizeof(many)), SOL_SOCKET, SCM_RIGHTS};
  std::memcpy(CMSG_DATA(CMSG_FIRSTHDR(&header)), many.data(), sizeof(many));
  REQUIRE(sendmsg(sender.number(), &header, 0) == 1);
  const int next = dup(0);
  close(next);
  std::array<std::byte, 16> bytes{};
  std::vector<Descriptor> descriptors(1);
  CHECK(receive_descriptors(receiver.number(), bytes, descriptors, MSG_DONTWAIT) == -1);
  CHECK(errno == EMSGSIZE);
  CHECK(descriptors.empty());
  const int still_next = dup(0);
  close(still_next);
  CHECK(still_next == next);
}

TEST_CASE("more descriptors than a message carries are refused") {
  const auto [sender, receiver] = connected_sockets(SOCK_SEQPACKET);
  const std::array<int, kMostDescriptors + 1> many{};
  CHECK(send_descriptors(sender.number(), bytes_of("x"), many, MSG_DONTWAIT) == -1);
  CHECK(errno == EINVAL);
}

}  // namespace levin::test
