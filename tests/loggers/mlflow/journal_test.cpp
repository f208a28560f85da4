#include "levin/loggers/mlflow/journal.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "core/console/pseudo_terminal.h"
#include "levin/core/base/error.h"
#include "levin/loggers/mlflow/earlier_journal.h"
#include "levin/loggers/mlflow/mlflow_logger.h"
#include "levin/loggers/mlflow/mlflow_server.h"
#include "levin/loggers/mlflow/texts.h"
#include "loggers/logger_run.h"

using namespace levin;
using namespace levin::test;
using mlflow::Journal;
namespace fs = std::filesystem;

namespace {

const Value kHeader = Value::Map{{"uri", "http://127.0.0.1:5000"}, {"key", "abc"}, {"rank", 0}, {"experiment", "digits"}};

Value row(std::int64_t number, double loss, const char* count = "row") {
  return Value::Map{{count, number}, {"step", 10 * number}, {"time", 1000 + number}, {"metrics", Value::Map{{"loss", loss}}}};
}

std::vector<Value> entries_of(const Journal& journal, std::int64_t from) {
  std::vector<Value> values;
  for (const Journal::Entry& entry : journal.entries(from)) values.push_back(entry.value);
  return values;
}

void append_text(const fs::path& file, const std::string& text) { std::ofstream(file, std::ios::app) << text; }

}  // namespace

TEST_CASE("a journal gives back what was added, in another process too") {
  const TemporaryFolder root;
  const fs::path file = Journal::file_of(root.path(), 0);
  const Value odd = Value::Map{{"params", Value::Map{{"$a", "line\nbreak"}, {"b", std::numeric_limits<double>::infinity()}}}};
  {
    Journal journal(file, kHeader);
    CHECK(journal.entries(journal.sent()).empty());
    journal.append(row(0, 0.1));
    journal.append(odd);
  }
  Journal journal(file);
  CHECK(journal.header() == kHeader);
  CHECK(entries_of(journal, journal.sent()) == std::vector<Value>{row(0, 0.1), odd});
  CHECK(journal.unsent() == 2);
  CHECK(Journal::files_in(root.path()) == std::vector<fs::path>{file});
}

TEST_CASE("a line that was cut off is left out, and a damaged one read over") {
  const TemporaryFolder root;
  const fs::path file = Journal::file_of(root.path(), 1);
  Journal(file, kHeader).append(row(0, 0.5));
  append_text(file, "{\"row\": 1, \"st\n" + std::string(3, '\0') + "{\"row\": 2");
  Journal journal(file);
  CHECK(entries_of(journal, journal.first()) == std::vector<Value>{row(0, 0.5), {}});
  journal.append(row(3, 0.25));
  CHECK(entries_of(journal, journal.first()) == std::vector<Value>{row(0, 0.5), {}, row(3, 0.25)});
}

TEST_CASE("what is sent stays sent, also where the state is damaged or of a longer journal") {
  const TemporaryFolder root;
  const fs::path file = Journal::file_of(root.path(), 0);
  std::int64_t first_row = 0;
  {
    Journal journal(file, kHeader);
    journal.append(row(0, 0.5));
    journal.append(row(1, 0.25));
    first_row = journal.entries(journal.sent()).at(0).end;
    journal.save_state(first_row);
  }
  CHECK(entries_of(Journal(file), first_row) == std::vector<Value>{row(1, 0.25)});
  CHECK(Journal(file).unsent() == 1);
  const fs::path state = root.path() / "mlflow" / "journal.state.json";
  for (const auto& [text, unsent] : std::vector<std::pair<std::string, std::size_t>>{
           {"{\"sent\": 1000000}", 0}, {"{\"sent\": -5}", 2}, {"{\"sent\": \"a\"}", 2}, {"[1]", 2}, {"{", 2}}) {
    INFO(text);
    std::ofstream(state) << text;
    CHECK(Journal(file).unsent() == unsent);
  }
}

TEST_CASE("one process has a journal, and one that is none is refused") {
  const TemporaryFolder root;
  const fs::path file = Journal::file_of(root.path(), 0);
  {
    const Journal journal(file, kHeader);
    CHECK_THROWS_WITH(Journal(file), Catch::Contains("its run is still running"));
  }
  CHECK_NOTHROW(Journal(file));
  std::ofstream(file) << "text\n";
  CHECK_THROWS_AS(Journal(file), IoError);
  CHECK_THROWS_AS(MLflowLogger::sync(root.path()), IoError);
  CHECK_THROWS_WITH(MLflowLogger::sync(root.path() / "none"), Catch::Contains("has no journal"));
}

TEST_CASE("a FIFO or a device is no journal, and is not waited for") {
  const TemporaryFolder root;
  const fs::path file = Journal::file_of(root.path(), 0);
  fs::create_directories(file.parent_path());
  REQUIRE(mkfifo(file.c_str(), 0600) == 0);
  CHECK_THROWS_WITH(Journal(file), Catch::Contains("it is not a regular file"));
  fs::remove(file);
  fs::create_symlink("/dev/zero", file);
  CHECK_THROWS_WITH(Journal(file, kHeader), Catch::Contains("it is not a regular file"));
}

TEST_CASE("more than a megabyte is read piece by piece") {
  const TemporaryFolder root;
  Journal journal(Journal::file_of(root.path(), 0), kHeader);
  constexpr int kEntries = 30;
  for (int number = 0; number < kEntries; ++number)
    journal.append(Value::Map{{"text", std::string(100'000, 'x')}, {"n", number}});
  int read = 0;
  int pieces = 0;
  for (std::int64_t at = journal.first(); at < journal.size(); ++pieces) {
    for (const Journal::Entry& entry : journal.entries(at)) {
      CHECK(entry.value.at("n").as_int() == read++);
      at = entry.end;
    }
  }
  CHECK(read == kEntries);
  CHECK(pieces == 3);
}

TEST_CASE("a run that resumes continues the rows that its checkpoint knows or the server has") {
  const TemporaryFolder root;
  const fs::path from = Journal::file_of(root.path() / "version_0", 0);
  const bool moves = GENERATE(false, true);
  const fs::path to = moves ? Journal::file_of(root.path() / "version_1", 0) : from;
  // Of rows 0 to 4 the server has 0 to 2; the checkpoint knows 0 and 1, or 0 to 3.
  const auto [known_rows, kept, removes] = GENERATE(table<std::int64_t, std::int64_t, bool>({{2, 3, true}, {4, 4, false}}));
  {
    Journal journal(from, kHeader);
    for (std::int64_t number = 0; number < 5; ++number) journal.append(row(number, 0.5));
    journal.append(Value::Map{{"artifact", "a"}, {"file", "media/a"}});
    journal.state()["status"] = "FINISHED";
    journal.save_state(journal.entries(journal.first()).at(2).end);
  }
  const bool by_step = GENERATE(false, true);
  const mlflow::JournalCut cut{.rows = {by_step ? -1 : known_rows, 0}, .end_step = 10 * known_rows};
  mlflow::EarlierJournal carried(from, to, cut);
  CHECK(carried.rows().rows == known_rows);
  Journal journal(to);
  CHECK(journal.header() == kHeader);
  CHECK(journal.state().at("status") == Value("FINISHED"));
  std::vector<Value> expected;
  for (std::int64_t number = 0; number < kept; ++number) expected.push_back(row(number, 0.5));
  CHECK(entries_of(journal, journal.first()) == expected);
  CHECK(journal.unsent() == static_cast<std::size_t>(kept - 3));
  // The same point is known once, another value or step is not.
  Value same = row(2, 0.5);
  carried.remove_known(same);
  CHECK(same.at("metrics").size() == (removes ? 0U : 1U));
  for (Value other : {row(2, 0.5), row(2, 0.25), row(3, 0.5)}) {
    carried.remove_known(other);
    CHECK(other.at("metrics").size() == 1);
  }
  CHECK(Journal::read_state(from).contains("continued_in") == moves);
}

TEST_CASE("of what was under way when a process was killed, each point is sent again, and known to a run that resumes") {
  const TemporaryFolder root;
  const fs::path from = Journal::file_of(root.path() / "version_0", 0);
  const fs::path to = Journal::file_of(root.path() / "version_1", 0);
  {
    Journal journal(from, kHeader);
    for (std::int64_t number = 0; number < 5; ++number) journal.append(row(number, 0.5));
    const auto entries = journal.entries(journal.first());
    journal.save_state(entries.at(1).end);
    CHECK(journal.sending() == journal.sent());
    journal.save_sending(entries.at(3).end);
  }
  // The checkpoint knows row 0; the server has 0 and 1, and may have 2 and 3.
  mlflow::EarlierJournal carried(from, to, {.rows = {1, 0}, .end_step = 10});
  Journal journal(to);
  CHECK(entries_of(journal, journal.first()) == std::vector<Value>{row(0, 0.5), row(1, 0.5), row(2, 0.5), row(3, 0.5)});
  CHECK(entries_of(journal, journal.sent()) == std::vector<Value>{row(2, 0.5), row(3, 0.5)});
  CHECK(journal.sending() == journal.size());
  for (std::int64_t number = 0; number < 5; ++number) {
    Value again = row(number, 0.5);
    carried.remove_known(again);
    CHECK(again.at("metrics").size() == (number == 0 || number == 4 ? 1U : 0U));
  }
}

TEST_CASE("files that wait are found from another folder") {
  const TemporaryFolder root;
  const fs::path from = Journal::file_of(root.path() / "version_0", 0);
  const fs::path to = Journal::file_of(root.path() / "version_1", 0);
  Journal(from, kHeader).append(Value::Map{{"artifact", "a"}, {"file", "media/a"}});
  const mlflow::EarlierJournal carried(from, to, {.rows = {0, 0}});
  Journal journal(to);
  CHECK(entries_of(journal, journal.first()).at(0).at("file") == Value((root.path() / "version_0/media/a").string()));
}

TEST_CASE("hyper-parameters are flat, and texts fit") {
  const Value sections = Value::Map{
      {"model", Value::Map{{"lr", 0.002}, {"deep", Value::Map{{"layers", 3}, {"on", true}}}, {"name", "größe"}, {"none", {}}}},
      {"data", Value::Map{{"shape", Value::List{1, 8, 8}}, {"bad $ name", std::string(7000, 'x')}}}};
  const Value expected = Value::Map{{"model.lr", "0.002"},
                                    {"model.deep.layers", "3"},
                                    {"model.deep.on", "true"},
                                    {"model.name", "größe"},
                                    {"model.none", "null"},
                                    {"data.shape", "[1,8,8]"},
                                    {"data.bad _ name", std::string(6000, 'x')}};
  CHECK(mlflow::parameters_of(sections) == expected);
  CHECK(mlflow::name_for_server("a//../é$x:1") == "a/_/_/___x:1");
  CHECK(mlflow::cut("größe", 4) == "grö");
  CHECK(mlflow::cut("größe", 3) == "gr");
}

TEST_CASE("credentials are read as MLflow's client reads them") {
  const HttpCredentials in_uri = mlflow::credentials_for("http://a%40b:p%2Fw%zz%@127.0.0.1:5000");
  CHECK(in_uri.user == "a@b");
  CHECK(in_uri.password == "p/w%zz%");
  CHECK(in_uri.checks_certificate);
  for (const auto& [value, checks] :
       {std::pair("True", false), std::pair("TRUE", false), std::pair("1", false), std::pair("0", true)}) {
    const EnvironmentVariable insecure("MLFLOW_TRACKING_INSECURE_TLS", value);
    CHECK(mlflow::credentials_for("https://host").checks_certificate == checks);
  }
  const EnvironmentVariable user("MLFLOW_TRACKING_USERNAME", "c%40d");
  CHECK(mlflow::credentials_for("http://a:b@host").user == "c%40d");
}

TEST_CASE("a server has an address, without what it knows a user by") {
  CHECK(mlflow::tracking_uri_problem("http://127.0.0.1:5000").empty());
  for (const char* wrong : {"", "file:./mlruns", "sqlite:///mlflow.db", "mlruns", "databricks"}) {
    INFO(wrong);
    CHECK_THAT(mlflow::tracking_uri_problem(wrong), Catch::Contains("http://127.0.0.1:5000"));
  }
  CHECK(mlflow::tracking_uri("http://host/") == "http://host");
  CHECK(mlflow::without_credentials("fit --uri=https://me:secret@host/x http://a@b") == "fit --uri=https://host/x http://b");
  CHECK(mlflow::without_credentials("http://host/a@b") == "http://host/a@b");
}
