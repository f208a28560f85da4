#include "levin/strategies/store/store_values.h"

#include <limits>
#include <nlohmann/json.hpp>

namespace levin {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kLongestError = 16 << 10;

/// JSON itself holds numbers of any kind and size, and a cast would take each for another.
std::int64_t whole_number(const Json& json, std::int64_t least, std::int64_t most) {
  const bool fits = json.is_number_unsigned()
                        ? json.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())
                        : json.is_number_integer();
  if (!fits || json.get<std::int64_t>() < least || json.get<std::int64_t>() > most) throw std::out_of_range("number");
  return json.get<std::int64_t>();
}

std::int64_t any_number(const Json& json) {
  return whole_number(json, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max());
}

Json to_json(const Whereabouts& where) {
  return {static_cast<int>(where.stage), static_cast<int>(where.hook), where.epoch, where.step};
}

Whereabouts to_whereabouts(const Json& json) {
  return {static_cast<Stage>(whole_number(json.at(0), 0, static_cast<int>(Stage::kPredict))),
          static_cast<Hook>(whole_number(json.at(1), 0, static_cast<int>(Hook::kCount) - 1)), any_number(json.at(2)),
          any_number(json.at(3))};
}

/// An error's text may hold any bytes; JSON holds UTF-8 only.
std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

template <class Value, class Read>
std::optional<Value> read(const std::string& text, Read read_json) {
  if (text.size() > kLongestStoreValue) return std::nullopt;
  try {
    return read_json(Json::parse(text));
  } catch (const Json::exception&) {
    return std::nullopt;
  } catch (const std::out_of_range&) {
    return std::nullopt;
  }
}

}  // namespace

std::string to_text(const RankPost& post) {
  return dump({{"number", post.number},
               {"where", to_json(post.where)},
               {"waits", post.waits},
               {"reduction", post.reduction},
               {"line", post.line}});
}

std::optional<RankPost> post_from_text(const std::string& text) {
  return read<RankPost>(text, [](const Json& json) {
    return RankPost{any_number(json.at("number")), to_whereabouts(json.at("where")), json.at("waits").get<bool>(),
                    any_number(json.at("reduction")), json.at("line").get<std::string>()};
  });
}

std::string to_text(const FailureRecord& failure) {
  return dump({{"rank", failure.rank},
               {"where", to_json(failure.where)},
               {"error", failure.error.substr(0, kLongestError)},
               {"is_final", failure.is_final},
               {"is_lost", failure.is_lost}});
}

std::optional<FailureRecord> failure_from_text(const std::string& text, int ranks) {
  return read<FailureRecord>(text, [ranks](const Json& json) {
    return FailureRecord{static_cast<int>(whole_number(json.at("rank"), 0, ranks - 1)), to_whereabouts(json.at("where")),
                         json.at("error").get<std::string>(), json.value("is_final", false), json.value("is_lost", false)};
  });
}

}  // namespace levin
