#include "levin/strategies/store/store_message.h"

#include <catch2/catch.hpp>

using namespace levin;

namespace {

const RankPost kPost{7, {Stage::kValidate, Hook::kValidationStep, 3, 40}, true, 5, "rank 1: in validation_step"};
const FailureRecord kFailure{1, {Stage::kTrain, Hook::kTrainingStep, 3, 41}, "the sensor returned garbage"};

/// `text` with the byte at `place` replaced.
std::string with(std::string text, std::size_t place, char byte) {
  text.at(place) = byte;
  return text;
}

}  // namespace

TEST_CASE("posts and failures arrive as they were sent") {
  const auto post = post_from_text(to_text(kPost));
  REQUIRE(post);
  CHECK(post->number == 7);
  CHECK(describe(post->where) == describe(kPost.where));
  CHECK(post->waits);
  CHECK(post->reduction == 5);
  CHECK(post->line == kPost.line);
  const auto failure = failure_from_text(to_text(kFailure), 2);
  REQUIRE(failure);
  CHECK(failure->str() == kFailure.str());
  FailureRecord odd = kFailure;
  odd.error = "\xff\xfe" + std::string(1 << 20, 'x');
  REQUIRE(failure_from_text(to_text(odd), 2));
  CHECK(failure_from_text(to_text(odd), 2)->error.size() < 20'000);
}

TEST_CASE("what is no value of a rank is not there") {
  const std::string post = to_text(kPost);
  const std::string failure = to_text(kFailure);
  for (const std::string& text : {std::string("x"), std::string("{}"), std::string("\xff\0", 2), std::string(300'000, '\xff'),
                                  post + "x", failure + "x"}) {
    CHECK_FALSE(post_from_text(text));
    CHECK_FALSE(failure_from_text(text, 2));
  }
  for (std::size_t length = 0; length < post.size(); ++length) CHECK_FALSE(post_from_text(post.substr(0, length)));
  for (std::size_t length = 0; length < failure.size(); ++length) CHECK_FALSE(failure_from_text(failure.substr(0, length), 2));
  // The rank is in the first four bytes of a failure; stage and hook come after it, and after the first eight of a post.
  CHECK_FALSE(failure_from_text(with(failure, 0, 2), 2));
  CHECK_FALSE(failure_from_text(with(failure, 3, '\x80'), 2));
  CHECK_FALSE(failure_from_text(with(failure, 1, 1), 2));
  for (const std::size_t place : {4, 5}) CHECK_FALSE(failure_from_text(with(failure, place, '\xff'), 2));
  for (const std::size_t place : {8, 9}) CHECK_FALSE(post_from_text(with(post, place, '\xff')));
}
