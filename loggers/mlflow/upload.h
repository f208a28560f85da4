#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>

#include "levin/core/config/value.h"
#include "levin/loggers/mlflow/journal.h"
#include "levin/loggers/mlflow/mlflow_server.h"

namespace levin::mlflow {

/// Brings what a journal has to the server, request by request. Whatever is interrupted is done again, and the run is found by
/// the key that the journal has for it. A server with a database keeps a point of the same name, step, time and value once,
/// one with files each time that it comes: of points that were under way when a request or a process failed, the server is
/// asked first which it has.
///
/// What the server refuses for good is told and left out, but for files: those stay in the state for a later try.
/// Threading: one at a time.
class Upload {
 public:
  /// Both have to live as long.
  Upload(Journal& journal, MlflowServer& server)
      : journal_(journal), server_(server), read_to_(journal.sent()), doubtful_to_(journal.sending()) {}

  /// Sends what fits into the next request; false when there is nothing. Throws IoError when it has to be tried again.
  bool send_next();
  /// Tries files again that the server has refused. Throws as send_next() does.
  void send_later();
  /// What the server has not got, in words: "12 entries and 1 file"; "" for nothing.
  std::string rest() const;

 private:
  int rank() const { return static_cast<int>(journal_.header().at("rank").as_int()); }
  const std::string& run_id();
  Value find_run();
  Value find_experiment();
  Value::List later() const;
  void take_run(const Value& run);

  void send_entry(const Value& entry);
  /// All that waits and is metrics, as far as one request takes it; gives how many entries.
  std::size_t send_metrics();
  /// Takes out what the server has.
  void remove_known(Value::List& points);
  /// All that the server has of a metric; nothing where it does not say.
  Value::List history(const std::string& name);
  void send_parts(const std::string& kind, const Value::List& parts, std::size_t most);
  void send_batch(const std::string& kind, const Value::List& parts);
  void send_status(const Value& entry);
  void send_file(const Value& entry);
  /// Lets MLflow's pages show a file as a table.
  void note_table(const std::string& path);

  Journal& journal_;
  MlflowServer& server_;
  std::deque<Journal::Entry> waiting_;
  std::int64_t read_to_;
  std::int64_t doubtful_to_;  ///< of what is before, the server may have more than is known to be sent
};

}  // namespace levin::mlflow
