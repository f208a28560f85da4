// What distributed_program does with the control group alone.
#include <stdexcept>

#include "strategies/distributed_scenarios.h"
#include "support/group_program.h"

namespace levin::test {
namespace {

using testing::GroupFault;
using testing::GroupProgram;

void differ(Context& context, GroupFault fault) {
  const GroupProgram program(/*seed=*/3, context.ranks(), fault, /*unit=*/1000);
  try {
    program.run(context.world.control_group());
  } catch (const DesyncError& error) {
    for (const std::string& part : program.expected_error()) {
      if (std::string(error.what()).find(part) == std::string::npos) say("LACKS " + part);
    }
    say("rank " + std::to_string(context.rank()) + " has the error");
    throw;
  }
}

}  // namespace

Scenarios group_scenarios() {
  return {
      {"group_calls",
       [](Context& context) {
         // Texts that fit a frame of Gloo's, that just do not, and long ones.
         for (const std::size_t unit : {1, 310, 50'000}) {
           for (std::uint64_t seed = 1; seed <= 10; ++seed) {
             GroupProgram(seed, context.ranks(), GroupFault::kNone, unit).run(context.world.control_group());
           }
         }
         say("good calls");
       }},
      {"other_operation", [](Context& context) { differ(context, GroupFault::kOtherOperation); }},
      {"other_root", [](Context& context) { differ(context, GroupFault::kOtherRoot); }},
      {"other_what", [](Context& context) { differ(context, GroupFault::kOtherWhat); }},
      {"too_long", [](Context& context) { differ(context, GroupFault::kTooLong); }},
      {"dies_before_a_call",
       [](Context& context) {
         context.strategy.post_whereabouts({Stage::kTrain, Hook::kTrainingStep, 0, 4});
         if (context.rank() == 1) std::abort();
         context.world.control_group().gather(std::string(100'000, 'x'), 200'000, "a gather without rank 1");
       }},
  };
}

}  // namespace levin::test
