#pragma once

#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace levin::test {

/// Runs `body` on ranks that are threads; gives what each threw, empty for nothing.
inline std::vector<std::string> on_threads(int ranks, const std::function<void(int rank)>& body) {
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

inline std::vector<std::string> no_errors(int ranks) { return std::vector<std::string>(static_cast<std::size_t>(ranks)); }

}  // namespace levin::test
