// Who is not of the run: at the other end of a rank's connection, and at the store's door.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <future>

#include "levin/core/base/error.h"
#include "levin/strategies/store/store_message.h"
#include "levin/strategies/store/store_server.h"
#include "strategies/support/odd_listener.h"

using namespace levin;
using namespace std::chrono_literals;
using levin_test::Oddity;
using levin_test::OddListener;

namespace {

Deadline in(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }

std::string error_of_joining(int port) {
  try {
    StoreClient client(tcp_address("127.0.0.1", port), {1, 2}, in(400ms));
  } catch (const DesyncError& error) {
    return error.what();
  }
  return "no error";
}

/// A store at a port, which knows a token, and what it says of strangers.
struct Store {
  explicit Store(std::chrono::milliseconds patience = 5000ms) : port(levin_test::free_port()) {
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

TEST_CASE("a rank gives up in time whoever listens in rank 0's place, and says what is wrong") {
  // What was left of 0.4 s when it had connected.
  const auto no_answer =
      Catch::Matches("who listens there did not answer within 0\\.[1-4] s: another program may have the port");
  const OddListener silent(Oddity::kSilent);
  CHECK_THAT(error_of_joining(silent.port()), no_answer);
  const OddListener slow(Oddity::kSlowBytes);
  CHECK_THAT(error_of_joining(slow.port()), no_answer);
  const OddListener closes(Oddity::kCloses);
  CHECK_THAT(error_of_joining(closes.port()),
             Catch::StartsWith("nobody answers there for 0.4 s (") && Catch::Contains("is rank 0 running"));
  const OddListener garbage(Oddity::kSendsGarbage);
  CHECK(error_of_joining(garbage.port()) == "who listens there is no rank of levin: it does not speak levin's language");
  const OddListener huge(Oddity::kHugeLength);
  CHECK_THAT(error_of_joining(huge.port()),
             Catch::StartsWith("who listens there is no rank of levin: it announced a message of 4294967295 bytes"));
  CHECK_THAT(error_of_joining(levin_test::free_port()),
             Catch::StartsWith("nobody answers there for 0.4 s (Connection refused)"));
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
  Store store(50ms);
  const auto [text, reason] = GENERATE(table<std::string, std::string>({
      {"GET / HTTP/1.1\r\n", "it does not speak levin's language"},
      {std::string("LEVS\xff\xff\xff\x7f", 8), "it announced a message of 2147483647 bytes, where 1024 are the most"},
      {encode({StoreCall::kSet, 0, {"failure"}, {"x"}}), "it did not begin by saying who it is"},
      {encode({StoreCall::kHello, 1, {"2", "0"}, {"", "", ""}}), "it does not know the run's token"},
      {encode({StoreCall::kHello, 1, {"2", "0"}, {"secret", "", ""}}) + encode({StoreCall::kAdd, 0, {"x", "y"}, {}}),
       "it says more than it was asked for"},
      {"LE", "it did not say who it is within 0 s"},
  }));
  const Descriptor connection = stranger(store.port);
  REQUIRE(send_until(connection.number(), text, in(10s)));
  CHECK(is_closed(connection));
  REQUIRE(store.said().size() == 1);
  CHECK_THAT(store.said()[0],
             Catch::StartsWith("levin: a connection from ") && Catch::Contains(" to the run's store was dropped: " + reason));
}

TEST_CASE("a thousand strangers do not keep a rank out, nor take memory, and give one line") {
  Store store(60s);
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
  Store store;
  const Descriptor rank = stranger(store.port);
  REQUIRE(send_until(rank.number(), encode({StoreCall::kHello, 1, {"2", "0"}, {"secret", "", ""}}), in(10s)));
  REQUIRE(!receive_until(rank.number(), in(10s)).empty());
  REQUIRE(send_until(rank.number(), std::string("LEVS\xff\xff\xff\x7f", 8), in(10s)));
  CHECK(is_closed(rank));
  REQUIRE(store.said().size() == 1);
  CHECK_THAT(store.said()[0],
             Catch::StartsWith("levin: a connection from rank 1 to the run's store was dropped: it announced"));
}
