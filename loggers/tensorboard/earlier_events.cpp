#include "levin/loggers/tensorboard/earlier_events.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/files/file_bytes.h"
#include "levin/core/files/written_files.h"
#include "levin/loggers/tensorboard/event_file.h"
#include "tensorboard/messages.pb.h"

namespace levin::tensorboard {
namespace {

namespace fs = std::filesystem;

/// Reads the records of a file in order, up to a damaged one, such as the last of a killed run.
class RecordReader {
 public:
  explicit RecordReader(const fs::path& file) : stream_(open_plain_stream(file)) {
    if (!stream_) throw IoError(format("TensorBoardLogger: cannot read {}: {}", file, why_not_opened(errno)));
    std::error_code error;
    left_ = fs::file_size(file, error);
    if (error) throw IoError(format("TensorBoardLogger: cannot read {}: {}", file, error.message()));
  }

  bool next(std::string& record) {
    constexpr std::uint64_t kFrame = 16;  // the length, and two CRCs
    std::string length(8, '\0');
    if (left_ < kFrame || !stream_.read(length.data(), 8)) return false;
    std::uint64_t size = 0;
    std::memcpy(&size, length.data(), sizeof(size));
    if (size > left_ - kFrame) return false;
    left_ -= kFrame + size;
    std::string rest(size + 8, '\0');
    if (!stream_.read(rest.data(), static_cast<std::streamsize>(rest.size()))) return false;
    record = rest.substr(4, size);
    return framed(record) == length + rest;
  }

 private:
  std::ifstream stream_;
  std::uint64_t left_ = 0;
};

/// Accepts the events that count. Called with all events in order.
class EventFilter {
 public:
  explicit EventFilter(const EarlierEvents& counts) : counts_(counts) {}

  bool accepts(const std::string& record) {
    Event event;
    if (!event.ParseFromString(record)) return false;
    if (!event.has_summary() || event.summary().value().empty()) return true;
    const Summary::Value& first = event.summary().value(0);
    if (first.metadata().plugin_data().plugin_name() == "hparams") return true;
    if (!first.has_simple_value()) return event.step() < counts_.end_step;
    const bool counts = counts_.rows < 0 ? event.step() < counts_.end_step : rows_ < counts_.rows;
    if (counts) ++rows_;
    return counts;
  }
  std::int64_t rows() const { return rows_; }

 private:
  EarlierEvents counts_;
  std::int64_t rows_ = 0;
};

bool counts_whole(const fs::path& file, EventFilter filter) {
  RecordReader reader(file);
  for (std::string record; reader.next(record);) {
    if (!filter.accepts(record)) return false;
  }
  return true;
}

void link_or_copy(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_hard_link(from, to, error);
  if (error) fs::copy_file(from, to, fs::copy_options::overwrite_existing, error);
  if (error) throw IoError(format("TensorBoardLogger: cannot copy {} to {}: {}", from, to, error.message()));
  note_written(to);
}

}  // namespace

std::int64_t continue_events(const fs::path& earlier, const fs::path& folder, const EarlierEvents& counts) {
  EventFilter filter(counts);
  for (const fs::path& file : EventFile::files_in(earlier)) {
    const fs::path here = folder / file.filename();
    const bool is_whole = counts_whole(file, filter);
    if (is_whole && !fs::exists(here)) link_or_copy(file, here);
    RecordReader reader(file);
    std::optional<AtomicFile> cut;
    if (!is_whole) cut.emplace(here);
    for (std::string record; reader.next(record);) {
      if (filter.accepts(record) && cut) cut->write(framed(record));
    }
    if (cut) cut->commit();
  }
  return filter.rows();
}

}  // namespace levin::tensorboard
