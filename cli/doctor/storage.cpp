#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "levin/cli/doctor/findings.h"
#include "levin/core/base/amounts.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/files/descriptor.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

/// Throws IoError where the file cannot be mapped into memory, as files of weights are.
void check_mapping(const fs::path& file, std::string_view content) {
  const Descriptor opened(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  void* const memory = mmap(nullptr, content.size(), PROT_READ, MAP_PRIVATE, opened.number(), 0);
  if (memory == MAP_FAILED) throw IoError(format("mmap: {}", std::strerror(errno)));
  const bool is_same = std::memcmp(memory, content.data(), content.size()) == 0;
  munmap(memory, content.size());
  if (!is_same) throw IoError("the bytes read differ from those written");
}

}  // namespace

Findings folder_findings(const std::string& what, const fs::path& folder) {
  constexpr std::size_t kBytes = 4 << 20;
  constexpr std::uint64_t kLittle = std::uint64_t{1} << 30;
  constexpr double kSlow = 20e6;
  const std::string name = folder.string();
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error) return {{what, format("{}: {}", name, error.message()), Verdict::kWrong, "make it, or choose another one"}};
  const std::string content(kBytes, 'x');
  const fs::path file = folder / format(".levin-doctor-{}", getpid());
  const double start = steady_seconds();
  try {
    write_file(file, content);
    write_file(file, content);  // replaces the first
    check_mapping(file, content);
  } catch (const IoError& failed) {
    fs::remove(file, error);
    return {
        {what, format("{}: {}", name, failed.what()), Verdict::kWrong, "no run can use it: free space, or choose another one"}};
  }
  const double speed = 2 * kBytes / (steady_seconds() - start);
  fs::remove(file, error);
  const std::string free = bytes_text(static_cast<double>(space.available));
  return {{what, format("{}: {} free, writes {:.0f} MB/s with fsync", name, free, speed / 1e6),
           space.available < kLittle || speed < kSlow ? Verdict::kWarning : Verdict::kOk,
           "checkpoints may not fit, or take long: choose a disk of this host with more space"}};
}

Findings shared_memory_findings(std::uintmax_t capacity, std::uintmax_t available) {
  constexpr std::uint64_t kLittle = 64 << 20;
  return {{"/dev/shm",
           format("{}, {} free", bytes_text(static_cast<double>(capacity)), bytes_text(static_cast<double>(available))),
           available < kLittle ? Verdict::kWarning : Verdict::kOk,
           "levin's own shared memory is elsewhere, but NCCL and PyTorch's loaders use it: "
           "remove stale files from it; in a container, docker run --shm-size=1g"}};
}

}  // namespace levin::cli
