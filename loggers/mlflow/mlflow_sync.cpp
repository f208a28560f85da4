#include "levin/loggers/mlflow/mlflow_sync.h"

#include <utility>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/loggers/mlflow/journal.h"
#include "levin/loggers/mlflow/mlflow_server.h"
#include "levin/loggers/mlflow/texts.h"
#include "levin/loggers/mlflow/upload.h"
#include "levin/loggers/wall_clock.h"

namespace levin::mlflow {
namespace {

namespace fs = std::filesystem;

/// Sends what the server lacks of one journal, and says what that was.
std::string sync_journal(const fs::path& file) {
  const Value earlier = Journal::read_state(file);
  if (const Value* const folder = earlier.find("continued_in"))
    throw IoError(format("the run of {} continues in {}, which has all of it: sync that", file, folder->as_string()));
  Journal journal(file);
  MlflowServer server(journal.header().at("uri").as_string());
  Upload upload(journal, server);
  std::string sent = upload.rest();
  const auto send_all = [&] {
    while (upload.send_next()) {
    }
  };
  try {
    send_all();
    const Value* const status = journal.state().find("status");
    // No process has the journal open: the run was killed.
    if (journal.header().at("rank") == Value(0) && status != nullptr && *status == Value("RUNNING")) {
      journal.append(Value::Map{{"status", "KILLED"}, {"time", milliseconds_now()}});
      send_all();
      sent += sent.empty() ? "that the run was killed" : ", and that the run was killed";
    }
    upload.send_later();
  } catch (const Error& error) {
    throw IoError(format("MLflow at {} does not take {} of {}: {}", server.uri(), upload.rest(), file, error.what()));
  }
  if (const std::string rest = upload.rest(); !rest.empty())
    throw IoError(format("MLflow at {} does not take {} of {}", server.uri(), rest, file));
  return sent.empty() ? "" : format("{} sent to MLflow at {}", sent, server.uri());
}

}  // namespace

std::string sync_journals(const fs::path& run_folder) {
  const std::vector<fs::path> files = Journal::files_in(run_folder);
  if (files.empty())
    throw IoError(format("{} has no journal of MLflowLogger, in which something waits for a server", run_folder));
  std::vector<std::string> done;
  for (const fs::path& file : files) {
    if (std::string sent = sync_journal(file); !sent.empty()) done.push_back(std::move(sent));
  }
  return done.empty() ? "there was nothing left to send" : join(done, ", ");
}

}  // namespace levin::mlflow
