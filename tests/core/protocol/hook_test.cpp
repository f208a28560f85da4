#include "levin/core/base/hook.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

using levin::Hook;

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
