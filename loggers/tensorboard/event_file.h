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
/// A record in a TFRecord frame: length and bytes, each followed by its masked CRC-32C.
std::string framed(std::string_view record);

/// A file of events for TensorBoard, `events.out.tfevents.SECONDS.HOST.PID.N`, in a folder of one run. Events wait in memory
/// for flush_secs at most, whether more are added or not, so that a kill loses no more. A thread writes them in time; it waits
/// for a time and not for jobs, so it is not a Worker.
///
/// Threading: any.
class EventFile {
 public:
  /// Creates the file, with the event of its version. Throws IoError.
  EventFile(const std::filesystem::path& folder, std::chrono::duration<double> flush_secs);
  /// Does not write events that wait: it could not report a full disk.
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Adds an event with the current time. Throws IoError if an earlier one could not be written.
  void add(Event event);
  /// Adds an event before the next one; without a next one it is not written.
  void add_before_next(const Event& event);
  /// Writes all events. Throws IoError; events that were not written stay in memory.
  void flush();
  /// Whether events other than the version were added.
  bool has_events() const;

  /// The files of events in a folder.
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
