#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>

#include "levin/core/base/worker.h"
#include "levin/core/files/descriptor.h"

namespace levin::wandb {

class Record;
class ServerRequest;
class ServerResponse;
struct Account;
struct RunIdentity;

/// Starts and ends wandb-core, a program of W&B that uploads the records that it gets on a socket, for one run. Only the
/// constructor, finish() and the destructor wait for it, each with a limit, and they give up when a signal stops the run.
///
/// Threading: send() from one thread at a time.
class CoreConnection {
 public:
  struct Run {
    const RunIdentity& identity;
    std::filesystem::path folder;  ///< of the run, with `files` and `logs`
    double start_time = 0;
    bool resumes = false;
  };

  /// Starts the program and the run, which `record` describes. Throws IoError with W&B's message, or if that takes more than 90
  /// seconds (WANDB_INIT_TIMEOUT), or a signal comes.
  CoreConnection(const std::filesystem::path& core, const Account& account, const Run& run, const Record& record);
  /// Ends the program if finish() has not.
  ~CoreConnection();
  CoreConnection(const CoreConnection&) = delete;
  CoreConnection& operator=(const CoreConnection&) = delete;

  /// W&B's names for the run's owner and project.
  const std::string& entity() const { return entity_; }
  const std::string& project() const { return project_; }
  /// The first number that a row may have: W&B has the rows before it.
  std::int64_t first_row() const { return first_row_; }

  /// `question`: the name of the answer; empty: none is wanted.
  void send(const Record& record, const std::string& question = {});
  /// Sends the run's last record, and waits until all is uploaded, but no longer than this without progress. Prints the message
  /// if that takes long.
  void finish(const Record& exit, std::chrono::duration<double> patience, const std::string& if_it_takes_long);
  /// Why nothing is sent any more; empty: no failure.
  std::string failure() const;

 private:
  void start(const std::filesystem::path& core, const std::filesystem::path& logs);
  void connect_to(const std::string& address);
  void begin(const Account& account, const Run& run, const Record& record);
  void queue(const ServerRequest& request);
  /// The worker's job.
  void send_bytes(const std::string& message);
  void fail(const std::string& why);
  /// The next response; none by the deadline, or, with a failure(), ever.
  std::optional<ServerResponse> receive(std::chrono::steady_clock::time_point deadline);
  /// Reads what the socket has by the deadline.
  void fill(std::chrono::steady_clock::time_point deadline);

  std::string stream_;  ///< the run's id
  std::string entity_;
  std::string project_;
  std::int64_t first_row_ = 0;
  pid_t process_ = -1;
  Descriptor socket_;
  std::string received_;  ///< bytes of the next response
  mutable std::mutex mutex_;
  std::size_t waiting_bytes_ = 0;
  std::string failure_;
  Worker worker_;
};

}  // namespace levin::wandb
