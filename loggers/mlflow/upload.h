#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>

#include "levin/core/config/value.h"
#include "levin/loggers/mlflow/journal.h"
#include "levin/loggers/mlflow/mlflow_server.h"

namespace levin::mlflow {

/// Sends the entries of a journal to the server, request by request. An interrupted request is retried, and the run is found by
/// the key in the journal's header. A server with a database stores a point of equal name, step, time and value once, one with
/// files each time that it is sent: for points that were under way when a request or a process failed, the server is asked
/// first which it has.
///
/// Entries that the server refuses are reported and skipped; files are retried later. Threading: one at a time.
class Upload {
 public:
  /// Both must outlive this object.
  Upload(Journal& journal, MlflowServer& server)
      : journal_(journal), server_(server), read_to_(journal.sent()), doubtful_to_(journal.sending()) {}

  /// Sends as many entries as fit into the next request; false: there are none. Throws IoError: call it again.
  bool send_next();
  /// Retries the files that the server has refused. Throws as send_next() does.
  void send_later();
  /// What the server lacks, for messages: "12 entries and 1 file"; "": nothing.
  std::string rest() const;

 private:
  int rank() const { return static_cast<int>(journal_.header().at("rank").as_int()); }
  const std::string& run_id();
  Value find_run();
  Value find_experiment();
  Value::List later() const;
  void take_run(const Value& run);

  void send_entry(const Value& entry);
  /// Sends the entries of metrics that come first, up to one request; returns how many.
  std::size_t send_metrics();
  /// Removes points that the server has.
  void remove_known(Value::List& points);
  /// The server's points of a metric; none if it does not know it.
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
  std::int64_t doubtful_to_;  ///< the server may have points before this offset
};

}  // namespace levin::mlflow
