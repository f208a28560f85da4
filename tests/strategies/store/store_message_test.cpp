#include "levin/strategies/store/store_message.h"

#include <catch2/catch.hpp>

#include "levin/core/base/error.h"

using namespace levin;

namespace {

constexpr std::size_t kLimit = 1 << 20;

const StoreMessage kExample{StoreCall::kSet, -7, {"a", ""}, {std::string("\0x", 2), std::string(300, 'v')}};
const RankPost kPost{7, {Stage::kValidate, Hook::kValidationStep, 3, 40}, true, 5, "rank 1: in validation_step"};
const FailureRecord kFailure{1, {Stage::kTrain, Hook::kTrainingStep, 3, 41}, "the sensor returned garbage"};

/// `text` with the byte at `place` replaced.
std::string with(std::string text, std::size_t place, char byte) {
  text.at(place) = byte;
  return text;
}

}  // namespace

TEST_CASE("a store's message arrives as it was sent, also byte by byte, and several at once") {
  const std::string bytes = encode(kExample) + encode({StoreCall::kCount});
  const std::size_t step = GENERATE(1, 7, 1000);
  StoreMessageReader reader;
  std::vector<StoreMessage> arrived;
  for (std::size_t begin = 0; begin < bytes.size(); begin += step) {
    reader.add(std::string_view(bytes).substr(begin, step));
    while (auto message = reader.next(kLimit)) arrived.push_back(*message);
  }
  REQUIRE(arrived.size() == 2);
  CHECK(arrived[0].call == StoreCall::kSet);
  CHECK(arrived[0].number == -7);
  CHECK(arrived[0].keys == kExample.keys);
  CHECK(arrived[0].values == kExample.values);
  CHECK(arrived[1].call == StoreCall::kCount);
  CHECK(reader.is_empty());
}

TEST_CASE("what is no message of a store is refused by its first bytes") {
  StoreMessageReader web;
  web.add("GE");
  CHECK_THROWS_WITH(web.next(kLimit), "it does not speak levin's protocol");
  StoreMessageReader huge;
  huge.add(std::string("LEVS\xff\xff\xff\x7f", 8));
  CHECK_THROWS_WITH(huge.next(kLimit), "it announced a message of 2147483647 bytes, where the limit is 1048576");
}

TEST_CASE("counts and lengths inside a message are held against what arrived") {
  // Every byte of a message in turn gets the largest value: no reading past the end, and no memory for missing data.
  const std::string good = encode(kExample);
  int refused = 0;
  for (std::size_t at = 8; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = '\xff';
    StoreMessageReader reader;
    reader.add(bad);
    try {
      static_cast<void>(reader.next(kLimit));
    } catch (const DesyncError&) {
      ++refused;
    }
  }
  CHECK(refused >= 20);
  // A count of four billion texts.
  std::string many = encode({StoreCall::kGet, 0, {}, {}});
  many.replace(17, 4, "\xff\xff\xff\xff");
  StoreMessageReader reader;
  reader.add(many);
  CHECK_THROWS_WITH(reader.next(kLimit), "it announced more texts than arrived");
}

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
