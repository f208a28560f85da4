#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace levin {

/// A thread that takes no signals: the program's handlers belong on its own threads.
template <class Function>
std::thread quiet_thread(Function&& function) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::forward<Function>(function));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace levin
