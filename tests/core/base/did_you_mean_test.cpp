#include "levin/core/base/text.h"

#include <catch2/catch.hpp>

TEST_CASE("the edit distance counts insertions, deletions, replacements and swaps") {
  CHECK(levin::edit_distance("", "") == 0);
  CHECK(levin::edit_distance("", "abc") == 3);
  CHECK(levin::edit_distance("epoch", "epochs") == 1);
  CHECK(levin::edit_distance("monitro", "monitor") == 1);
  CHECK(levin::edit_distance("kitten", "sitting") == 3);
  CHECK(levin::edit_distance("Max-Epochs", "max_epochs") == 0);
}

TEST_CASE("a slip finds the name it was meant to be, and garbage finds none") {
  const std::vector<std::string> known = {"max_epochs", "max_steps", "min_epochs", "precision", "lr"};
  CHECK(levin::nearest_name("max_epoch", known) == "max_epochs");
  CHECK(levin::nearest_name("maxepochs", known) == "max_epochs");
  CHECK(levin::nearest_name("precison", known) == "precision");
  CHECK(levin::nearest_name("rl", known) == "lr");
  CHECK(levin::nearest_name("xy", known).empty());
  CHECK(levin::nearest_name("unrelated_thing", known).empty());
  CHECK(levin::nearest_name(std::string(100'000, 'm'), known).empty());
}

TEST_CASE("an unknown name without a near one gets the whole list") {
  CHECK(levin::did_you_mean("epoch", {"epochs", "lr"}, "keys") == "; did you mean 'epochs'?");
  CHECK(levin::did_you_mean("zzzzzz", {"epochs", "lr"}, "keys") == "; the keys are 'epochs', 'lr'");
  CHECK(levin::did_you_mean("zzzzzz", {}, "keys") == "; there are no keys");
}
