#include "levin/core/config/options.h"

#include <array>
#include <catch2/catch.hpp>
#include <functional>

using namespace levin;

namespace {

enum class Side { kLeft, kRight };

}  // namespace

template <>
inline constexpr std::array levin::kChoices<Side> = {Choice{Side::kLeft, "left"}, Choice{Side::kRight, "right"}};

namespace {

struct Inner {
  double rate = 0.5;
  std::optional<std::int64_t> steps;
  bool operator==(const Inner&) const = default;
};

/// One member of each kind that may be an option; nothing is declared.
struct Each {
  bool flag = true;
  int small = 7;
  std::int64_t large = 1;
  double rate_2 = 1e-3;
  std::string name = "levin";
  std::filesystem::path folder = "here";
  std::optional<double> limit;
  std::vector<std::string> wörter = {"a", "b"};
  std::map<std::string, double> weights;
  Side side = Side::kRight;
  Duration time{};
  Value anything;
  Inner inner;
  std::vector<Inner> several = {Inner{}};
  bool operator==(const Each&) const = default;
};

struct Refined {
  std::int64_t hidden = 64;
  double rate = 0.1;
  std::string text = "x";
  std::function<void()> callback = nullptr;
  static void declare(OptionList<Refined>& options) {
    options.add(&Refined::rate, "Learning rate").above(0);
    options.add("name", &Refined::text, "Under another name");
  }
};

struct Derived : Inner {
  int more = 3;
  int unnamed = 4;
  static void declare(OptionList<Derived>& options) {
    options.add("more", &Derived::more, "Named");
    options.add("rate", &Derived::rate, "Of the base");
  }
};

struct Many {
  int a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, a21, a22, a23, last;
};
struct TooMany {
  Many many;
  int a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, a21, a22, a23, a24 = 24;
  static void declare(OptionList<TooMany>& options) { options.add("last", &TooMany::a24, "The only one"); }
};

template <class T>
std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& info : describe_options<T>()) all.push_back(info.name);
  return all;
}

Value map_of(const char* key, Value value) { return Value(Value::Map{{key, std::move(value)}}); }

}  // namespace

TEST_CASE("a struct without declare() has its members as options, of every type that may be one") {
  CHECK(names<Each>() == std::vector<std::string>{"flag", "small", "large", "rate_2", "name", "folder", "limit", "wörter",
                                                  "weights", "side", "time", "anything", "inner", "several"});
  Each changed;
  changed.rate_2 = 0.25;
  changed.limit = 3;
  changed.side = Side::kLeft;
  changed.inner.steps = 9;
  changed.several.resize(2);
  changed.several[0].rate = 2;
  CHECK(read_options<Each>(write_options(changed)) == changed);
  CHECK(read_options<Each>(map_of("side", "left")).side == Side::kLeft);
  CHECK(read_options<Each>(map_of("inner", map_of("rate", 0.125))).inner.rate == 0.125);
  CHECK_THROWS_WITH(read_options<Each>(map_of("rate2", 1.0)), Catch::Contains("did you mean 'rate_2'?"));
  CHECK_THROWS_WITH(read_options<Each>(map_of("side", "top")), Catch::Contains("must be one of 'left', 'right'"));
  CHECK_THROWS_WITH(read_options<Each>(map_of("inner", map_of("rate", "fast"))), Catch::Contains("inner: rate"));
}

TEST_CASE("declare() refines what it names; other members are options too, unless their type is none") {
  CHECK(names<Refined>() == std::vector<std::string>{"rate", "name", "hidden"});
  CHECK(describe_options<Refined>()[0].help == "Learning rate");
  CHECK_THROWS_AS(read_options<Refined>(map_of("rate", 0.0)), ConfigError);
  CHECK_THROWS_WITH(read_options<Refined>(map_of("text", "y")), Catch::Contains("unknown"));
  CHECK(read_options<Refined>(map_of("hidden", 8)).hidden == 8);
}

TEST_CASE("where members are not known, declare() names all options") {
  CHECK(names<Derived>() == std::vector<std::string>{"more", "rate"});
  CHECK(names<TooMany>() == std::vector<std::string>{"last"});
  CHECK(names<Many>().size() == 24);
  CHECK(names<Many>().back() == "last");
}
