#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "levin/core/files/atomic_file.h"

namespace levin::tensorboard {

class Event;

/// The CRC-32C (Castagnoli) of some bytes, as RFC 3720 has it.
std::uint32_t crc32c(std::string_view bytes);
/// A record as TFRecord frames it: length and bytes, each followed by its masked CRC-32C.
std::string framed(std::string_view record);

/// A file of events as TensorBoard reads it, in a folder that one run has for itself: `events.out.tfevents.SECONDS.HOST.PID.N`.
/// What is added waits in memory for flush_secs at most, whether more is added or not, so that a kill loses no more.
///
/// Threading: any.
class EventFile {
 public:
  /// Makes the file, with the event that says its version. Throws IoError.
  EventFile(const std::filesystem::path& folder, std::chrono::duration<double> flush_secs);
  /// Does not write what waits: it could not tell of a full disk.
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Adds an event, with the time of now. Throws IoError when an earlier one could not be written.
  void add(Event event);
  /// An event that is added before the next one; where none is added, nor is this.
  void add_before_next(const Event& event);
  /// Writes all that was added. Throws IoError, and what could not be written stays.
  void flush();
  /// Whether anything but the version was added.
  bool has_events() const;

  /// Where `folder` has files of events.
  static std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder);

 private:
  void write_waiting();
  void flush_in_time();

  std::filesystem::path path_;
  const std::chrono::duration<double> flush_secs_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<OutputFile> file_;
  std::int64_t size_ = 0;
  std::string before_next_;
  std::string waiting_;
  std::chrono::steady_clock::time_point oldest_;  ///< when the first of waiting_ was added
  bool has_events_ = false;
  bool ends_ = false;
  std::exception_ptr error_;  ///< of the thread's last attempt
  std::thread thread_;
};

}  // namespace levin::tensorboard
