#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/patience.h"
#include "levin/core/files/descriptor.h"
#include "levin/loggers/wandb/account.h"
#include "levin/loggers/wandb/core_connection.h"
#include "levin/loggers/wandb/records.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"
#include "wandb/messages.pb.h"

using namespace levin;
using levin::test::TemporaryFolder;
using wandb::CoreConnection;
using wandb::ServerRequest;
using wandb::ServerResponse;
namespace fs = std::filesystem;

namespace {

constexpr const char* kNothing = "";
constexpr const char* kEnd = "end";

std::string framed(const ServerResponse& response) {
  const std::string text = response.SerializeAsString();
  const auto length = static_cast<std::uint32_t>(text.size());
  std::string message(5, 'W');
  std::memcpy(&message[1], &length, sizeof(length));
  return message + text;
}

/// Stands in for wandb-core: a program that says where this listens, and a thread that answers as it is told.
class FakeCore {
 public:
  /// The bytes that are answered to a request; kNothing, or kEnd for the end of the connection.
  using Answer = std::function<std::string(const ServerRequest&)>;

  explicit FakeCore(const fs::path& folder, Answer answer)
      : program_(folder / "wandb-core"),
        listening_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
        answer_(std::move(answer)) {
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(place);
    REQUIRE(bind(listening_.number(), reinterpret_cast<const sockaddr*>(&place), size) == 0);
    REQUIRE(listen(listening_.number(), 1) == 0);
    REQUIRE(getsockname(listening_.number(), reinterpret_cast<sockaddr*>(&place), &size) == 0);
    // Its second argument but one is --port-filename.
    std::ofstream(program_) << format("#!/bin/sh\nprintf 'sock={}\\nEOF' >\"$3\"\nexec sleep 1000\n", ntohs(place.sin_port));
    fs::permissions(program_, fs::perms::owner_all);
    thread_ = std::thread([this] { serve(); });
  }
  ~FakeCore() {
    shutdown(listening_.number(), SHUT_RDWR);
    thread_.join();
  }
  FakeCore(const FakeCore&) = delete;
  FakeCore& operator=(const FakeCore&) = delete;

  const fs::path& program() const { return program_; }

 private:
  static bool read_all(int from, char* bytes, std::size_t size) {
    for (std::size_t have = 0; have < size;) {
      const ssize_t got = recv(from, bytes + have, size - have, 0);
      if (got <= 0) return false;
      have += static_cast<std::size_t>(got);
    }
    return true;
  }

  void serve() {
    const Descriptor client(accept(listening_.number(), nullptr, nullptr));
    std::string frame(5, '\0');
    while (client.is_open() && read_all(client.number(), frame.data(), frame.size())) {
      std::uint32_t size = 0;
      std::memcpy(&size, &frame[1], sizeof(size));
      std::string bytes(size, '\0');
      ServerRequest request;
      if (!read_all(client.number(), bytes.data(), size) || !request.ParseFromString(bytes)) return;
      const std::string message = answer_(request);
      if (message == kEnd) return;
      // In two parts, between which levin has half of it.
      for (const auto& part : {message.substr(0, 7), message.substr(std::min<std::size_t>(message.size(), 7))}) {
        if (send(client.number(), part.data(), part.size(), MSG_NOSIGNAL) < 0) return;
      }
    }
  }

  fs::path program_;
  Descriptor listening_;
  Answer answer_;
  std::thread thread_;
};

std::string run_taken() {
  ServerResponse response;
  wandb::RunRecord& run = *response.mutable_result_communicate()->mutable_run_result()->mutable_run();
  run.set_entity("us");
  run.set_project("digits");
  return framed(response);
}

std::string uploaded(std::int64_t bytes) {
  ServerResponse response;
  wandb::Response& told = *response.mutable_result_communicate()->mutable_response();
  told.mutable_poll_exit_response()->mutable_pusher_stats()->set_uploaded_bytes(bytes);
  return framed(response);
}

std::string exit_taken() {
  ServerResponse response;
  response.mutable_result_communicate()->mutable_exit_result();
  return framed(response);
}

bool asks_how_far(const ServerRequest& request) { return request.record_publish().request().has_poll_exit(); }

/// A connection to it, for a run in this folder.
class Connected {
 public:
  Connected(const fs::path& folder, const FakeCore& core) : identity_{.id = "abc", .project = "digits"} {
    fs::create_directories(folder / "run/logs");
    connection_.emplace(core.program(), wandb::Account{"http://127.0.0.1:1", "key"},
                        CoreConnection::Run{.identity = identity_, .folder = folder / "run"},
                        wandb::run_record(identity_, 0, /*resumes=*/false, 0));
  }
  /// Why finish() has not come to its end; "" where it has.
  std::string finish(double patience) {
    connection_->finish(wandb::exit_record(0, 1), std::chrono::duration<double>(patience), "it takes long");
    return connection_->failure();
  }

 private:
  wandb::RunIdentity identity_;
  std::optional<CoreConnection> connection_;
};

constexpr double kForEver = 1e6;

}  // namespace

TEST_CASE("a run ends with wandb-core's word that all is uploaded") {
  const TemporaryFolder folder;
  const FakeCore core(folder.path(), [](const ServerRequest& request) -> std::string {
    if (request.record_publish().has_run()) return run_taken();
    return request.record_publish().has_exit() ? exit_taken() : kNothing;
  });
  CHECK(Connected(folder.path(), core).finish(kForEver).empty());
}

TEST_CASE("a run waits while the upload makes progress, longer than for one that makes none") {
  const TemporaryFolder folder;
  std::int64_t questions = 0;
  const FakeCore core(folder.path(), [&](const ServerRequest& request) -> std::string {
    if (request.record_publish().has_run()) return run_taken();
    if (!asks_how_far(request)) return kNothing;
    return ++questions > 3 ? exit_taken() : uploaded(questions);
  });
  CHECK(Connected(folder.path(), core).finish(2.5).empty());  // a question a second
  CHECK(questions == 4);
}

TEST_CASE("a wandb-core that no longer answers, or no longer uploads, is given up in time") {
  const bool answers = GENERATE(false, true);
  const TemporaryFolder folder;
  const FakeCore core(folder.path(), [&](const ServerRequest& request) -> std::string {
    if (request.record_publish().has_run()) return run_taken();
    return answers && asks_how_far(request) ? uploaded(7) : std::string(kNothing);
  });
  CHECK(Connected(folder.path(), core).finish(1) == "it has uploaded nothing more for 1 s");
}

TEST_CASE("a signal ends the wait for wandb-core, at a run's end and at its begin") {
  struct Settled {
    ~Settled() { HeededSignals::settle(); }
  } const settled;
  const bool at_end = GENERATE(true, false);
  const TemporaryFolder folder;
  const FakeCore core(folder.path(), [&](const ServerRequest& request) -> std::string {
    if (request.record_publish().has_run() && at_end) return run_taken();
    if (request.record_publish().has_run() || request.record_publish().has_exit()) HeededSignals::note();
    return kNothing;
  });
  if (at_end) {
    CHECK(Connected(folder.path(), core).finish(kForEver) == "a signal came before all was uploaded");
  } else {
    setenv("WANDB_INIT_TIMEOUT", "100000", 1);
    CHECK(test::error_of<IoError>([&] { Connected(folder.path(), core); }) ==
          "a signal came while wandb-core was asked for the run");
    unsetenv("WANDB_INIT_TIMEOUT");
  }
}

TEST_CASE("a wandb-core that goes, or talks nonsense, fails") {
  const auto [answer, why] =
      GENERATE(table<std::string, std::string>({{kEnd, "it has ended"}, {"nonsense", "its answer is malformed"}}));
  const TemporaryFolder folder;
  const FakeCore core(folder.path(), [text = answer](const ServerRequest& request) -> std::string {
    if (request.record_publish().has_run()) return run_taken();
    return request.record_publish().has_exit() ? text : std::string(kNothing);
  });
  CHECK(Connected(folder.path(), core).finish(kForEver) == why);
}
