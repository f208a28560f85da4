#pragma once

#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

namespace levin::test {

/// The parent of tests' folders: in memory if there is room, since tests write thousands of files and wait for each. TMPDIR
/// overrides it, and the whole matrix runs on disk.
inline std::filesystem::path folder_of_temporary_folders() {
  const std::filesystem::path memory = "/dev/shm";
  std::error_code none_there;
  const bool has_room = std::filesystem::space(memory, none_there).available > (std::uintmax_t{2} << 30U) && !none_there;
  const bool on_disk = std::getenv("TMPDIR") != nullptr || std::getenv("LEVIN_MATRIX") != nullptr;
  return has_room && !on_disk ? memory : std::filesystem::temp_directory_path();
}

/// An empty folder for one test, removed with its contents at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (folder_of_temporary_folders() / "levin_test_XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make a folder like " + pattern);
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace levin::test
