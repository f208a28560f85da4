#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "levin/core/files/descriptor.h"

namespace levin {

/// A file that is open for writing at any position. Every failure is an IoError with path and reason.
class OutputFile {
 public:
  /// Makes a file and opens it. Throws IoError when the name exists, also as a link.
  static OutputFile make(std::filesystem::path path);
  OutputFile(std::filesystem::path path, Descriptor descriptor) : path_(std::move(path)), descriptor_(std::move(descriptor)) {}

  void write_at(std::int64_t offset, std::string_view text);
  /// Appends a text at the file's current end in one system call. When it fails, such as on a full disk, the file has none of
  /// it.
  void append(std::string_view text);
  void resize(std::int64_t size);
  /// True while the path leads to this file. False: it was replaced or removed.
  bool is_in_place() const;

 private:
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path path_;
  Descriptor descriptor_;
};

/// Writes a file such that at any instant its name leads to the old file or to the whole new one: the bytes go to a temporary
/// file in the same folder, which takes the name when it is complete and on disk. The temporary is a new file with an
/// unpredictable name, so that no existing file or link in the folder is written to; a link with the file's name is replaced,
/// not followed.
///
/// A device, a FIFO, and the names of a process's open files (/dev/null, /dev/stdout, /dev/fd/3) take the bytes themselves, as
/// they come, and are never replaced.
///
/// The file may be an s3:// address: commit() stores the temporary there, which lies in the cache (remote_file.h).
///
/// A process that is killed leaves its temporary. The next one that writes to the folder removes it (remove_abandoned()). A
/// file of a run's folder gets a line in the folder's list (written_files.h).
class AtomicFile {
 public:
  enum class MissingFolder { kMake, kRefuse };
  enum class Disk { kWait, kLeaveToKernel };

  /// Throws IoError, for example when `missing` is kRefuse and the folder does not exist.
  explicit AtomicFile(std::filesystem::path file, MissingFolder missing = MissingFolder::kMake);
  /// Removes the temporary file, unless commit() has succeeded.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends bytes. Throws IoError, such as on a full disk.
  void write(std::string_view bytes);
  /// Overwrites existing bytes. Throws IoError, such as for a pipe.
  void write_at(std::int64_t offset, std::string_view bytes);
  /// Makes the kernel start writing to disk, without waiting: commit(kWait) then has less to wait for.
  void send_to_disk();
  /// Replaces the old file by the new one. Throws IoError. kWait: durably, with fsync, rename, and fsync of the folder.
  /// kLeaveToKernel: at once; a kill leaves the old file or the new one, but a power failure soon after may leave neither. If
  /// the wait for it was given up (FileWatch), the old one stays.
  void commit(Disk disk = Disk::kWait);
  /// After commit(): the file, still open.
  OutputFile take();

 private:
  void open_device();
  void make_temporary();
  [[noreturn]] void fail(const std::string& doing, int error) const;

  /// Of the temporary file.
  std::filesystem::path folder() const;
  void upload();

  std::filesystem::path file_;
  std::filesystem::path temporary_;
  Descriptor descriptor_;
  std::int64_t size_ = 0;
  bool is_device_ = false;    ///< or a FIFO and the like: bytes go there at once
  bool committed_ = false;    ///< there is no temporary file, or no longer
  bool is_in_place_ = false;  ///< the new file has the name
};

/// Writes such a file. Throws IoError.
void write_file(const std::filesystem::path& file, std::string_view content,
                AtomicFile::MissingFolder missing = AtomicFile::MissingFolder::kMake);

/// Names of backups by number, from 1 on.
using BackupName = std::function<std::string(int number)>;
/// Renames a file to the first name that is free in its folder, and returns its new path. Throws IoError.
std::filesystem::path move_to_backup(const std::filesystem::path& file, const BackupName& name);
/// write_file() that first moves an existing file with other content to a backup. Throws IoError.
void write_file_with_backup(const std::filesystem::path& file, std::string_view content, const BackupName& name,
                            AtomicFile::MissingFolder missing = AtomicFile::MissingFolder::kMake);

/// Makes `link` a symbolic link to `target`, in one step: at any instant the old or the new link exists. Throws IoError.
void replace_link(const std::filesystem::path& link, const std::filesystem::path& target);

/// Removes temporary files in `folder` that processes of levin left when they were killed. It removes a file that belongs to
/// this user, has no living process with its lock, and was made on this machine; or on any machine more than a day ago, because
/// not every file system shows a lock to other machines. What cannot be removed stays. Called: before the first file of a
/// folder.
void remove_abandoned(const std::filesystem::path& folder);

/// A path in `folder` that no other process or thread chooses: ".levin-PID-RANDOM-HOST.tmp".
std::filesystem::path temporary_in(const std::filesystem::path& folder);
/// The host in a name made by temporary_in() ("" for a version without hosts). Unset for any other name.
std::optional<std::string> host_of_temporary(const std::string& name);
/// This machine's name in temporary_in().
std::string temporary_host();

}  // namespace levin
