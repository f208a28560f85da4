#include "levin/loggers/mlflow/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/config/value_json.h"
#include "levin/core/files/descriptor.h"
#include "levin/core/files/file_bytes.h"
#include "levin/core/files/written_files.h"

namespace levin::mlflow {
namespace {

namespace fs = std::filesystem;

fs::path state_file(const fs::path& journal) { return fs::path(journal).replace_extension(".state.json"); }

/// Opens or creates a file for this process alone.
Descriptor open_alone(const fs::path& file) {
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  constexpr mode_t kMode = 0666;
  Descriptor descriptor(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, kMode));
  if (!descriptor.is_open()) throw IoError(format("cannot open {}: {}", file, std::strerror(errno)));
  // A FIFO or a device has no end.
  struct stat status {};
  if (fstat(descriptor.number(), &status) != 0 || !S_ISREG(status.st_mode))
    throw IoError(format("{} is not a journal of MLflowLogger: it is not a regular file", file));
  // A file system without locks allows several.
  if (::flock(descriptor.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    throw IoError(format("{} is in use: its run is still running, or another process sends it", file));
  note_written(file);
  return descriptor;
}

/// How many bytes of a file are whole lines.
std::int64_t size_of_lines(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::int64_t size = 0;
  for (std::string line; std::getline(stream, line) && !stream.eof();) size += static_cast<std::int64_t>(line.size()) + 1;
  return size;
}

Value value_of(const std::string& line) {
  try {
    return parse_json(line);
  } catch (const IoError&) {
    return {};
  }
}

}  // namespace

fs::path Journal::file_of(const fs::path& run_folder, int rank) {
  return run_folder / "mlflow" / (rank == 0 ? "journal.jsonl" : format("journal_rank_{}.jsonl", rank));
}

std::vector<fs::path> Journal::files_in(const fs::path& run_folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(run_folder / "mlflow", error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == ".jsonl") files.push_back(entry->path());
  }
  std::ranges::sort(files);
  return files;
}

Journal::Journal(fs::path file, const Value& header) : file_(std::move(file)) {
  output_.emplace(file_, open_alone(file_));
  size_ = size_of_lines(file_);
  output_->resize(size_);
  if (size_ == 0 && !header.is_null()) append(header);
  std::ifstream stream(file_, std::ios::binary);
  std::string line;
  std::getline(stream, line);
  header_ = value_of(line);
  if (!header_.contains("uri"))
    throw IoError(format("{} is not a journal of MLflowLogger: it does not say for which server", file_));
  first_ = static_cast<std::int64_t>(line.size()) + 1;
  state_ = read_state(file_);
}

void Journal::append(const Value& entry) {
  const std::string line = to_json(entry) + "\n";
  const std::lock_guard lock(mutex_);
  output_->write_at(size_, line);
  size_ += static_cast<std::int64_t>(line.size());
}

std::vector<Journal::Entry> Journal::entries(std::int64_t from) const {
  constexpr std::int64_t kMostBytes = 1 << 20;
  const std::int64_t end = size();
  std::vector<Entry> found;
  std::ifstream stream(file_, std::ios::binary);
  stream.seekg(from);
  std::string line;
  for (std::int64_t at = from; at < std::min(end, from + kMostBytes) && std::getline(stream, line);) {
    at += static_cast<std::int64_t>(line.size()) + 1;
    found.push_back({value_of(line), at});
  }
  return found;
}

std::int64_t Journal::size() const {
  const std::lock_guard lock(mutex_);
  return size_;
}

std::int64_t Journal::sent() const {
  const Value* const sent = state_.find("sent");
  return std::clamp(sent != nullptr && sent->is_int() ? sent->as_int() : 0, first_, size());
}

std::size_t Journal::unsent() const {
  std::ifstream stream(file_, std::ios::binary);
  stream.seekg(sent());
  return static_cast<std::size_t>(std::count(std::istreambuf_iterator<char>(stream), {}, '\n'));
}

std::int64_t Journal::sending() const {
  const Value* const sending = state_.find("sending");
  return std::clamp(sending != nullptr && sending->is_int() ? sending->as_int() : 0, sent(), size());
}

void Journal::save_sending(std::int64_t end) {
  state_["sending"] = end;
  write_state(file_, state_);
}

void Journal::save_state(std::int64_t sent) {
  state_["sent"] = sent;
  write_state(file_, state_);
}

Value Journal::read_state(const fs::path& file) {
  Value state = value_of(file_bytes(state_file(file)).value_or(""));
  return state.is_map() ? state : Value(Value::Map{});
}

void Journal::write_state(const fs::path& file, const Value& state) {
  AtomicFile output(state_file(file), AtomicFile::MissingFolder::kRefuse);
  output.write(plain_json(state));
  output.commit(AtomicFile::Disk::kLeaveToKernel);
}

fs::path Journal::move_to_backup(const fs::path& file) {
  const auto name_of = [&](int number) { return format("{}.bak-{}", file.filename(), number); };
  std::error_code no_state;
  fs::remove(state_file(file), no_state);
  return levin::move_to_backup(file, name_of);
}

}  // namespace levin::mlflow
