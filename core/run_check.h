#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/callback.h"

namespace levin {

/// Checks a run before training, in on_fit_start of a fit that does not resume. All ranks find the same, and report or throw
/// the same.
class LEVIN_API RunCheck : public Callback {
 public:
  /// The findings, a line each. The same on all ranks.
  const std::vector<std::string>& findings() const { return findings_; }
  /// Throws MisuseError when there are findings and finding_is_error().
  void on_fit_start(Trainer& trainer, Module& module) final;

 protected:
  virtual bool finding_is_error() const = 0;
  /// Checks, and calls add_finding() and add_remark(). Ranks: all.
  virtual void check(Trainer& trainer, Module& module) = 0;
  static constexpr std::size_t kMostFindings = 20;
  /// A problem of this rank or of all: where, and what. Each rank stores its first kMostFindings.
  void add_finding(std::string text) {
    if (findings_.size() < kMostFindings) findings_.push_back(std::move(text));
  }
  /// A line about the check that rank 0 prints.
  void add_remark(std::string text) { remarks_.push_back(std::move(text)); }

 private:
  std::vector<std::string> findings_;
  std::vector<std::string> remarks_;
};

}  // namespace levin
