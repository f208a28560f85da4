#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/protocol/simulation/oracle.h"
#include "core/protocol/simulation/program.h"
#include "levin/core/protocol/metric_table.h"

/// The oracle's data of ranks: plain lists of all that was logged, and their results.
namespace levin::testing::oracle {

using detail::MetricGroup;
using detail::MetricOptions;
using Key = std::tuple<Hook, std::string, int>;  // hook, name, dataloader or -1

struct Weighted {
  double value = 0;
  double weight = 1;
};
using Samples = std::vector<Sample>;

/// What one rank has logged under one key, value by value.
struct Own {
  MetricOptions options;
  std::string site;
  int object = -1;  ///< whose values these are; -1: numbers
  std::vector<Weighted> epoch{};
  std::vector<Weighted> step{};
  bool epoch_is_logged = false;
  bool step_is_logged = false;  ///< since the epoch began
  bool step_is_new = false;     ///< since the last step boundary
  bool is_unshared = false;     ///< the step's value is newer than the last boundary that carries steps
  // Of an object.
  Samples batch{};           ///< what its step has seen
  bool knows_rows = false;   ///< what all ranks had of the epoch in their last exchange
  bool rows_are_old = true;  ///< it has more than it sent then, if anything
};

/// What a metric object has been given on one rank.
struct OwnObject {
  Samples epoch{};
  Samples batch{};  ///< since the last batch began, once it is known to have steps
  bool batch_is_taken = false;
  std::optional<Samples> shown{};  ///< what all ranks have seen, where compute() sees that

  void update(const Sample& sample) {
    if (std::exchange(batch_is_taken, false)) batch.clear();
    epoch.push_back(sample);
    batch.push_back(sample);
    shown.reset();
  }
};

/// A key that the ranks agree on.
struct Agreed {
  Key key;
  MetricOptions options;
  std::string site;
  int object = -1;
  bool warned = false;

  MetricGroup group() const { return detail::group_of(std::get<0>(key)); }
  std::string name(const char* fork) const {
    const int loader = std::get<2>(key);
    return std::get<1>(key) + (options.forked() ? fork : "") + (loader < 0 ? "" : "/dataloader_idx_" + std::to_string(loader));
  }
};

/// What one rank has recorded, and shows.
struct RankState {
  bool alive = true;
  std::map<Key, Own> own;
  std::vector<Key> known;  ///< all keys of `own`, in the order in which this rank came to know them
  std::vector<Key> news;   ///< not agreed on, in the order of first use
  std::vector<OwnObject> objects;
  std::map<MetricGroup, int> epoch_batches;
  std::map<MetricGroup, int> step_batches;
  bool in_batch = false;
  ExpectedViews views;

  /// What the epoch of a stage has come to.
  void forget(MetricGroup group);
  /// A snapshot has all of training, and nothing else. Of a key without a value of this epoch nothing is left.
  void resume();
};

/// The result of numbers.
double reduce(const std::vector<Weighted>& samples, Reduce how);
/// What a metric object's values are called after its name, and what they are of these samples.
std::vector<std::pair<std::string, double>> values_of(const ObjectPlan& plan, const Samples& samples);

}  // namespace levin::testing::oracle
