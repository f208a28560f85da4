#include "support/simulated_ranks.h"

#include <algorithm>
#include <limits>
#include <random>
#include <semaphore>
#include <string>
#include <thread>
#include <utility>

#include "levin/core/base/error.h"

namespace levin::testing {

// All members but the semaphores are touched by the one thread that runs; a semaphore hands them over.
struct SimulatedRanks::Impl {
  class Group final : public ControlGroup {
   public:
    Group(Impl& impl, int rank) : impl_(impl), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return impl_.ranks; }
    void all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const char* what) override {
      impl_.meet(rank_, {GroupOperation::kAllGather, what, mine.size()}, mine);
      check_sizes(mine, all, what);
      auto place = all.begin();
      for (const std::string& part : impl_.parts) place = std::ranges::copy(std::as_bytes(std::span(part)), place).out;
    }
    std::vector<std::string> gather(std::string_view mine, std::uint64_t longest, const char* what) override {
      impl_.meet(rank_, {GroupOperation::kGather, what, mine.size()}, std::as_bytes(std::span(mine)), longest);
      return rank_ == 0 ? impl_.parts : std::vector<std::string>();
    }
    std::string broadcast(std::string_view mine, int root, std::uint64_t longest, const char* what) override {
      check_root(root, what);
      if (rank_ != root) mine = {};
      impl_.meet(rank_, {GroupOperation::kBroadcast, what, mine.size(), root}, std::as_bytes(std::span(mine)), longest);
      return impl_.parts[static_cast<std::size_t>(root)];
    }

   private:
    Impl& impl_;
    int rank_;
  };

  enum class Phase { kReady, kWaiting, kEnded };

  struct Worker {
    std::binary_semaphore turn{0};
    Phase phase = Phase::kEnded;
    std::span<const std::byte> mine;
    std::string what;
    GroupCall call;  ///< its `what` is the text above
    std::uint64_t longest = 0;
    std::string failure;  ///< the error with which its exchange ends
    std::thread thread;
  };

  int ranks = 0;
  std::mt19937_64 random;
  const std::function<void(ControlGroup&)>* body = nullptr;
  SimulationResult result;
  std::vector<std::unique_ptr<Worker>> workers;
  std::binary_semaphore ended{0};
  std::vector<std::string> parts;  ///< by rank; stays until every rank reaches the next exchange
  int waiting = 0;
  bool closing = false;

  ~Impl() {
    closing = true;
    for (auto& worker : workers) {
      worker->turn.release();
      worker->thread.join();
    }
  }

  Worker& worker(int rank) { return *workers[static_cast<std::size_t>(rank)]; }

  /// `self` is the worker of `rank`. It is not looked up again here: once the last rank has ended, the next run may add
  /// workers.
  void serve(int rank, Worker& self) {
    for (;;) {
      self.turn.acquire();
      if (closing) return;
      Group group(*this, rank);
      try {
        (*body)(group);
      } catch (...) {
        result.errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
      self.phase = Phase::kEnded;
      hand_over(rank);
    }
  }

  /// Lets another rank run, or this one continue. Returns when it is this rank's turn again, or at once for one that has ended.
  void hand_over(int rank) {
    int ready = count(Phase::kReady);
    if (ready == 0 && waiting > 0) {
      abandon_waiting();
      ready = count(Phase::kReady);
    }
    const bool has_ended = worker(rank).phase == Phase::kEnded;
    if (ready == 0) {
      ended.release();
      return;
    }
    auto turn = static_cast<int>(random() % static_cast<std::uint64_t>(ready));
    int next = 0;
    while (worker(next).phase != Phase::kReady || turn-- > 0) ++next;
    if (next == rank) return;
    worker(next).turn.release();
    if (!has_ended) worker(rank).turn.acquire();
  }

  int count(Phase phase) {
    int number = 0;
    for (int rank = 0; rank < ranks; ++rank) number += worker(rank).phase == phase;
    return number;
  }

  /// No rank can continue: all that wait do so for ranks that have ended.
  void abandon_waiting() {
    std::string gone;
    for (int rank = 0; rank < ranks; ++rank) {
      if (worker(rank).phase != Phase::kEnded) continue;
      gone += " " + std::to_string(rank);
      result.hung = result.hung || !result.errors[static_cast<std::size_t>(rank)];
    }
    release_waiting("gone:" + gone);
  }

  void release_waiting(const std::string& failure) {
    for (int rank = 0; rank < ranks; ++rank) {
      if (worker(rank).phase != Phase::kWaiting) continue;
      worker(rank).failure = failure;
      worker(rank).phase = Phase::kReady;
    }
    waiting = 0;
  }

  void meet(int rank, const GroupCall& call, std::span<const std::byte> mine,
            std::uint64_t longest = std::numeric_limits<std::uint64_t>::max()) {
    Worker& self = worker(rank);
    self.mine = mine;
    self.what = call.what;
    self.call = call;
    self.call.what = self.what;
    self.longest = longest;
    self.phase = Phase::kWaiting;
    if (++waiting == ranks) complete();
    hand_over(rank);
    if (!self.failure.empty()) throw DesyncError("in " + self.what + ": " + std::exchange(self.failure, ""));
  }

  void complete() {
    std::vector<GroupCall> calls;
    parts.clear();
    for (int rank = 0; rank < ranks; ++rank) {
      calls.push_back(worker(rank).call);
      const auto mine = worker(rank).mine;
      parts.emplace_back(reinterpret_cast<const char*>(mine.data()), mine.size());
    }
    // Ranks in different boundaries have frames of one size, which detect the difference.
    const bool alike = std::all_of(calls.begin(), calls.end(), [&](const GroupCall& call) {
      return call.operation == GroupOperation::kAllGather && call.bytes == calls[0].bytes;
    });
    std::string failure = alike ? "" : describe_different_calls(calls);
    result.calls_differed = result.calls_differed || !failure.empty();
    if (failure.empty()) failure = describe_too_long(calls, worker(0).longest);
    result.exchanges += failure.empty();
    release_waiting(failure);
  }
};

SimulatedRanks::SimulatedRanks() : impl_(std::make_unique<Impl>()) {}
SimulatedRanks::~SimulatedRanks() = default;

SimulationResult SimulatedRanks::run(int ranks, std::uint64_t seed, const std::function<void(ControlGroup&)>& body) {
  Impl& impl = *impl_;
  while (impl.workers.size() < static_cast<std::size_t>(ranks)) {
    impl.workers.push_back(std::make_unique<Impl::Worker>());
  }
  for (int rank = 0; rank < ranks; ++rank) {
    Impl::Worker& worker = impl.worker(rank);
    worker.phase = Impl::Phase::kReady;
    worker.failure.clear();
    if (!worker.thread.joinable()) worker.thread = std::thread([&impl, rank, &worker] { impl.serve(rank, worker); });
  }
  impl.ranks = ranks;
  impl.random.seed(seed);
  impl.body = &body;
  impl.waiting = 0;
  impl.result = {};
  impl.result.errors.resize(static_cast<std::size_t>(ranks));
  impl.worker(static_cast<int>(impl.random() % static_cast<std::uint64_t>(ranks))).turn.release();
  impl.ended.acquire();
  return std::move(impl.result);
}

}  // namespace levin::testing
