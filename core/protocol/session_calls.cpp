#include "levin/core/protocol/session_calls.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/protocol/boundary_exchange.h"

namespace levin {

namespace {

bool ends(SessionCall call) { return call == SessionCall::kEndEpoch || call == SessionCall::kEnd; }
bool trains(SessionCall call) { return call == SessionCall::kStep || call == SessionCall::kBeginEpoch || ends(call); }

[[noreturn]] void throw_different(const std::vector<SessionCall>& calls) {
  std::map<SessionCall, std::vector<int>> ranks_of;
  for (std::size_t rank = 0; rank < calls.size(); ++rank) ranks_of[calls[rank]].push_back(static_cast<int>(rank));
  std::vector<std::string> texts;
  for (const auto& [call, ranks] : ranks_of) texts.push_back(format("{} called {}", detail::rank_list(ranks), call_name(call)));
  throw of_all_ranks(MisuseError(format(
      "Session: {} at the same time. All ranks must call the same, except that some may step while others have ended the "
      "epoch. Call end_epoch() on every rank first: it waits until all have.",
      join(texts))));
}

}  // namespace

std::string_view call_name(SessionCall call) {
  constexpr std::array<std::string_view, 8> kNames = {"step()",     "begin_epoch()", "end_epoch()", "end()",
                                                      "validate()", "test()",        "save()",      "load()"};
  const auto index = static_cast<std::size_t>(call);
  return index < kNames.size() ? kNames[index] : "an unknown function";
}

SessionWork work_of(const std::vector<SessionCall>& calls, bool stops_with_first) {
  const auto any_is = [&](SessionCall call) { return std::ranges::count(calls, call) > 0; };
  const bool all_are_alike = std::ranges::count(calls, calls.front()) == std::ssize(calls);
  if (all_are_alike && (calls.front() == SessionCall::kEnd || !trains(calls.front()))) return SessionWork::kCall;
  if (!std::ranges::all_of(calls, trains)) throw_different(calls);
  if (std::ranges::all_of(calls, ends)) return SessionWork::kEndEpoch;
  if (stops_with_first && any_is(SessionCall::kEnd)) return SessionWork::kEndTraining;
  if (stops_with_first && any_is(SessionCall::kEndEpoch)) return SessionWork::kEndEpoch;
  return any_is(SessionCall::kBeginEpoch) ? SessionWork::kBeginEpoch : SessionWork::kIterate;
}

}  // namespace levin
