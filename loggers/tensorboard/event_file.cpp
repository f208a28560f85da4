#include "levin/loggers/tensorboard/event_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/loggers/wall_clock.h"
#include "tensorboard/messages.pb.h"

namespace levin::tensorboard {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "events.out.tfevents.";
/// More bytes are written immediately: texts and images may be large.
constexpr std::size_t kMostWaiting = std::size_t{4} << 20U;

constexpr std::array<std::uint32_t, 256> kCrcTable = [] {
  constexpr std::uint32_t kPolynomial = 0x82f63b78;  // Castagnoli's, its bits reversed
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? kPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}();

/// TFRecord's form, since a CRC over bytes that contain their CRC is a constant.
std::uint32_t masked_crc(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8U; }

template <class Number>
void append_little_endian(std::string& text, Number number) {
  for (std::size_t byte = 0; byte < sizeof(Number); ++byte) text += static_cast<char>(number >> (8 * byte) & 0xffU);
}

/// Creates a file of events with a unique name.
std::pair<fs::path, OutputFile> make_event_file(const fs::path& folder) {
  // TensorBoard reads the files of a folder in the order of their names.
  const std::string start = format("{}{:010d}.{}.{}", kPrefix, static_cast<std::int64_t>(seconds_now()), host_name(), getpid());
  for (int number = 0;; ++number) {
    fs::path path = folder / format("{}.{}", start, number);
    if (!fs::exists(fs::symlink_status(path))) return {path, OutputFile::make(path)};
  }
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const char byte : bytes) crc = (crc >> 8U) ^ kCrcTable[(crc ^ static_cast<unsigned char>(byte)) & 0xffU];
  return ~crc;
}

std::string framed(std::string_view record) {
  std::string text;
  append_little_endian(text, std::uint64_t{record.size()});
  append_little_endian(text, masked_crc(text));
  text += record;
  append_little_endian(text, masked_crc(record));
  return text;
}

EventFile::EventFile(const fs::path& folder, std::chrono::duration<double> flush_secs) : flush_secs_(flush_secs) {
  auto [path, file] = make_event_file(folder);
  path_ = std::move(path);
  file_ = std::move(file);
  Event version;
  version.set_file_version("brain.Event:2");
  add(std::move(version));
  flush();
  has_events_ = false;
  thread_ = quiet_thread([this] { flush_in_time(); });
}

EventFile::~EventFile() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void EventFile::add(Event event) {
  event.set_wall_time(seconds_now());
  const std::string record = framed(event.SerializeAsString());
  {
    const std::lock_guard lock(mutex_);
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    if (waiting_.empty()) oldest_ = std::chrono::steady_clock::now();
    waiting_ += std::exchange(before_next_, {}) + record;
    has_events_ = true;
    if (waiting_.size() >= kMostWaiting) write_waiting();
  }
  changed_.notify_all();
}

void EventFile::add_before_next(const Event& event) {
  const std::lock_guard lock(mutex_);
  before_next_ = framed(event.SerializeAsString());
}

void EventFile::flush() {
  const std::lock_guard lock(mutex_);
  error_ = nullptr;
  write_waiting();
}

bool EventFile::has_events() const {
  const std::lock_guard lock(mutex_);
  return has_events_;
}

void EventFile::write_waiting() {
  if (waiting_.empty()) return;
  // At the same offset, so that a part that was written before the disk was full is overwritten.
  file_->write_at(size_, waiting_);
  size_ += static_cast<std::int64_t>(waiting_.size());
  waiting_.clear();
}

void EventFile::flush_in_time() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || (!waiting_.empty() && !error_); });
    if (ends_) return;
    const auto due = oldest_ + std::chrono::duration_cast<std::chrono::steady_clock::duration>(flush_secs_);
    if (changed_.wait_until(lock, due, [this] { return ends_ || waiting_.empty(); })) continue;
    try {
      write_waiting();
    } catch (...) {
      error_ = std::current_exception();  // the next add() throws it
    }
  }
}

std::vector<fs::path> EventFile::files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().filename().string().starts_with(kPrefix)) files.push_back(entry->path());
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace levin::tensorboard
