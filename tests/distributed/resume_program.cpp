// A user's program that saves in its hooks and resumes from each, on several ranks: see support/resume_plans.h.
// Arguments: ranks=… folder=… seed=… programs=… stride=… accelerator=… session=1, which drives it by a Session; source=…: the
// first program that reads from it (support/resume_sources.h)
#include "distributed/rank_program.h"
#include "distributed/rank_report.h"
#include "levin/core/config/trainer_values.h"
#include "levin/core/trainer.h"
#include "support/resume_plans.h"

namespace levin::test {

namespace {

void run(const Settings& settings) {
  if (const std::string name = settings.text("accelerator"); !name.empty()) setenv("LEVIN_TEST_ACCELERATOR", name.c_str(), 1);
  const std::filesystem::path folder = settings.text("folder");
  const int ranks = settings.number("ranks");
  const Trainer trainer(rank_options(ranks, folder));
  Report report(folder, trainer.rank());
  const std::string source = settings.text("source");
  const int first = settings.number("seed", 1);
  for (int seed = first; seed < first + settings.number("programs", 1); ++seed) {
    const std::filesystem::path own = folder / std::to_string(seed);
    std::filesystem::create_directories(own);
    const bool by_session = settings.number("session", 0) == 1;
    const auto number = static_cast<std::uint64_t>(seed);
    const auto stride = static_cast<std::size_t>(settings.number("stride", 1));
    const auto plan = !source.empty() ? first_resume_plan_of(source, ranks)
                      : by_session    ? random_session_plan(number, ranks)
                                      : random_resume_plan(number, ranks);
    if (trainer.is_global_zero()) std::cout << plan.str() << std::endl;
    const std::string problems = by_session ? check_session_plan(plan, own, stride) : check_resume_plan(plan, own, stride);
    if (!problems.empty()) std::cout << "rank " << trainer.rank() << ": " << problems << std::endl;
    report.add("equal", problems.empty() ? 1 : 0);
  }
}

const RankProgram program("resume", run);

}  // namespace

}  // namespace levin::test
