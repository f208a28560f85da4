#include "levin/strategies/store/store_message.h"

#include <catch2/catch.hpp>

using namespace levin;

namespace {

const RankPost kPost{7, {Stage::kValidate, Hook::kValidationStep, 3, 40}, true, 5, "rank 1: in validation_step"};
const FailureRecord kFailure{1, {Stage::kTrain, Hook::kTrainingStep, 3, 41}, "the sensor returned garbage"};

/// `text` with `part` replaced.
std::string with(std::string text, const std::string& part, const std::string& other) {
  const std::size_t at = text.find(part);
  REQUIRE(at != std::string::npos);
  return text.replace(at, part.size(), other);
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
  for (const std::string& text :
       {std::string(), std::string("x"), std::string("[]"), std::string("{}"), std::string("null"), std::string("{\"rank\":"),
        std::string("\xff\0", 2), std::string(kLongestStoreValue + 1, '['), std::string(100'000, '[')}) {
    CHECK_FALSE(post_from_text(text));
    CHECK_FALSE(failure_from_text(text, 2));
  }
  for (const char* number : {"\"7\"", "7.5", "1e300", "18446744073709551615", "true", "null"}) {
    INFO(number);
    CHECK_FALSE(post_from_text(with(post, "\"number\":7", std::string("\"number\":") + number)));
    CHECK_FALSE(failure_from_text(with(failure, "\"rank\":1", std::string("\"rank\":") + number), 2));
  }
  CHECK_FALSE(failure_from_text(with(failure, "\"rank\":1", "\"rank\":2"), 2));
  CHECK_FALSE(failure_from_text(with(failure, "\"rank\":1", "\"rank\":-1"), 2));
  CHECK_FALSE(failure_from_text(with(failure, "\"rank\":1", "\"rank\":4294967297"), 2));
  CHECK_FALSE(failure_from_text(with(failure, "\"where\":[0,", "\"where\":[9,"), 2));
  CHECK_FALSE(failure_from_text(with(failure, "\"where\":[0,", "\"where\":[0,300,"), 2));
  CHECK_FALSE(failure_from_text(with(failure, "\"where\":[0,", "\"where\":["), 2));
}
