#include "levin/core/protocol/session_calls.h"

#include <catch2/catch.hpp>

#include "levin/core/base/error.h"

namespace levin::test {
namespace {

using enum SessionCall;

TEST_CASE("what ranks do together follows from what the caller of each asks for") {
  struct Row {
    std::vector<SessionCall> calls;
    SessionWork keep;
    SessionWork drop;  // with the first that ends
  };
  const Row row = GENERATE(from_range(std::vector<Row>{
      {{kStep}, SessionWork::kIterate, SessionWork::kIterate},
      {{kStep, kStep}, SessionWork::kIterate, SessionWork::kIterate},
      {{kStep, kEndEpoch}, SessionWork::kIterate, SessionWork::kEndEpoch},
      {{kEnd, kStep, kEndEpoch}, SessionWork::kIterate, SessionWork::kEndTraining},
      {{kEndEpoch, kEndEpoch}, SessionWork::kEndEpoch, SessionWork::kEndEpoch},
      {{kEndEpoch, kEnd}, SessionWork::kEndEpoch, SessionWork::kEndEpoch},
      {{kEnd, kEnd}, SessionWork::kCall, SessionWork::kCall},
      {{kValidate, kValidate, kValidate}, SessionWork::kCall, SessionWork::kCall},
      {{kBeginEpoch, kBeginEpoch}, SessionWork::kBeginEpoch, SessionWork::kBeginEpoch},
      {{kBeginEpoch, kStep}, SessionWork::kBeginEpoch, SessionWork::kBeginEpoch},
      {{kBeginEpoch, kEndEpoch}, SessionWork::kBeginEpoch, SessionWork::kEndEpoch},
      {{kBeginEpoch, kEnd}, SessionWork::kBeginEpoch, SessionWork::kEndTraining},
      {{kSave}, SessionWork::kCall, SessionWork::kCall},
  }));
  CHECK(work_of(row.calls, /*stops_with_first=*/false) == row.keep);
  CHECK(work_of(row.calls, /*stops_with_first=*/true) == row.drop);
}

TEST_CASE("calls of ranks that do not go together are an error of all ranks that names them") {
  const bool stops_with_first = GENERATE(false, true);
  const auto text_of = [&](const std::vector<SessionCall>& calls) -> std::string {
    try {
      work_of(calls, stops_with_first);
    } catch (const MisuseError& error) {
      CHECK(error.is_of_all_ranks());
      return error.what();
    }
    return "no error";
  };
  CHECK_THAT(text_of({kValidate, kStep, kStep}), Catch::Contains("ranks 1, 2 called step(), rank 0 called validate()"));
  CHECK_THAT(text_of({kSave, kEndEpoch}), Catch::Contains("rank 1 called end_epoch(), rank 0 called save()"));
  CHECK_THAT(text_of({kSave, kTest, kEnd}), Catch::Contains("rank 2 called end(), rank 1 called test(), rank 0 called save()"));
}

}  // namespace
}  // namespace levin::test
