#include "levin/loggers/mlflow/earlier_journal.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "levin/core/config/value_json.h"
#include "levin/core/files/atomic_file.h"
#include "levin/loggers/mlflow/journal.h"

namespace levin::mlflow {
namespace {

namespace fs = std::filesystem;

std::string line_of(const Value& value) { return to_json(value) + "\n"; }

/// Counts an entry's row among those known; false where the run does not know it. Other entries belong to the row before
/// them.
bool counts(const Value& entry, const JournalCut& cut, RowCounts& known) {
  const auto is_known = [&](const char* name, std::int64_t rows, std::int64_t& count) {
    const Value* const row = entry.find(name);
    if (row == nullptr) return true;
    if (rows >= 0 ? row->as_int() >= rows : entry.at("step").as_int() >= cut.end_step) return false;
    count = std::max(count, row->as_int() + 1);
    return true;
  };
  return is_known("row", cut.rows.rows, known.rows) && is_known("rank_row", cut.rows.rank_rows, known.rank_rows);
}

/// The entry with a path that another run's folder can use.
Value moved(Value entry, const fs::path& folder) {
  if (Value* const file = entry.find("file")) *file = fs::absolute(folder / file->as_string()).string();
  return entry;
}

}  // namespace

EarlierJournal::Point EarlierJournal::point(const Value& entry, const std::string& name, const Value& value) {
  return {entry.at("step").as_int(), name, std::bit_cast<std::uint64_t>(value.as_double())};
}

void EarlierJournal::add_known(const Value& entry) {
  const Value* const metrics = entry.find("metrics");
  if (metrics == nullptr) return;
  for (const auto& [name, value] : metrics->as_map()) known_.insert(point(entry, name, value));
}

void EarlierJournal::remove_known(Value& entry) {
  if (known_.empty()) return;
  std::erase_if(entry["metrics"].as_map(), [&](const auto& metric) {
    const auto found = known_.find(point(entry, metric.first, metric.second));
    if (found == known_.end()) return false;
    known_.erase(found);
    return true;
  });
}

EarlierJournal::EarlierJournal(const fs::path& from, const fs::path& to, const JournalCut& cut) {
  Journal earlier(from);
  AtomicFile file(to);
  std::int64_t written = 0;
  const auto write = [&](const Value& value) {
    const std::string line = line_of(value);
    file.write(line);
    written += static_cast<std::int64_t>(line.size());
  };
  write(earlier.header());
  std::int64_t sent = written;
  std::int64_t sending = written;
  std::int64_t at = earlier.first();
  bool is_over = false;
  for (auto entries = earlier.entries(at); !entries.empty(); entries = earlier.entries(at)) {
    for (Journal::Entry& entry : entries) {
      at = entry.end;
      if (entry.value.is_null()) continue;
      const bool is_sent = at <= earlier.sent();
      // What was under way is sent again unchanged, and counts as sent: the server may have it.
      const bool may_be_sent = at <= earlier.sending();
      const bool is_known = counts(entry.value, cut, rows_);
      if (may_be_sent && !is_known) add_known(entry.value);
      is_over = is_over || (!may_be_sent && !is_known);
      if (is_over) continue;
      write(is_sent || from == to ? entry.value : moved(entry.value, earlier.run_folder()));
      if (is_sent) sent = written;
      if (may_be_sent) sending = written;
    }
  }
  if (cut.rows.rows >= 0) rows_.rows = cut.rows.rows;
  if (cut.rows.rank_rows >= 0) rows_.rank_rows = cut.rows.rank_rows;
  Value state = earlier.state();
  if (from != to) {
    if (Value* const later = state.find("later")) {
      for (Value& entry : later->as_list()) entry = moved(std::move(entry), earlier.run_folder());
    }
    std::erase_if(state.as_map(), [](const auto& part) { return part.first == "continued_in"; });
    earlier.state()["continued_in"] = to.parent_path().parent_path().string();
    earlier.save_state(earlier.sent());
  }
  state["sent"] = sent;
  state["sending"] = sending;
  file.commit();
  Journal::write_state(to, state);
}

}  // namespace levin::mlflow
