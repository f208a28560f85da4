#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/options.h"
#include "levin/core/protocol/metrics.h"
#include "levin/rl/environment.h"

namespace levin {

class Worker;

struct LEVIN_API VectorEnvironmentOptions {
  std::int64_t environments = 8;
  int threads = 0;                     ///< that step the environments; 0: the caller's. Worth it from 50 µs a step on
  std::optional<std::int64_t> seed{};  ///< default: that of seed_everything(), else 0
  int rank = 0;                        ///< Trainer::rank(), so that each rank has other environments
  std::int64_t window = 100;           ///< the episodes that mean_return() and mean_length() are of

  static void declare(OptionList<VectorEnvironmentOptions>& options);
};

/// An episode that has ended.
struct LEVIN_API FinishedEpisode {
  std::int64_t environment = 0;
  double total_reward = 0;  ///< without discount
  std::int64_t length = 0;  ///< in steps
};

/// The outcome of VectorEnvironment::step(): a row for each environment, in their order, on the CPU.
struct LEVIN_API VectorStep {
  /// The observations to act on, [n, …]: where an episode has ended, the first one of the next.
  at::Tensor observation;
  /// The observations that the actions led to, [n, …]: where an episode has ended, its last one. Elsewhere the same.
  at::Tensor next_observation;
  at::Tensor reward;                      ///< [n], float
  at::Tensor terminated;                  ///< [n], bool
  at::Tensor truncated;                   ///< [n], bool
  std::vector<FinishedEpisode> episodes;  ///< that ended in this step, in the order of environments
};

/// The seed of an environment of a rank: another one for each, also in its lower 32 bits (to 2^12 ranks with 2^20
/// environments).
LEVIN_API std::uint64_t environment_seed(std::uint64_t seed, int rank, std::int64_t environment);

/// Environments that step together, in the caller's thread or in several. An episode that ends is followed by the next one in
/// the same step (Gymnasium's AutoresetMode.SAME_STEP).
///
///     levin::VectorEnvironment environments([](auto seed) { return std::make_unique<CartPole>(seed); }, {.environments = 8});
///     session.keep("environments", environments.kept());
///     session.begin();
///     const levin::Batch action = session.predict({{"observation", environments.observation()}});
///     const levin::VectorStep step = environments.step(action["action"]);
///
/// What a step gives depends on seed, rank and actions, not on the number of threads nor on timing. An error in an environment
/// is an Error that names it, with the original nested, when all others have stepped; of several errors it is the first
/// environment's. Call reset() after it. Threading: one thread at a time.
class LEVIN_API VectorEnvironment {
 public:
  using Options = VectorEnvironmentOptions;

  /// Throws ConfigError as checked() does, and MisuseError for a factory that gives none.
  explicit VectorEnvironment(const EnvironmentFactory& factory, Options options = {});
  ~VectorEnvironment();
  VectorEnvironment(const VectorEnvironment&) = delete;
  VectorEnvironment& operator=(const VectorEnvironment&) = delete;

  /// Begins an episode in each environment, and returns their first observations, [n, …].
  at::Tensor reset();
  /// Takes an action in each: its row of `actions`, [n, …]. Throws MisuseError for another number of rows, and for observations
  /// that differ in shape or type, which it names.
  VectorStep step(const at::Tensor& actions);
  /// The observations to act on: of the last step, or of reset(), which the first call calls. After a resume those of the
  /// checkpoint, so that a loop begins and resumes alike.
  const at::Tensor& observation();
  std::int64_t size() const { return options_.environments; }

  /// Means over the last `window` episodes; NaN before one has ended.
  double mean_return() const;
  double mean_length() const;
  std::int64_t finished_episodes() const { return finished_; }  ///< since the beginning
  std::int64_t steps() const { return steps_; }                 ///< of all environments, since the beginning
  /// Logs both means as `episode_return` and `episode_length`; nothing before an episode has ended. Called: where Module::log()
  /// may be, such as in training_step or the closure of Session::step().
  void log_episodes(Module& module, const LogOptions& options = {}) const;

  /// For Session::keep(): environments, episodes under way, observations and means. The object must outlive the session.
  /// Throws MisuseError where an environment has no state(); on loading, ConfigError for another number of environments.
  KeptFunctions kept();

 private:
  struct Slot;

  /// Runs work(i) for each environment, and throws the first one's error.
  void for_each(const char* call, const std::function<void(Slot&)>& work);
  at::Tensor stack(const char* call, at::Tensor Slot::*observation) const;
  void add_to_window(const FinishedEpisode& episode);
  KeptState state() const;
  void set_state(const KeptState& state);

  Options options_;
  std::vector<Slot> slots_;
  std::vector<std::unique_ptr<Worker>> workers_;
  at::Tensor observation_;  ///< undefined before reset()
  std::deque<FinishedEpisode> last_;
  std::int64_t finished_ = 0;
  std::int64_t steps_ = 0;
};

}  // namespace levin
