#include "levin/strategies/launch/launcher.h"

#include <poll.h>
#include <unistd.h>

#include <cstdio>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/terminal.h"
#include "levin/strategies/failure/print_report.h"
#include "levin/strategies/host/attempt_notes.h"
#include "levin/strategies/launch/fork_server.h"
#include "levin/strategies/launch/rank_process.h"
#include "levin/strategies/launch/signal_pipe.h"
#include "levin/strategies/launch/supervisor.h"

namespace levin {

namespace {

/// The attempts of a run, one after the other.
class Attempts {
 public:
  explicit Attempts(const LaunchPlan& plan) : plan_(plan) {
    for (int device = 0; device < plan.local_ranks; ++device) devices_.push_back(device);
    if (plan.max_restarts > 0) notes_ = AttemptNotes::make();
  }

  RunEnd run() {
    while (true) {
      Supervisor supervisor(start_ranks(places(), notes_));
      if (restarts_ == plan_.max_restarts) ForkServer::instance().end();
      while (supervisor.is_running()) {
        for (const int signal : signals_.wait(supervisor.time_to_look_again())) supervisor.pass_on(signal);
        supervisor.look();
      }
      const int status = supervisor.finish();
      std::fflush(nullptr);
      if (!supervisor.failure() || !start_again_after(supervisor)) return {status, supervisor.failure()};
    }
  }

 private:
  std::vector<RankPlace> places() const {
    std::vector<RankPlace> places;
    for (const int device : devices_) {
      places.push_back({.local_rank = static_cast<int>(places.size()),
                        .local_ranks = static_cast<int>(devices_.size()),
                        .host = plan_.host,
                        .hosts = plan_.hosts,
                        .device = device,
                        .restarts = restarts_,
                        .max_restarts = plan_.max_restarts,
                        .call = plan_.call});
    }
    return places;
  }

  bool start_again_after(const Supervisor& supervisor) {
    if (plan_.max_restarts == 0) return false;
    if (go_on_without(supervisor.ranks_without_device())) return true;
    std::string hindrance = supervisor.why_not_again(restarts_ == 0, plan_.hosts > 1);
    if (hindrance.empty() && restarts_ == plan_.max_restarts) {
      hindrance = format("max_restarts={} is used up", plan_.max_restarts);
    }
    if (!hindrance.empty()) {
      print_report("levin: the run is not started again: " + hindrance);
      return false;
    }
    ++restarts_;
    print_report(format("levin: the run starts again, attempt {} of {}, because {}", restarts_ + 1, plan_.max_restarts + 1,
                        supervisor.failure()->place()));
    return true;
  }

  /// True when the run goes on with fewer ranks than the last attempt tried to have.
  bool go_on_without(const std::vector<int>& local_ranks) {
    const int left = static_cast<int>(devices_.size() - local_ranks.size());
    if (local_ranks.empty() || !plan_.min_devices || left < *plan_.min_devices) return false;
    for (auto rank = local_ranks.rbegin(); rank != local_ranks.rend(); ++rank) devices_.erase(devices_.begin() + *rank);
    print_report(format("levin: the run goes on with {}, since the others' devices are gone (min_devices={})",
                        counted(devices_.size(), "rank"), *plan_.min_devices));
    return true;
  }

  LaunchPlan plan_;
  SignalPipe signals_;
  std::vector<int> devices_;  ///< by local rank
  std::optional<int> notes_;
  int restarts_ = 0;
};

}  // namespace

RunEnd run_ranks(const LaunchPlan& plan) {
  // The memory and sockets that ranks inherit must not have the numbers that messages are written to.
  open_standard_descriptors();
  // What the program has printed so far is printed once, before anything of the ranks.
  std::fflush(nullptr);
  return Attempts(plan).run();
}

void launch_ranks(const LaunchPlan& plan) {
  const int status = run_ranks(plan).status;
  // Not exit(): the objects of the user's program belong to the ranks, and were never meant to be used here.
  _exit(status);
}

}  // namespace levin
