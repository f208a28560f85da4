// What distributed_program does with reductions that are under way when something ends, and with the control group alone.
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "levin/strategies/gradients/module_synchronizer.h"
#include "strategies/gradients/distributed_scenarios.h"
#include "support/group_program.h"

namespace levin::test {
namespace {

/// Both ranks' backward passes end with an error while buckets travel: rank 1 is rid of its reducer before rank 0 sends its
/// own.
void throws_in_flight(Context& context, levin::CommHook hook) {
  mallopt(M_PERTURB, 0xa5);  // what is used after it was freed is garbage
  Net net(5, false);
  const levin::DdpOptions options{.comm_hook = hook, .bucket_cap_mb = 1e-6};
  auto synchronizer = std::make_unique<ModuleSynchronizer>(context.world, net, true, options);
  levin::Votes votes;
  votes.gradient_weight = 1'000'003 + context.rank();
  context.strategy.vote_channel().publish(0, votes);
  const auto meet = [&] { context.world.control_group().all_gather({}, {}, "rank 1 has let go"); };
  const auto hidden = net.first->forward(torch::ones({2, 4}));
  hidden.register_hook([](const at::Tensor&) { throw std::runtime_error("in flight"); });
  const auto loss = (net.spare->forward(hidden) + net.last->forward(hidden)).sum();
  synchronizer->before_backward(loss);
  if (context.rank() == 0) meet();
  try {
    loss.backward();
  } catch (const std::runtime_error&) {
    synchronizer.reset();
  }
  if (synchronizer) say("WRONG end");
  if (context.rank() == 1) meet();
  std::vector<levin::Votes> read;
  while (read.empty()) {
    try {
      read = context.strategy.vote_channel().read(0);
    } catch (const levin::MisuseError&) {
      std::this_thread::yield();  // the first bucket is still under way
    }
  }
  for (int rank = 0; rank < context.ranks(); ++rank) {
    if (read[static_cast<std::size_t>(rank)].gradient_weight != 1'000'003 + rank) say("WRONG votes");
  }
  say("has votes");
}

/// Tells, when nearly all static objects are gone, whether exit() has waited.
struct LastWord {
  std::atomic<int> left = 0;  ///< reductions under way
  std::atomic<bool> is_asked = false;
  ~LastWord() {
    if (is_asked) say(left == 0 ? "exit() waited" : "WRONG exit() did not wait");
  }
};
__attribute__((init_priority(101))) LastWord last_word;  // made before levin's own

/// Rank 0 ends its program while a reduction travels, which rank 1 joins only then.
void exits_in_flight(Context& context) {
  static ProcessWorld& world = context.world;
  static const auto meet = [] { world.control_group().all_gather({}, {}, "both end"); };
  static const auto reduce = [] {
    ++last_word.left;
    std::vector<at::Tensor> tensors = {torch::ones({1000})};
    world.process_group()->allreduce(tensors)->getFuture()->addCallback([](c10::ivalue::Future&) { --last_word.left; });
  };
  last_word.is_asked = true;
  if (context.rank() == 0) {
    reduce();
    std::atexit([] { meet(); });
  } else {
    std::atexit([] {
      meet();
      reduce();
    });
  }
}

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

Scenarios in_flight_scenarios() {
  return {
      {"exits_in_flight", exits_in_flight},
      {"throws_in_flight", [](Context& context) { throws_in_flight(context, levin::CommHook::kNone); }},
      {"throws_in_flight_in_16_bits", [](Context& context) { throws_in_flight(context, levin::CommHook::kFp16Compress); }},
  };
}

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
