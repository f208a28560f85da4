#include "levin/core/config/options.h"

#include <algorithm>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/config/option_check.h"

namespace levin::detail {
namespace {

const void* member_at(const void* options, std::ptrdiff_t offset) { return static_cast<const char*>(options) + offset; }

}  // namespace

OptionBuilder& OptionBuilder::min(double minimum) {
  info_.minimum = minimum;
  return *this;
}
OptionBuilder& OptionBuilder::max(double maximum) {
  info_.maximum = maximum;
  return *this;
}
OptionBuilder& OptionBuilder::above(double bound) {
  info_.above = bound;
  return *this;
}
OptionBuilder& OptionBuilder::below(double bound) {
  info_.below = bound;
  return *this;
}
OptionBuilder& OptionBuilder::instead(std::string advice) {
  info_.instead = std::move(advice);
  return *this;
}
OptionBuilder& OptionBuilder::not_empty() {
  info_.not_empty = true;
  return *this;
}
OptionBuilder& OptionBuilder::choices(std::vector<std::string> names) {
  info_.choices = std::move(names);
  return *this;
}
OptionBuilder& OptionBuilder::input_file() {
  info_.input_file = true;
  return *this;
}
OptionBuilder& OptionBuilder::linked_to(std::string key) {
  info_.linked_to = std::move(key);
  return *this;
}
OptionBuilder& OptionBuilder::required() {
  info_.default_value = Value();
  info_.required = true;
  return *this;
}

OptionBuilder OptionTable::add(std::string_view name, std::string_view help, const MemberType& type, const void* member) {
  Entry& entry = entries_.emplace_back();
  entry.type = &type;
  entry.offset = static_cast<const char*>(member) - static_cast<const char*>(defaults_);
  entry.info.name = name;
  entry.info.help = help;
  entry.info.type = type.name();
  entry.info.schema = type.schema();
  entry.info.null_is_value = admits_null(entry.info.schema);
  entry.info.choices = type.choices();
  entry.info.default_value = type.write(member);
  return OptionBuilder(entry.info);
}

OptionBuilder OptionTable::add(std::string_view help, const MemberType& type, const void* member) {
  const auto known =
      std::ranges::find_if(members_, [&](const KnownMember& one) { return member_at(defaults_, one.offset) == member; });
  return add(known != members_.end() ? known->name : "", help, type, member);
}

void OptionTable::add_others() {
  for (const KnownMember& member : members_) {
    const bool is_there = std::ranges::any_of(entries_, [&](const Entry& entry) { return entry.offset == member.offset; });
    if (member.type != nullptr && !is_there) add(member.name, "", *member.type, member_at(defaults_, member.offset));
  }
}

void OptionTable::rule(std::vector<std::string> options, std::function<std::string(const void*)> problem) {
  rules_.push_back({std::move(options), std::move(problem)});
}

std::vector<OptionInfo> OptionTable::infos() const {
  std::vector<OptionInfo> infos;
  for (const Entry& entry : entries_) infos.push_back(entry.info);
  return infos;
}

void OptionTable::read(void* options, const Value& map) const {
  std::vector<const OptionInfo*> known;
  for (const Entry& entry : entries_) known.push_back(&entry.info);
  ErrorCollector errors;
  errors.run([&] { check_keys(known, map); });
  for (const Entry& entry : entries_) {
    if (const Value* value = map.find(entry.info.name)) errors.run([&] { entry.read(options, *value); });
  }
  errors.throw_if_any();
  check_rules(options, map);
}

Value OptionTable::write(const void* options) const {
  Value map = Value(Value::Map{});
  for (const Entry& entry : entries_) map[entry.info.name] = entry.type->write(member_at(options, entry.offset));
  return map;
}

void OptionTable::check(const std::string& class_name, const void* options) const {
  naming(class_name, [&] {
    ErrorCollector errors;
    for (const Entry& entry : entries_) errors.run([&] { entry.type->check(entry.info, member_at(options, entry.offset)); });
    errors.throw_if_any();
    check_rules(options, Value());
  });
}

void OptionTable::check_rules(const void* options, const Value& map) const {
  ErrorCollector errors;
  for (const Rule& rule : rules_) errors.run([&] { check_rule(rule.options, map, [&] { return rule.problem(options); }); });
  errors.throw_if_any();
}

}  // namespace levin::detail
