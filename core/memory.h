#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "levin/core/export.h"
#include "levin/core/fwd.h"
#include "levin/core/protocol/hook.h"

namespace levin {

/// Memory that this process has, in bytes.
struct LEVIN_API ProcessMemory {
  std::int64_t resident = 0;  ///< in RAM now
  std::int64_t peak = 0;      ///< the most that was
  std::int64_t in_use = 0;    ///< what has been allocated and not been freed, tensors on the CPU included; 0: nobody counts it
};
LEVIN_API ProcessMemory process_memory();

/// Gives memory that is free, but kept for later, back to the system and to the device that this process computes on. Slow:
/// what comes next has to ask for it again. For programs that do something else between two runs.
LEVIN_API void clear_memory();

/// Counts, while it lives, the tensors that hooks of a run make, until they are freed: which hook's tensors stay? Each tensor
/// costs some 100 ns more. One at a time; with a second one, and while LibTorch's profiler counts the memory of a GPU, nothing
/// is counted. Made and destroyed by the thread that trains.
class LEVIN_API TensorsByHook {
 public:
  /// Tensors made from here on; of the run that `trainer` is in.
  explicit TensorsByHook(const Trainer& trainer);
  ~TensorsByHook();
  TensorsByHook(const TensorsByHook&) = delete;
  TensorsByHook& operator=(const TensorsByHook&) = delete;

  /// Bytes of those that are alive, by the hook that made them; Hook::kNone: made between hooks, or by another thread.
  std::map<Hook, std::int64_t> alive() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace levin
