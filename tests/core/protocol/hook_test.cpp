#include "levin/core/base/hook.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

using levin::Hook;

namespace {

// Lightning's three groups of hooks that may log; all others may not.
const std::set<std::string> kTrainBatch{"training_step",
                                        "on_train_batch_start",
                                        "on_train_batch_end",
                                        "on_before_backward",
                                        "backward",
                                        "on_after_backward",
                                        "optimizer_step",
                                        "optimizer_zero_grad",
                                        "on_before_optimizer_step",
                                        "on_before_zero_grad",
                                        "configure_gradient_clipping"};
const std::set<std::string> kEvalBatch{"validation_step", "on_validation_batch_start", "on_validation_batch_end",
                                       "test_step",       "on_test_batch_start",       "on_test_batch_end"};
const std::set<std::string> kOnceAnEpoch{"on_train_start",      "on_train_epoch_start",      "on_train_epoch_end",
                                         "on_validation_start", "on_validation_epoch_start", "on_validation_epoch_end",
                                         "on_test_start",       "on_test_epoch_start",       "on_test_epoch_end"};

}  // namespace

TEST_CASE("hooks permit log() as Lightning's table says") {
  std::size_t may_log = 0;
  for (int index = 0; index < static_cast<int>(Hook::kCount); ++index) {
    const auto hook = static_cast<Hook>(index);
    const std::string name(levin::hook_name(hook));
    const levin::HookPolicy policy = levin::hook_policy(hook);
    INFO(name);
    const bool in_train = kTrainBatch.count(name) > 0;
    const bool in_eval = kEvalBatch.count(name) > 0;
    const bool once = kOnceAnEpoch.count(name) > 0;
    CHECK(policy.may_log == (in_train || in_eval || once));
    CHECK(policy.default_on_step == in_train);
    CHECK(policy.default_on_epoch == (in_eval || once));
    CHECK(policy.epoch_only == once);
    may_log += policy.may_log;
  }
  CHECK(may_log == kTrainBatch.size() + kEvalBatch.size() + kOnceAnEpoch.size());
}

TEST_CASE("every hook has a name of its own") {
  std::set<std::string> names;
  for (int index = 0; index < static_cast<int>(Hook::kCount); ++index) {
    names.insert(std::string(levin::hook_name(static_cast<Hook>(index))));
  }
  CHECK(names.size() == static_cast<std::size_t>(Hook::kCount));
  CHECK(levin::hook_name(Hook::kOnTrainBatchEnd) == "on_train_batch_end");
  CHECK(levin::hook_name(static_cast<Hook>(200)) == "unknown");
  CHECK(levin::stage_name(levin::Stage::kSanityCheck) == "sanity_check");
}
