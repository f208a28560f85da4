#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "levin/core/protocol/hook.h"

namespace levin {

/// While it lives, messages of its thread say where the run of that thread is. Scopes nest; the innermost one counts.
class PlaceOfThread {
 public:
  explicit PlaceOfThread(std::function<Whereabouts()> place)
      : place_(std::move(place)), outer_(std::exchange(innermost_, this)) {}
  ~PlaceOfThread() { innermost_ = outer_; }
  PlaceOfThread(const PlaceOfThread&) = delete;
  PlaceOfThread& operator=(const PlaceOfThread&) = delete;

  /// Nothing for a thread that runs no hooks.
  static std::optional<Whereabouts> now() { return innermost_ == nullptr ? std::nullopt : std::optional(innermost_->place_()); }

 private:
  static thread_local const PlaceOfThread* innermost_;

  std::function<Whereabouts()> place_;
  const PlaceOfThread* outer_;
};

}  // namespace levin
