#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

namespace levin {

/// What the threads of this process have had of the cores since each began, by thread.
struct CoreUse {
  struct Times {
    std::int64_t ran = 0;     ///< nanoseconds on a core
    std::int64_t waited = 0;  ///< nanoseconds ready to run, without a core
  };
  std::map<pid_t, Times> threads;
};

/// Now. Empty where the kernel does not say.
CoreUse read_core_use();

/// The share, 0 to 1, of the time between two looks in which threads that were ready to run had no core. Nothing when they were
/// ready for less than half a second in all, which tells nothing.
std::optional<double> waiting_share(const CoreUse& before, const CoreUse& after);

/// Warns once in a run when the cores are busy with other work: threads that compute one operation together wait for the
/// slowest of them, so that a program beside this one can make it many times slower. Looks every two seconds, on a thread of
/// its own.
class ContentionWatch {
 public:
  /// `threads`: that LibTorch computes an operation with; with one nothing is watched. `warn` takes the warning; by default it
  /// is printed as a rank's.
  explicit ContentionWatch(int threads, std::function<void(const std::string&)> warn = {});
  /// Stops watching.
  ~ContentionWatch();
  ContentionWatch(const ContentionWatch&) = delete;
  ContentionWatch& operator=(const ContentionWatch&) = delete;

 private:
  void run();

  int threads_;
  std::function<void(const std::string&)> warn_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace levin
