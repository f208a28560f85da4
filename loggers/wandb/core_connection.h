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

/// wandb-core, a program of W&B that uploads what it is told on a socket: one that this starts and ends, for one run. Nothing
/// waits for it but its start, finish() and the destructor, which have their limits, and give up where a signal asks the run to
/// stop.
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

  /// Starts the program and the run. `record` tells of the run. Throws IoError with what W&B says, or when that is not done
  /// within 90 seconds, or those of WANDB_INIT_TIMEOUT, or before a signal.
  CoreConnection(const std::filesystem::path& core, const Account& account, const Run& run, const Record& record);
  /// Ends the program when finish() has not.
  ~CoreConnection();
  CoreConnection(const CoreConnection&) = delete;
  CoreConnection& operator=(const CoreConnection&) = delete;

  /// What W&B has called the run.
  const std::string& entity() const { return entity_; }
  const std::string& project() const { return project_; }
  /// The first number that a row may have: W&B has those before it.
  std::int64_t first_row() const { return first_row_; }

  /// `question`: names an answer to it; empty: none is wanted.
  void send(const Record& record, const std::string& question = {});
  /// Sends the run's last record, and waits until all is uploaded, but no longer than this without any progress. Tells a person
  /// when that takes long.
  void finish(const Record& exit, std::chrono::duration<double> patience, const std::string& if_it_takes_long);
  /// Why nothing is sent any more; empty while all is well.
  std::string failure() const;

 private:
  void start(const std::filesystem::path& core, const std::filesystem::path& logs);
  void connect_to(const std::string& address);
  void begin(const Account& account, const Run& run, const Record& record);
  void queue(const ServerRequest& request);
  /// What the worker does.
  void send_bytes(const std::string& message);
  void fail(const std::string& why);
  /// The next response; nothing while none has come, and, with a failure(), when there will be none.
  std::optional<ServerResponse> receive(std::chrono::steady_clock::time_point deadline);
  /// Brings in what the socket has by the deadline.
  void fill(std::chrono::steady_clock::time_point deadline);

  std::string stream_;  ///< the run's id
  std::string entity_;
  std::string project_;
  std::int64_t first_row_ = 0;
  pid_t process_ = -1;
  Descriptor socket_;
  std::string received_;  ///< of the next response
  mutable std::mutex mutex_;
  std::size_t waiting_bytes_ = 0;
  std::string failure_;
  Worker worker_;
};

}  // namespace levin::wandb
