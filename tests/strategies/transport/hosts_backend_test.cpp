// Ranks on several hosts, which are threads of this process: each host has its own memory, and all have Gloo.
#include "levin/strategies/transport/hosts_backend.h"

#include <torch/torch.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "levin/core/base/error.h"
#include "levin/strategies/failure/failure.h"
#include "levin/strategies/host/status_board.h"
#include "levin/strategies/transport/gloo.h"
#include "levin/strategies/transport/shared_memory_backend.h"
#include "strategies/support/rank_threads.h"
#include "strategies/support/reduced_values.h"

namespace levin {
namespace {

using Op = c10d::ReduceOp;
using test::all_reduced;
using test::Backend;
using test::expected;
using test::given;

constexpr auto kLimit = std::chrono::seconds(60);

/// What the ranks of a run share.
struct Run {
  explicit Run(const HostLayout& host_layout) : layout(host_layout), all(RunSegment::create(ranks())) {
    for (int host = 0; host < layout.hosts; ++host) {
      segments.push_back(RunSegment::create(layout.ranks_per_host, layout.first_rank_of(host)));
      memories.push_back(SharedFile::create(SharedMemoryCollectives::memory_bytes(layout.ranks_per_host)));
    }
  }
  int ranks() const { return layout.hosts * layout.ranks_per_host; }
  c10::intrusive_ptr<GlooBackend> gloo(const std::string& name, int rank, int size) const {
    const auto options = c10d::ProcessGroupGloo::Options::create(kLimit);
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
    const auto own_store = c10::make_intrusive<c10d::PrefixStore>(name, store);
    return c10::make_intrusive<GlooBackend>(c10::make_intrusive<c10d::ProcessGroupGloo>(own_store, rank, size, options));
  }
  std::shared_ptr<SharedMemoryStatusBoard> board(int rank) const {
    return std::make_shared<SharedMemoryStatusBoard>(all, rank);
  }
  Backend join(int rank) const {
    const auto host = static_cast<std::size_t>(layout.host_of(rank));
    segments[host]->join(rank);
    HostsBackend::Links links;
    links.within = std::make_unique<SharedMemoryCollectives>(SharedFile::open_at(memories[host].place()), segments[host],
                                                             board(rank), /*timeout_seconds=*/60, WaitingThread::kHelper);
    links.between = gloo("between" + std::to_string(layout.place_of(rank)), layout.host_of(rank), layout.hosts);
    links.board = board(rank);
    return c10::make_intrusive<HostsBackend>(std::move(links), *gloo("flat", rank, ranks()));
  }
  /// Runs `body` on each rank; gives what each threw, empty for nothing.
  std::vector<std::string> run_all(const std::function<void(int rank, Backend& backend)>& body) const {
    return test::on_threads(ranks(), [&](int rank) {
      Backend backend = join(rank);
      body(rank, backend);
    });
  }
  std::vector<std::string> no_errors() const { return test::no_errors(ranks()); }

  HostLayout layout;
  std::shared_ptr<RunSegment> all;
  std::vector<std::shared_ptr<RunSegment>> segments;
  std::vector<SharedFile> memories;
  c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::HashStore>();
};

constexpr HostLayout kTwoOfTwo{.hosts = 2, .ranks_per_host = 2};
constexpr HostLayout kThreeOfTwo{.hosts = 3, .ranks_per_host = 2};
constexpr HostLayout kTwoOfThree{.hosts = 2, .ranks_per_host = 3};

/// Values are rounded to a type's precision within a host, and once more between hosts.
double tolerance(at::ScalarType type) {
  switch (type) {
    case at::kBFloat16:
      return 1.0 / 64;
    case at::kHalf:
      return 1.0 / 512;
    default:
      return 1e-6;
  }
}

std::vector<char> bits_of(const at::Tensor& tensor) {
  const auto* bytes = static_cast<const char*>(tensor.const_data_ptr());
  return {bytes, bytes + tensor.nbytes()};
}

/// What a call ends with: its type, and its text.
template <class Call>
std::string kind_of_error(const Call& call) {
  try {
    call();
  } catch (const ConnectionLost& lost) {
    return std::string("ConnectionLost: ") + lost.what();
  } catch (const RecordedFailure& failure) {
    return std::string("RecordedFailure: ") + failure.what();
  } catch (const DesyncError& error) {
    return std::string("DesyncError: ") + error.what();
  } catch (const std::exception& error) {
    return std::string("other: ") + error.what();
  }
  return "no error";
}

/// Every all-reduce ends with this error; a broadcast is refused with it.
class FailingBackend final : public c10d::Backend {
 public:
  explicit FailingBackend(std::exception_ptr error) : Backend(0, 2), error_(std::move(error)) {}
  const std::string getBackendName() const override { return "failing"; }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>&, const c10d::AllreduceOptions&) override {
    auto future = FutureWork::make_future();
    future->setError(error_);
    return c10::make_intrusive<FutureWork>(future);
  }
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>&, const c10d::BroadcastOptions&) override {
    std::rethrow_exception(error_);
  }

 private:
  std::exception_ptr error_;
};

template <class Failure>
c10::intrusive_ptr<c10d::Backend> failing_with(const Failure& error) {
  return c10::make_intrusive<GlooBackend>(c10::make_intrusive<FailingBackend>(std::make_exception_ptr(error)));
}

/// What a call throws at once, when it is waited for, and through its future.
std::vector<std::string> errors_of(const c10::intrusive_ptr<c10d::Backend>& backend) {
  std::vector<at::Tensor> tensors = {torch::zeros(1)};
  return {kind_of_error([&] { backend->broadcast(tensors, {}); }),
          kind_of_error([&] { backend->allreduce(tensors, {})->wait(); }),
          kind_of_error([&] { backend->allreduce(tensors, {})->getFuture()->value(); })};
}

}  // namespace

TEST_CASE("hosts with as many ranks each, one host's after the other's, are told") {
  CHECK(host_layout({"a", "a", "b", "b"}) == HostLayout{.hosts = 2, .ranks_per_host = 2});
  CHECK(host_layout({"b", "b", "a", "a", "c", "c"}) == HostLayout{.hosts = 3, .ranks_per_host = 2});
  CHECK(host_layout({"a", "a", "a"}) == HostLayout{.hosts = 1, .ranks_per_host = 3});
  CHECK(host_layout({"a", "b"}) == HostLayout{.hosts = 2, .ranks_per_host = 1});
  const HostLayout layout{.hosts = 3, .ranks_per_host = 4};
  CHECK(layout.host_of(7) == 1);
  CHECK(layout.place_of(7) == 3);
  CHECK(layout.first_rank_of(2) == 8);
}

TEST_CASE("hosts with other numbers of ranks, or whose ranks are mixed, have no layout") {
  CHECK_FALSE(host_layout({"a", "a", "b"}));
  CHECK_FALSE(host_layout({"a", "b", "a", "b"}));
  CHECK_FALSE(host_layout({"a", "b", "b", "b"}));
  CHECK_FALSE(host_layout({"a", "a", "b", "b", "a", "a"}));
  CHECK_FALSE(host_layout({"a", "b", "b", "a"}));
  CHECK_FALSE(host_layout({}));
}

TEST_CASE("hosts reduce each type with each operation as numbers of 64 bits would, to their own precision") {
  const HostLayout layout = GENERATE(kTwoOfTwo, kThreeOfTwo, kTwoOfThree);
  const Run run(layout);
  const auto errors = run.run_all([&](int, Backend& backend) {
    test::check_reductions(backend, {0, 1, 5, 1000, 20001}, tolerance);
  });
  CHECK(errors == run.no_errors());
}

TEST_CASE("what is longer than a chunk of the memory, or divides into shares by none, is reduced whole") {
  const HostLayout layout = GENERATE(kTwoOfTwo, kThreeOfTwo, kTwoOfThree);
  const Run run(layout);
  std::mutex mutex;
  const auto errors = run.run_all([&](int rank, Backend& backend) {
    // The last four begin and end a share; the largest have several chunks.
    for (const std::int64_t size : {1024, 1025, 1026, 1027, 1536, 600'000, 1'000'003}) {
      const at::Tensor result = all_reduced(backend, given(rank, torch::kFloat, size), Op::SUM);
      const bool same = torch::allclose(result, expected(Op::SUM, run.ranks(), torch::kFloat, size), 1e-6, 1e-6);
      const std::lock_guard lock(mutex);
      CAPTURE(layout.hosts, layout.ranks_per_host, rank, size);
      CHECK(same);
    }
  });
  CHECK(errors == run.no_errors());
}

TEST_CASE("reductions between hosts are the same bits on every rank and in every run") {
  const HostLayout layout = GENERATE(kTwoOfTwo, kThreeOfTwo);
  std::vector<std::vector<char>> all;
  std::mutex mutex;
  for (int repetition = 0; repetition < 2; ++repetition) {
    const Run run(layout);
    const auto errors = run.run_all([&](int rank, Backend& backend) {
      const auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(rank) + 5);
      const at::Tensor numbers = torch::randn({50'001}, generator) * torch::exp(4 * torch::randn({50'001}, generator));
      std::vector<char> bits;
      for (const std::int64_t size : {700, 50'001}) {
        for (const Op::RedOpType op : {Op::SUM, Op::AVG}) {
          const auto part = bits_of(all_reduced(backend, numbers.narrow(0, 0, size).clone(), op));
          bits.insert(bits.end(), part.begin(), part.end());
        }
      }
      const std::lock_guard lock(mutex);
      all.push_back(std::move(bits));
    });
    CHECK(errors == run.no_errors());
  }
  REQUIRE(all.size() == static_cast<std::size_t>(2 * layout.hosts * layout.ranks_per_host));
  for (const auto& bits : all) CHECK((bits == all[0]));
}

TEST_CASE("an average of 16-bit numbers whose sum is beyond them is right, and a NaN of any rank stays one") {
  const Run run(kTwoOfTwo);
  std::mutex mutex;
  const auto errors = run.run_all([&](int rank, Backend& backend) {
    const at::Tensor average = all_reduced(backend, torch::full({4}, 60000.0, torch::kHalf), Op::AVG);
    at::Tensor mine = torch::full({3}, static_cast<double>(rank), torch::kFloat);
    if (rank == 2) mine[1] = std::numeric_limits<float>::quiet_NaN();
    const at::Tensor most = all_reduced(backend, mine, Op::MAX);
    const std::lock_guard lock(mutex);
    CHECK(average[0].item<double>() == 60000);
    CHECK(most[0].item<double>() == 3);
    CHECK(std::isnan(most[1].item<double>()));
  });
  CHECK(errors == run.no_errors());
}

TEST_CASE("calls come back at once, end in their order, and give their values through their futures") {
  const Run run(kTwoOfTwo);
  std::mutex mutex;
  const auto errors = run.run_all([&](int rank, Backend& backend) {
    constexpr int kCalls = 40;
    std::vector<at::Tensor> tensors;
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    std::vector<c10::intrusive_ptr<c10::ivalue::Future>> noted;
    std::vector<int> order;
    for (int call = 0; call < kCalls; ++call) {
      // Numbers that do not lie one after the other, too.
      const at::Tensor numbers = torch::full({call % 3 == 0 ? 3000 : 30, 2}, static_cast<double>(rank * 100 + call));
      tensors.push_back(call % 2 == 0 ? numbers : numbers.t());
      std::vector<at::Tensor> one = {tensors.back()};
      works.push_back(backend->allreduce(one));
      const auto note = [&order, call](c10::ivalue::Future&) {
        order.push_back(call);
        return c10::IValue();
      };
      noted.push_back(works.back()->getFuture()->then(note, c10::NoneType::get()));
    }
    std::vector<bool> right;
    for (int call = 0; call < kCalls; ++call) {
      const auto index = static_cast<std::size_t>(call);
      works[index]->wait();
      const double sum = 600 + 4 * call;
      const at::Tensor given_back = works[index]->getFuture()->value().toTensorVector().at(0);
      right.push_back(works[index]->isCompleted() && works[index]->isSuccess() && given_back.is_same(tensors[index]) &&
                      tensors[index].eq(sum).all().item<bool>());
    }
    for (const auto& future : noted) future->wait();
    const std::lock_guard lock(mutex);
    CHECK(right == std::vector<bool>(kCalls, true));
    REQUIRE(order.size() == kCalls);
    CHECK(std::is_sorted(order.begin(), order.end()));
  });
  CHECK(errors == run.no_errors());
}

TEST_CASE("what hosts do not share out travels among all ranks, also while reductions are under way") {
  const Run run(kTwoOfTwo);
  std::mutex mutex;
  const auto errors = run.run_all([&](int rank, Backend& backend) {
    std::vector<at::Tensor> reduced = {torch::full({40'000}, rank + 1.0)};
    const auto reduction = backend->allreduce(reduced);
    std::vector<at::Tensor> sent = {torch::full({3}, static_cast<double>(rank))};
    backend->broadcast(sent, {.rootRank = 2})->wait();
    std::vector<at::Tensor> mine = {torch::full({2}, rank + 0.5)};
    std::vector<std::vector<at::Tensor>> all(1);
    for (int peer = 0; peer < 4; ++peer) all[0].push_back(torch::zeros({2}));
    backend->allgather(all, mine)->wait();
    at::Tensor to_each = torch::arange(4, torch::kFloat) + 10.0 * rank;
    at::Tensor from_each = torch::zeros({4});
    std::vector<std::int64_t> equal;
    backend->alltoall_base(from_each, to_each, equal, equal)->wait();
    const at::Tensor index = torch::tensor({{static_cast<std::int64_t>(rank % 3)}}, torch::kLong);
    std::vector<at::Tensor> sparse = {torch::sparse_coo_tensor(index, torch::ones({1}), {3})};
    backend->allreduce(sparse)->wait();
    reduction->wait();
    std::vector<at::Tensor> masks = {torch::full({2}, 12 + rank, torch::kInt)};
    c10d::AllreduceOptions common_bits;
    common_bits.reduceOp = Op::BAND;
    backend->allreduce(masks, common_bits)->wait();
    const std::lock_guard lock(mutex);
    CHECK(reduced[0].eq(10).all().item<bool>());
    CHECK(sent[0].eq(2).all().item<bool>());
    for (int peer = 0; peer < 4; ++peer) CHECK(all[0][static_cast<std::size_t>(peer)].eq(peer + 0.5).all().item<bool>());
    CHECK(torch::equal(from_each, torch::arange(4, torch::kFloat) * 10 + rank));
    CHECK(torch::equal(sparse[0].to_dense(), torch::tensor({2.0f, 1.0f, 1.0f})));
    CHECK(masks[0].eq(12).all().item<bool>());
  });
  CHECK(errors == run.no_errors());
}

TEST_CASE(
    "ranks of a host in different calls end the reductions of all, this one and every later one, with an error of its type") {
  const Run run(kTwoOfTwo);
  std::array<std::vector<std::string>, 4> seen;
  const auto errors = run.run_all([&](int rank, Backend& backend) {
    for (int call = 0; call < 2; ++call) {
      std::vector<at::Tensor> mine = {torch::zeros({rank == 3 ? 4000 : 5000})};
      const auto work = backend->allreduce(mine);
      seen[static_cast<std::size_t>(rank)].push_back(kind_of_error([&] { work->wait(); }));
      seen[static_cast<std::size_t>(rank)].push_back(kind_of_error([&] { work->getFuture()->value(); }));
      CHECK_FALSE(work->isSuccess());
    }
  });
  CHECK(errors == run.no_errors());
  const std::string different = "ranks met in different calls:\n  rank 2: all_reduce(sum) of Float (";
  for (const std::size_t rank : {2, 3}) CHECK_THAT(seen[rank][0], Catch::StartsWith("DesyncError: " + different));
  for (const std::size_t rank : {0, 1}) {
    CHECK_THAT(seen[rank][0], Catch::StartsWith("RecordedFailure: rank ") && Catch::Contains(different));
  }
  for (const auto& of_rank : seen) CHECK(of_rank == std::vector<std::string>(4, of_rank[0]));
}

TEST_CASE("a rank of another host that is gone shows by its connection, and to the rest by the board") {
  const Run run(kTwoOfTwo);
  std::array<std::string, 4> seen;
  const auto errors = run.run_all([&](int rank, Backend& backend) {
    std::vector<at::Tensor> mine = {torch::zeros({5000})};
    all_reduced(backend, mine[0], Op::SUM);
    if (rank == 3) return backend.reset();
    const auto work = backend->allreduce(mine);
    seen[static_cast<std::size_t>(rank)] = kind_of_error([&] { work->wait(); });
    // As the strategy does, once it has found the cause.
    if (rank == 1) run.board(1)->report_failure({3, kBeforeFirstHook, "its process ended"});
  });
  CHECK(errors == run.no_errors());
  CHECK_THAT(seen[1], Catch::StartsWith("ConnectionLost: "));
  CHECK(seen[0] == "RecordedFailure: rank 3 failed before the first hook: its process ended");
  CHECK(seen[2] == seen[0]);
}

TEST_CASE("a backend that ends while reductions are under way ends them, wherever they are") {
  const bool waits_between_hosts = GENERATE(false, true);
  const Run run(kTwoOfTwo);
  std::mutex mutex;
  const auto begin = std::chrono::steady_clock::now();
  const auto errors = run.run_all([&](int rank, Backend& backend) {
    std::vector<at::Tensor> ready = {torch::zeros({5000})};
    backend->allreduce(ready)->wait();
    // Host 1 does not come, or no rank but rank 0.
    if (rank >= (waits_between_hosts ? 2 : 1)) {
      std::vector<at::Tensor> last = {torch::zeros({1})};
      return static_cast<void>(backend->broadcast(last)->wait());
    }
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    std::vector<at::Tensor> one = {torch::zeros({5000})};
    std::vector<at::Tensor> other = {torch::zeros({5})};
    works.push_back(backend->allreduce(one));
    works.push_back(backend->allreduce(other));
    std::vector<at::Tensor> last = {torch::zeros({1})};
    backend->broadcast(last)->wait();
    backend.reset();
    const std::lock_guard lock(mutex);
    for (const auto& work : works) CHECK_THAT(kind_of_error([&] { work->wait(); }), Catch::StartsWith("DesyncError: "));
  });
  CHECK(errors == run.no_errors());
  CHECK(std::chrono::steady_clock::now() - begin < kLimit / 2);
}

TEST_CASE("what Gloo throws because of a connection is typed wherever it comes out") {
  CHECK(errors_of(failing_with(std::runtime_error("[pair.cc:553] Connection closed by peer [127.0.0.1]:1"))) ==
        std::vector<std::string>(3, "ConnectionLost: [pair.cc:553] Connection closed by peer [127.0.0.1]:1"));
  CHECK(errors_of(failing_with(std::runtime_error("Timed out waiting 6000ms for recv operation to complete"))) ==
        std::vector<std::string>(3, "ConnectionLost: Timed out waiting 6000ms for recv operation to complete"));
}

TEST_CASE("what is refused, or known better by the run's store, stays as it is") {
  CHECK(errors_of(failing_with(std::invalid_argument("requires a tensor"))) ==
        std::vector<std::string>(3, "other: requires a tensor"));
  CHECK(errors_of(failing_with(DesyncError("the run's store: rank 0 has ended it"))) ==
        std::vector<std::string>(3, "DesyncError: the run's store: rank 0 has ended it"));
}

}  // namespace levin
