#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/callback.h"

namespace levin {

/// Looks for what is wrong before a run trains, in on_fit_start of a fit that does not go on from a checkpoint. All ranks find
/// the same, and say or throw the same.
class LEVIN_API RunCheck : public Callback {
 public:
  /// What was found, a line each. The same on all ranks.
  const std::vector<std::string>& findings() const { return findings_; }
  /// Throws MisuseError when something was found and that is an error.
  void on_fit_start(Trainer& trainer, Module& module) final;

 protected:
  virtual bool finding_is_error() const = 0;
  /// Looks, and tells add_finding() and add_note(). Ranks: all.
  virtual void look(Trainer& trainer, Module& module) = 0;
  static constexpr std::size_t kMostFindings = 20;
  /// Something wrong, on this rank or on all: where, and what. The first kMostFindings of each rank are kept.
  void add_finding(std::string text) {
    if (findings_.size() < kMostFindings) findings_.push_back(std::move(text));
  }
  /// What rank 0 says of the check.
  void add_note(std::string text) { notes_.push_back(std::move(text)); }

 private:
  std::vector<std::string> findings_;
  std::vector<std::string> notes_;
};

}  // namespace levin
