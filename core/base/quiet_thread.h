#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace levin {

/// A thread that takes no signals: the program's handlers belong on its own threads. Throws std::system_error, as std::thread
/// does, where the system gives none.
template <class Function>
std::thread quiet_thread(Function&& function) {
  sigset_t all;
  sigfillset(&all);
  // Also where no thread can be had.
  struct Restore {
    sigset_t before;
    ~Restore() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  } restore;
  pthread_sigmask(SIG_SETMASK, &all, &restore.before);
  return std::thread(std::forward<Function>(function));
}

}  // namespace levin
