#include <rapidcheck.h>

#include <catch2/catch.hpp>

#include "cli/yaml_mutation.h"
#include "levin/cli/yaml_reader.h"
#include "levin/core/yaml/to_yaml.h"

using levin::Value;
using levin::cli::SourceText;
using levin::test::mutated;

namespace {

const std::string kDocument =
    "seed_everything: 1\n"
    "trainer: {max_epochs: 5, callbacks: [EarlyStopping, {class_path: A.B, init_args: &x {monitor: \"val\\n\", p: 1e-3}}]}\n"
    "model:\n"
    "  class_path: Digits # comment\n"
    "  init_args:\n"
    "    <<: *x\n"
    "    text: |\n"
    "      block\n"
    "    folded: >-\n"
    "      a\n"
    "      b\n"
    "  ? key\n"
    "  : - 1\n"
    "    - 'two'\n";

bool reads_or_throws_config_error(const std::string& text) {
  try {
    levin::cli::read_yaml(SourceText("fuzz.yaml", text));
  } catch (const levin::ConfigError& error) {
    return error.mark().file == "fuzz.yaml";
  }
  return true;
}

rc::Gen<std::string> any_text() {
  const auto ascii = rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127));
  const auto tricky =
      rc::gen::element<std::string>("", " ", "~", "null", "yes", "1", "1.0", "1e5", "0x1", ".inf", "-", "- a", "a: b", "#",
                                    "<<", "!x", "&a", "*a", "'", "\"", "\n", "a\n", " a", "a ", "ä", "\xf0\x9f\x98\x80", "---",
                                    "...", "[", "{", "|", ">", "%", "@", "`", "50_000", "99999999999999999999");
  return rc::gen::oneOf(ascii, tricky);
}

Value any_value(int depth) {
  const int kind = *rc::gen::inRange(0, depth > 0 ? 7 : 5);
  if (kind == 0) return Value();
  if (kind == 1) return Value(*rc::gen::arbitrary<bool>());
  if (kind == 2) return Value(*rc::gen::arbitrary<std::int64_t>());
  if (kind == 3) return Value(*rc::gen::arbitrary<double>());
  if (kind == 4) return Value(*any_text());
  const int size = *rc::gen::inRange(0, 4);
  Value value = kind == 5 ? Value(Value::List{}) : Value(Value::Map{});
  for (int i = 0; i < size; ++i) {
    if (kind == 5)
      value.push_back(any_value(depth - 1));
    else
      value[*any_text()] = any_value(depth - 1);
  }
  return value;
}

}  // namespace

TEST_CASE("any value written as YAML reads back equal") {
  CHECK(rc::check([] {
    const Value value = any_value(4);
    const std::string text = levin::to_yaml(value);
    RC_LOG() << text;
    RC_ASSERT(levin::cli::read_yaml(SourceText("written.yaml", text)) == value);
  }));
}

TEST_CASE("a damaged document is read or refused with its place, never a crash") {
  CHECK(rc::check([](const std::vector<std::pair<std::uint16_t, std::uint8_t>>& edits) {
    const std::string text = mutated(kDocument, {edits.begin(), edits.end()});
    RC_LOG() << text;
    RC_ASSERT(reads_or_throws_config_error(text));
  }));
}

TEST_CASE("any bytes are read or refused with their place, never a crash") {
  CHECK(rc::check([](const std::string& bytes) { RC_ASSERT(reads_or_throws_config_error(bytes)); }));
  CHECK(rc::check([] {
    const auto pieces = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 29));
    std::vector<std::pair<int, int>> edits;
    for (const int piece : pieces) edits.emplace_back(1 << 30, piece);
    RC_ASSERT(reads_or_throws_config_error(mutated("", edits)));
  }));
}
