// What levin writes, levin reads back equal: config.yaml, --print_config and a checkpoint's manifest, of any tree of values.
#include <bit>

#include "fuzz/fuzz.h"
#include "fuzz/same_value.h"
#include "levin/cli/config/source_text.h"
#include "levin/cli/config/yaml_reader.h"
#include "levin/core/config/to_yaml.h"
#include "levin/core/config/value_json.h"

namespace {

using levin::Value;
using levin::fuzz::Bytes;

Value make_value(Bytes& bytes, int depth) {
  const unsigned kind = bytes.byte() % 8;
  const bool may_hold = depth > 0 && !bytes.empty();
  if (kind == 1) return Value(bytes.byte() % 2 == 0);
  if (kind == 2) return Value(static_cast<std::int64_t>(bytes.number()));
  if (kind == 3) return Value(std::bit_cast<double>(bytes.number()));
  if (kind == 4 || kind == 5) return Value(bytes.take(bytes.byte()));
  if (kind < 6 || !may_hold) return Value();
  Value value = kind == 6 ? Value(Value::List{}) : Value(Value::Map{});
  for (unsigned left = bytes.byte() % 16; left > 0; --left) {
    if (kind == 6) {
      value.push_back(make_value(bytes, depth - 1));
    } else {
      std::string key(bytes.take(bytes.byte()));
      // Longer than any limit of a reader's, now and then.
      if (key.size() > 250) key += key + key + key + key + key;
      value[key] = make_value(bytes, depth - 1);
    }
  }
  return value;
}

void check_yaml(const Value& value, const std::string& text) {
  try {
    FUZZ_CHECK(levin::fuzz::same(levin::cli::read_yaml(levin::cli::SourceText("saved.yaml", text)), value), text);
  } catch (const levin::ConfigError& error) {
    levin::fuzz::fail(error.what(), text);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr int kDeepestYaml = 100;
  Bytes bytes(levin::fuzz::text_of(data, size));
  const Value value = make_value(bytes, kDeepestYaml);
  check_yaml(value, levin::to_yaml(value));
  check_yaml(value, levin::to_yaml(value, [](const auto&) { return std::string("a comment\nof two lines"); }));
  try {
    const std::string json = levin::to_json(value);
    FUZZ_CHECK(levin::fuzz::same(levin::parse_json(json), value), json);
  } catch (const levin::IoError& error) {
    levin::fuzz::fail(error.what(), levin::to_yaml(value));
  }
  return 0;
}
