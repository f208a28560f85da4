// Stands before CUDA's runtime (LD_PRELOAD), counts calls that wait, copy or allocate, and hands them on. With
// LEVIN_SHOW_CUDA_WAITS each first kind of wait is printed with where it came from.
#include "cuda_calls.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>

namespace {

constexpr int kToDevice = 1;
constexpr int kToHost = 2;
constexpr int kMostShown = 300;

std::atomic<std::int64_t> waits, copies_to_host, copies_to_device, allocations;
std::atomic<bool> shows{false};
std::atomic<int> shown;

void show(const char* what) {
  if (!shows || ++shown > kMostShown) return;
  std::array<void*, 40> frames{};
  const int depth = backtrace(frames.data(), static_cast<int>(frames.size()));
  static_cast<void>(!write(STDERR_FILENO, what, __builtin_strlen(what)));
  backtrace_symbols_fd(frames.data(), depth, STDERR_FILENO);
}

/// CUDA's own function of this name.
template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

void count_copy(int kind) {
  if (kind == kToHost) {
    ++copies_to_host;
    show("copy to host\n");
  } else if (kind == kToDevice) {
    ++copies_to_device;
  }
}

}  // namespace

#define LEVIN_COUNTED(name, parameters, arguments, count)                 \
  extern "C" __attribute__((visibility("default"))) int name parameters { \
    static auto* const own = next<int parameters>(#name);                 \
    count;                                                                \
    return own arguments;                                                 \
  }

LEVIN_COUNTED(cudaStreamSynchronize, (void* stream), (stream), (++waits, show("cudaStreamSynchronize\n")))
LEVIN_COUNTED(cudaEventSynchronize, (void* event), (event), (++waits, show("cudaEventSynchronize\n")))
LEVIN_COUNTED(cudaDeviceSynchronize, (), (), (++waits, show("cudaDeviceSynchronize\n")))
LEVIN_COUNTED(cudaMemcpy, (void* to, const void* from, std::size_t bytes, int kind), (to, from, bytes, kind),
              (++waits, count_copy(kind)))
LEVIN_COUNTED(cudaMemcpyAsync, (void* to, const void* from, std::size_t bytes, int kind, void* stream),
              (to, from, bytes, kind, stream), count_copy(kind))
LEVIN_COUNTED(cudaMalloc, (void** memory, std::size_t bytes), (memory, bytes), ++allocations)
LEVIN_COUNTED(cudaHostAlloc, (void** memory, std::size_t bytes, unsigned flags), (memory, bytes, flags), ++allocations)

#undef LEVIN_COUNTED

extern "C" __attribute__((visibility("default"))) void levin_cuda_calls(CudaCalls* calls) {
  *calls = {waits, copies_to_host, copies_to_device, allocations};
}
extern "C" __attribute__((visibility("default"))) void levin_show_cuda_waits(bool now) {
  shows = now && std::getenv("LEVIN_SHOW_CUDA_WAITS") != nullptr;
}
