#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <string>

#include "levin/strategies/store/store_message.h"
#include "levin/strategies/store/store_socket.h"

namespace levin {

/// Who asks for a place in a run.
struct StoreMember {
  int rank = 0;
  int world_size = 1;
  std::string token{};    ///< what only the run's processes know; empty: nothing is asked for
  std::string build{};    ///< "levin 0.1.0, LibTorch 2.13.0": all ranks have the same
  std::string process{};  ///< tells apart two processes that both say they are this rank: "4711 on apollo"
  int attempt = 0;        ///< how often the run has been started again
};

/// A rank's connection to the run's store. Every call has a deadline. Threading: any thread; one call at a time, others wait.
class StoreClient {
 public:
  /// Connects, again and again until the deadline while nobody listens yet. Throws DesyncError; its text says what is wrong
  /// with who listens there, and not where that is.
  StoreClient(StoreAddress address, StoreMember member, Deadline deadline);

  /// The answer. Throws DesyncError when there is none by the deadline, the connection is lost, or the run has ended.
  StoreMessage ask(const StoreMessage& request, Deadline deadline);

  const StoreAddress& address() const { return address_; }
  const StoreMember& member() const { return member_; }

 private:
  /// The time in which one call has the connection. Throws DesyncError when it does not come to have it until the deadline.
  class Turn {
   public:
    Turn(StoreClient& client, Deadline deadline);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    StoreClient& client_;
  };

  /// The answer; nothing when there is none in time.
  std::optional<StoreMessage> exchange(const StoreMessage& request, Deadline deadline);
  /// False: what listens there has closed the connection, or nothing listens.
  bool join_once(Deadline deadline, std::string& problem);
  std::string at_store(const std::string& text) const;
  /// Throws the error, now and at every later call.
  template <class Failure>
  [[noreturn]] void give_up(const Failure& error) {
    // What comes later could be the answer to this call.
    broken_ = std::make_exception_ptr(error);
    connection_ = Descriptor();
    std::rethrow_exception(broken_);
  }

  StoreAddress address_;
  StoreMember member_;
  std::mutex mutex_;
  std::condition_variable free_;
  bool busy_ = false;  ///< a call is under way: the others wait for their turn, each until its own deadline
  Descriptor connection_;
  StoreMessageReader reader_;
  std::exception_ptr broken_;
};

}  // namespace levin
