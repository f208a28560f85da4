#include "levin/core/base/text.h"

#include <catch2/catch.hpp>
#include <map>

using levin::class_name_of;

namespace one {
struct Recorder {};
template <class Value>
struct Keeps {
  struct Inner {};
};
}  // namespace one

namespace {
struct Hidden {};

std::string name_of_local() {
  struct Local {};
  return class_name_of(typeid(Local));
}
}  // namespace

TEST_CASE("a class's name is without its namespaces, and with those of a template's arguments") {
  CHECK(class_name_of(typeid(one::Recorder)) == "Recorder");
  CHECK(class_name_of(typeid(Hidden)) == "Hidden");
  CHECK(class_name_of(typeid(int)) == "int");
  CHECK(class_name_of(typeid(one::Keeps<int>)) == "Keeps<int>");
  CHECK(class_name_of(typeid(one::Keeps<one::Recorder>)) == "Keeps<one::Recorder>");
  CHECK(class_name_of(typeid(one::Keeps<one::Keeps<one::Recorder>>)) == "Keeps<one::Keeps<one::Recorder> >");
  CHECK(class_name_of(typeid(one::Keeps<one::Recorder>::Inner)) == "Inner");
  CHECK(class_name_of(typeid(one::Keeps<void (*)(one::Recorder)>)) == "Keeps<void (*)(one::Recorder)>");
  CHECK(name_of_local() == "Local");
  CHECK(levin::full_class_name_of(typeid(one::Recorder)) == "one::Recorder");
}
