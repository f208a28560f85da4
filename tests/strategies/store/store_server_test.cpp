// The run's store and its clients, as ranks use them.
#include "levin/strategies/store/store_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <fstream>
#include <future>
#include <mutex>
#include <tuple>

#include "levin/core/base/error.h"
#include "levin/strategies/host/shared_file.h"
#include "levin/strategies/store/store_message.h"
#include "strategies/support/odd_listener.h"

using namespace levin;
using namespace std::chrono_literals;
using levin_test::Oddity;
using levin_test::OddListener;

namespace {

Deadline in(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }

/// A store of three ranks in this process.
struct Store {
  explicit Store(const std::string& token = "") : server({.world_size = 3, .token = token}, {}, Descriptor()) {}
  std::unique_ptr<StoreClient> join(int rank, const std::string& token = "") {
    return std::make_unique<StoreClient>(server.address(), StoreMember{rank, 3, token}, in(10s));
  }
  StoreServer server;
};

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const DesyncError& error) {
    return error.what();
  }
  return "no error";
}

std::string error_of_joining(int port) {
  return error_of([&] { StoreClient(tcp_address("127.0.0.1", port), {1, 2}, in(400ms)); });
}

/// A store at a port, with a token, and its messages about strangers.
struct StoreAtPort {
  explicit StoreAtPort(std::chrono::milliseconds patience = 5000ms) : port(levin_test::free_port()) {
    StoreServer::Settings settings{.world_size = 2, .token = "secret", .patience = patience};
    settings.print = [this](const std::string& text) {
      const std::lock_guard lock(mutex);
      lines.push_back(text);
    };
    server.emplace(settings, listen_at("127.0.0.1", port), Descriptor());
  }
  std::vector<std::string> said() {
    const std::lock_guard lock(mutex);
    return lines;
  }
  void join() { StoreClient(tcp_address("127.0.0.1", port), {1, 2, "secret"}, in(30s)).ask({StoreCall::kCount}, in(30s)); }

  int port;
  std::mutex mutex;
  std::vector<std::string> lines;
  std::optional<StoreServer> server;
};

Descriptor stranger(int port) { return tcp_address("127.0.0.1", port).connect(in(10s)); }

/// True once the store has closed the connection.
bool is_closed(const Descriptor& connection) {
  try {
    while (!receive_until(connection.number(), in(10s)).empty()) {
    }
    return false;
  } catch (const ConnectionLost&) {
    return true;
  }
}

long resident_kilobytes() {
  std::ifstream file("/proc/self/statm");
  long size = 0;
  long resident = 0;
  file >> size >> resident;
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

}  // namespace

TEST_CASE("a call that waits for its turn ends by its deadline, and breaks nothing") {
  Store store;
  const auto client = store.join(1);
  const auto other = store.join(0);
  std::promise<void> began;
  auto long_call = std::async(std::launch::async, [&] {
    began.set_value();
    return client->ask({StoreCall::kWait, 20000, {"late"}, {}}, in(20s)).call;
  });
  began.get_future().wait();
  // Whichever call came first: this one ends in time, with an answer or without.
  std::string error = "no error";
  while (error == "no error") error = error_of([&] { client->ask({StoreCall::kSet, 0, {"a"}, {"1"}}, in(50ms)); });
  CHECK(error.find("another call of this rank") != std::string::npos);
  other->ask({StoreCall::kSet, 0, {"late"}, {"here"}}, in(10s));
  CHECK(long_call.get() == StoreCall::kDone);
  CHECK(client->ask({StoreCall::kSet, 0, {"a"}, {"1"}}, in(10s)).call == StoreCall::kDone);
}

TEST_CASE("ranks set, get, add, compare, append, check and remove") {
  Store store;
  const auto zero = store.join(0);
  const auto one = store.join(1);
  zero->ask({StoreCall::kSet, 0, {"a", "b"}, {"1", std::string("\0z", 2)}}, in(10s));
  CHECK(one->ask({StoreCall::kGet, 1000, {"b", "a"}, {}}, in(10s)).values ==
        std::vector<std::string>{std::string("\0z", 2), "1"});
  CHECK(one->ask({StoreCall::kAdd, 5, {"n"}, {}}, in(10s)).number == 5);
  CHECK(zero->ask({StoreCall::kAdd, -7, {"n"}, {}}, in(10s)).number == -2);
  CHECK(one->ask({StoreCall::kCompareSet, 0, {"a"}, {"no", "y"}}, in(10s)).values.at(0) == "1");
  CHECK(one->ask({StoreCall::kCompareSet, 0, {"a"}, {"1", "y"}}, in(10s)).values.at(0) == "y");
  CHECK(one->ask({StoreCall::kCompareSet, 0, {"first"}, {"", "w"}}, in(10s)).values.at(0) == "w");
  CHECK(one->ask({StoreCall::kCheck, 0, {"a", "n"}, {}}, in(10s)).number == 1);
  CHECK(one->ask({StoreCall::kCheck, 0, {"a", "never"}, {}}, in(10s)).number == 0);
  CHECK(zero->ask({StoreCall::kCount}, in(10s)).number == 4);
  CHECK(zero->ask({StoreCall::kRemove, 0, {"a"}, {}}, in(10s)).number == 1);
  CHECK(zero->ask({StoreCall::kRemove, 0, {"a"}, {}}, in(10s)).number == 0);
}

TEST_CASE("a rank that waits gets the values when the last of them comes") {
  Store store;
  const auto zero = store.join(0);
  auto waiting = std::async(std::launch::async, [one = store.join(1)] {
    return one->ask({StoreCall::kGet, 60'000, {"a", "b"}, {}}, in(60s)).values;
  });
  zero->ask({StoreCall::kSet, 0, {"b"}, {"2"}}, in(10s));
  zero->ask({StoreCall::kSet, 0, {"a"}, {"1"}}, in(10s));
  REQUIRE(waiting.wait_for(30s) == std::future_status::ready);
  CHECK(waiting.get() == std::vector<std::string>{"1", "2"});
}

TEST_CASE("a wait that is over names what did not come, and the connection goes on") {
  Store store;
  const auto one = store.join(1);
  one->ask({StoreCall::kSet, 0, {"a"}, {"1"}}, in(10s));
  const StoreMessage answer = one->ask({StoreCall::kWait, 20, {"a", "b", "c"}, {}}, in(10s));
  CHECK(answer.call == StoreCall::kMissing);
  CHECK(answer.keys == std::vector<std::string>{"b", "c"});
  CHECK(one->ask({StoreCall::kCount}, in(10s)).number == 1);
}

TEST_CASE("the end of the store reaches who waits and who asks later, with its reason") {
  Store store;
  const auto two = store.join(2);
  auto waiting = std::async(std::launch::async, [one = store.join(1)] {
    return error_of([&] { one->ask({StoreCall::kGet, 60'000, {"never"}, {}}, in(60s)); });
  });
  store.server.end("rank 1 of host 1 did not come within 6 s");
  REQUIRE(waiting.wait_for(30s) == std::future_status::ready);
  CHECK(waiting.get() == "the run's store at this process: rank 1 of host 1 did not come within 6 s");
  CHECK_THAT(error_of([&] { two->ask({StoreCall::kCount}, in(10s)); }), Catch::Contains("did not come within 6 s"));
}

TEST_CASE("a store that is gone is a lost connection for who waits") {
  auto store = std::make_unique<Store>();
  auto waiting = std::async(std::launch::async, [one = store->join(1)] {
    return error_of([&] { one->ask({StoreCall::kGet, 60'000, {"never"}, {}}, in(60s)); });
  });
  store->join(0)->ask({StoreCall::kCount}, in(10s));
  store.reset();
  REQUIRE(waiting.wait_for(30s) == std::future_status::ready);
  CHECK_THAT(waiting.get(), Catch::Contains("the run's store at this process: the connection to rank 0 is lost: "));
}

TEST_CASE("who does not know the run's token, or is of another run, is refused with the reason") {
  Store store("secret");
  CHECK_NOTHROW(store.join(1, "secret"));
  CHECK_THAT(error_of([&] { store.join(1, "secreT"); }), Catch::Contains("LEVIN_RUN_TOKEN is not the one that rank 0 has"));
  CHECK_THAT(error_of([&] { store.join(1, ""); }), Catch::Contains("LEVIN_RUN_TOKEN"));
  CHECK_THAT(error_of([&] { store.join(3, "secret"); }), Catch::Contains("its run has 3 ranks, and this is rank 3 of 3"));
  CHECK_THAT(error_of([&] {
               StoreClient(store.server.address(), {1, 4, "secret"}, in(10s));
             }),
             Catch::Contains("its run has 3 ranks, and this is rank 1 of 4: do two runs use one MASTER_PORT"));
}

TEST_CASE("ranks of levin's launcher hand rank 0 their connections") {
  auto [server_end, client_end] = connected_sockets(SOCK_SEQPACKET);
  StoreServer server({.world_size = 2}, {}, std::move(server_end));
  StoreClient zero(server.address(), {0, 2}, in(10s));
  StoreClient one(inherited_address(client_end.number()), {1, 2}, in(10s));
  one.ask({StoreCall::kSet, 0, {"k"}, {"v"}}, in(10s));
  CHECK(zero.ask({StoreCall::kGet, 10'000, {"k"}, {}}, in(20s)).values.at(0) == "v");
}

TEST_CASE("a message without a connection does not keep the next rank from joining") {
  auto [server_end, client_end] = connected_sockets(SOCK_SEQPACKET);
  REQUIRE(send(client_end.number(), "x", 1, 0) == 1);
  REQUIRE(send(client_end.number(), "x", 1, 0) == 1);
  StoreServer server({.world_size = 2}, {}, std::move(server_end));
  StoreClient one(inherited_address(client_end.number()), {1, 2}, in(10s));
  CHECK(one.ask({StoreCall::kSet, 0, {"k"}, {"v"}}, in(10s)).call == StoreCall::kDone);
}

TEST_CASE("rank 0 listens where MASTER_ADDR says and nowhere else, and says when the port is taken") {
  const int port = levin_test::free_port();
  const auto listeners = listen_at("127.0.0.1", port);
  CHECK(listeners.size() == 1);
  CHECK_THAT(
      error_of([&] { listen_at("127.0.0.1", port); }),
      Catch::Contains("127.0.0.1:" + std::to_string(port) + ": Address already in use") && Catch::Contains("MASTER_PORT"));
  // The port of another address of this host is free.
  CHECK(listen_at("127.0.0.2", port).size() == 1);
}

TEST_CASE("a member that contradicts the run ends it for all while ranks gather, and is alone refused once all have come") {
  const std::tuple<StoreMember, std::string> stranger = GENERATE(table<StoreMember, std::string>({
      {{.rank = 1, .world_size = 3, .build = "new", .process = "process 1 on b"},
       "rank 1 at this host runs new, and rank 0 runs old: install the same on all hosts"},
      {{.rank = 0, .world_size = 3, .build = "old", .process = "process 2 on b"},
       "two processes say that they are rank 0: process 1 on a, and process 2 on b: give each host its own NODE_RANK (or "
       "RANK)"},
  }));
  const StoreMember& member = std::get<0>(stranger);
  const std::string& text = std::get<1>(stranger);
  StoreServer server({.world_size = 3, .build = "old", .print = [](const std::string&) {}}, {}, Descriptor());
  const auto join = [&](const StoreMember& who) { return std::make_unique<StoreClient>(server.address(), who, in(10s)); };
  const auto fitting = [](int rank) {
    return StoreMember{
        .rank = rank, .world_size = 3, .build = "old", .process = "process " + std::to_string(rank + 1) + " on a"};
  };
  const auto zero = join(fitting(0));
  SECTION("while they gather") {
    CHECK(error_of([&] { join(member); }) == "rank 0 refused: " + text);
    CHECK(error_of([&] { zero->ask({StoreCall::kCount}, in(10s)); }) == "the run's store at this process: " + text);
  }
  SECTION("once all have come") {
    const auto one = join(fitting(1));
    const auto two = join(fitting(2));
    CHECK(error_of([&] { join(member); }) == "rank 0 refused: " + text);
    CHECK(zero->ask({StoreCall::kCount}, in(10s)).call == StoreCall::kDone);
    // Another connection of the same process is allowed.
    CHECK(join(fitting(1))->ask({StoreCall::kCount}, in(10s)).call == StoreCall::kDone);
  }
}

TEST_CASE("a rank of another attempt comes again until the attempts are the same, or its time is over") {
  StoreServer server({.world_size = 2, .attempt = 1, .print = [](const std::string&) {}}, {}, Descriptor());
  const StoreMember late{.rank = 1, .world_size = 2, .attempt = 0};
  CHECK_THAT(error_of([&] { StoreClient(server.address(), late, in(200ms)); }),
             Catch::Contains("it is in attempt 2 of the run, and this rank in another"));
  const StoreMember member{.rank = 1, .world_size = 2, .attempt = 1};
  CHECK(StoreClient(server.address(), member, in(10s)).ask({StoreCall::kCount}, in(10s)).call == StoreCall::kDone);
}

// Programs that are not part of the run: at the other end of a rank's connection, and as clients of the store.

TEST_CASE("a rank gives up in time whoever listens in rank 0's place, and says what is wrong") {
  // The rest of 0.4 s after it had connected.
  const auto no_answer = Catch::Matches("the server there did not answer within 0\\.[1-4] s: another program may use the port");
  const OddListener silent(Oddity::kSilent);
  CHECK_THAT(error_of_joining(silent.port()), no_answer);
  const OddListener slow(Oddity::kSlowBytes);
  CHECK_THAT(error_of_joining(slow.port()), no_answer);
  const OddListener closes(Oddity::kCloses);
  CHECK_THAT(error_of_joining(closes.port()),
             Catch::StartsWith("no answer from there for 0.4 s (") && Catch::Contains("is rank 0 running"));
  const OddListener garbage(Oddity::kSendsGarbage);
  CHECK(error_of_joining(garbage.port()) == "the server there is not a rank of levin: it does not speak levin's protocol");
  const OddListener huge(Oddity::kHugeLength);
  CHECK_THAT(error_of_joining(huge.port()),
             Catch::StartsWith("the server there is not a rank of levin: it announced a message of 4294967295 bytes"));
  CHECK_THAT(error_of_joining(levin_test::free_port()),
             Catch::StartsWith("no answer from there for 0.4 s (Connection refused)"));
}

TEST_CASE("a rank that comes before rank 0 finds it when it listens") {
  const int port = levin_test::free_port();
  auto joined = std::async(std::launch::async, [port] {
    return StoreClient(tcp_address("127.0.0.1", port), {1, 2}, in(30s)).member().rank;
  });
  StoreServer server({.world_size = 2}, listen_at("127.0.0.1", port), Descriptor());
  CHECK(joined.get() == 1);
}

TEST_CASE("a stranger is dropped with a line, whatever it says") {
  StoreAtPort store(50ms);
  const auto [text, reason] = GENERATE(table<std::string, std::string>({
      {"GET / HTTP/1.1\r\n", "it does not speak levin's protocol"},
      {std::string("LEVS\xff\xff\xff\x7f", 8), "it announced a message of 2147483647 bytes, where the limit is 1024"},
      {encode({StoreCall::kSet, 0, {"failure"}, {"x"}}), "it did not begin by identifying itself"},
      {encode({StoreCall::kHello, 1, {"2", "0"}, {"", "", ""}}), "it does not know the run's token"},
      {encode({StoreCall::kHello, 1, {"2", "0"}, {"secret", "", ""}}) + encode({StoreCall::kAdd, 0, {"x", "y"}, {}}),
       "it sent more than was requested"},
      {"LE", "it did not identify itself within 0 s"},
  }));
  const Descriptor connection = stranger(store.port);
  REQUIRE(send_until(connection.number(), text, in(10s)));
  CHECK(is_closed(connection));
  REQUIRE(store.said().size() == 1);
  CHECK_THAT(store.said()[0],
             Catch::StartsWith("levin: a connection from ") && Catch::Contains(" to the run's store was dropped: " + reason));
}

TEST_CASE("a thousand strangers do not keep a rank out, nor take memory, and give one line") {
  StoreAtPort store(60s);
  store.join();
  const long before = resident_kilobytes();
  std::vector<Descriptor> strangers;
  for (int i = 0; i < 1000; ++i) {
    Descriptor& connection = strangers.emplace_back(stranger(store.port));
    // Some say nothing, some begin a message that claims to be long, some begin one that may be.
    if (i % 3 == 1) send_until(connection.number(), std::string("LEVS\xff\xff\xff\x7f", 8), in(10s));
    if (i % 3 == 2) send_until(connection.number(), std::string("LEVS\xff\x03\0\0", 8), in(10s));
    if (i % 100 == 0) store.join();
  }
  store.join();
  // All but the last of them are closed, the oldest first; a third of them are closed at once.
  for (std::size_t i = 0; i + 2 * StoreServer::kMostUnknown < strangers.size(); ++i) REQUIRE(is_closed(strangers[i]));
  CHECK(resident_kilobytes() - before < 16L * 1024);
  CHECK(store.said().size() == 1);
}

TEST_CASE("what a rank says is held against limits too") {
  StoreAtPort store;
  const Descriptor rank = stranger(store.port);
  REQUIRE(send_until(rank.number(), encode({StoreCall::kHello, 1, {"2", "0"}, {"secret", "", ""}}), in(10s)));
  REQUIRE(!receive_until(rank.number(), in(10s)).empty());
  REQUIRE(send_until(rank.number(), std::string("LEVS\xff\xff\xff\x7f", 8), in(10s)));
  CHECK(is_closed(rank));
  REQUIRE(store.said().size() == 1);
  CHECK_THAT(store.said()[0],
             Catch::StartsWith("levin: a connection from rank 1 to the run's store was dropped: it announced"));
}
