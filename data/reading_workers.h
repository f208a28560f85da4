#pragma once

#include <ATen/Parallel.h>

#include <cstdint>
#include <memory>
#include <system_error>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/data/ordered_prefetcher.h"

namespace levin {

/// Threads that read data ahead, each of which works with one thread: at::get_num_threads() is 1. Throws Error where the system
/// does not give so many.
template <class T>
std::unique_ptr<OrderedPrefetcher<T>> reading_workers(int threads, std::int64_t capacity) {
  const auto use_one_thread = [] {
    // A thread's first parallel call sets its number, once for libtorch and once for what inlines at::parallel_for: before
    // ours.
    (void)at::get_num_threads();
    at::internal::lazy_init_num_threads();
    at::set_num_threads(1);
  };
  // Besides the caller's own number of threads, at::set_num_threads sets the one that threads started later begin with. That
  // one is put back here, so that workers do not slow down what the training thread starts.
  const int own_threads = at::get_num_threads();
  std::unique_ptr<OrderedPrefetcher<T>> workers;
  try {
    workers = std::make_unique<OrderedPrefetcher<T>>(threads, capacity, use_one_thread);
  } catch (const std::system_error& error) {
    throw Error(format("the system does not give {} worker threads: {}; lower num_workers", threads, error.what()));
  }
  at::set_num_threads(own_threads);
  return workers;
}

}  // namespace levin
