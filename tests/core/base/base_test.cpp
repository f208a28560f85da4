#include <catch2/catch.hpp>
#include <set>
#include <vector>

#include "levin/core/base/byte_reader.h"
#include "levin/core/base/error.h"
#include "levin/core/base/hook.h"

using namespace levin;

TEST_CASE("every hook has another name") {
  std::set<std::string> names;
  for (int index = 0; index < static_cast<int>(Hook::kCount); ++index) {
    names.insert(std::string(hook_name(static_cast<Hook>(index))));
  }
  CHECK(names.size() == static_cast<std::size_t>(Hook::kCount));
  CHECK(hook_name(Hook::kOnTrainBatchEnd) == "on_train_batch_end");
  CHECK(hook_name(static_cast<Hook>(200)) == "unknown");
  CHECK(stage_name(Stage::kSanityCheck) == "sanity_check");
}

TEST_CASE("a hook's metrics are those of the stage in its name, and of training without one") {
  for (int index = 0; index < static_cast<int>(Hook::kCount); ++index) {
    const auto hook = static_cast<Hook>(index);
    const std::string_view name = hook_name(hook);
    const auto names = [&](const char* stage) {
      return name.find(stage) != std::string_view::npos && hook_policy(hook).may_log;
    };
    INFO(name);
    if (names("validation")) CHECK(hook_stage(hook) == Stage::kValidate);
    if (names("test")) CHECK(hook_stage(hook) == Stage::kTest);
    if (names("train")) CHECK(hook_stage(hook) == Stage::kTrain);
  }
  CHECK(hook_stage(Hook::kValidationStep) == Stage::kValidate);
  CHECK(hook_stage(Hook::kOnBeforeZeroGrad) == Stage::kTrain);
  CHECK(hook_stage(static_cast<Hook>(200)) == Stage::kTrain);
}

TEST_CASE("what was appended is read again, from texts and from bytes, and nothing beyond its end") {
  std::string text;
  std::vector<std::byte> bytes;
  const auto fill = [](auto& into) {
    append_number(into, std::uint8_t{7});
    append_text(into, std::string_view("a\0b", 3));
    append_number(into, -2.5);
    append_text(into, "");
  };
  fill(text);
  fill(bytes);
  CHECK(text.size() == 1 + 4 + 3 + 8 + 4);
  for (ByteReader reader : {ByteReader(text, "short"), ByteReader(bytes, "short")}) {
    CHECK(reader.number<std::uint8_t>() == 7);
    CHECK(reader.text() == std::string("a\0b", 3));
    CHECK(reader.number<double>() == -2.5);
    CHECK(reader.left() == 4);
    CHECK(reader.text().empty());
    CHECK(reader.left() == 0);
    CHECK_THROWS_WITH(reader.number<std::uint8_t>(), "short");
  }
  text.clear();
  append_number(text, std::uint32_t{4000000000});
  CHECK_THROWS_AS(ByteReader(text, "short").text(), DesyncError);
}
