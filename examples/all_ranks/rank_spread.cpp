#include <levin/levin.h>

#include <cmath>
#include <set>

namespace {

struct RankSpreadOptions {
  std::string monitor = "train_loss";
  double tolerance = 0.5;

  static void declare(levin::OptionList<RankSpreadOptions>& options) {
    options.add("monitor", &RankSpreadOptions::monitor, "The metric whose values on the ranks are compared");
    options.add("tolerance", &RankSpreadOptions::tolerance, "How far a rank may be from the mean of the others, relative to it")
        .min(0);
  }
};

/// Watches how far the ranks' values of one metric lie apart. Their spread (largest minus smallest) becomes the metric
/// `MONITOR_spread`, and a rank that departs from the others is named in a warning, once.
class RankSpread : public levin::Callback {
 public:
  using Options = RankSpreadOptions;

  explicit RankSpread(RankSpreadOptions options) : options_(std::move(options)) {}
  levin::Value settings() const override { return levin::write_options(options_); }

  // Every rank gets the same values, so that every rank comes to the same result, without communication.
  void on_rank_metrics(levin::Trainer& trainer, levin::Module&, const levin::MetricRow& row,
                       const std::vector<levin::MetricMap>& by_rank) override {
    std::map<std::size_t, double> values;  // a rank without a batch has none
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
      const auto found = by_rank[rank].find(options_.monitor);
      if (found != by_rank[rank].end()) values[rank] = found->second;
    }
    if (values.size() < 2) return;
    const double spread = spread_of(values);
    trainer.set_callback_metric(options_.monitor + "_spread", spread);
    trainer.log_to_loggers({{options_.monitor + "_spread", spread}}, row.step);
    for (const auto& [rank, value] : values) warn_of(rank, values, row.step);
  }

 private:
  static double spread_of(const std::map<std::size_t, double>& values) {
    double least = values.begin()->second;
    double most = least;
    for (const auto& [rank, value] : values) {
      if (std::isnan(value)) return value;
      least = std::min(least, value);
      most = std::max(most, value);
    }
    return most - least;
  }

  static double mean_of_others(std::size_t rank, const std::map<std::size_t, double>& values) {
    double sum = 0;
    for (const auto& [other, value] : values) sum += other == rank ? 0 : value;
    return sum / static_cast<double>(values.size() - 1);
  }

  void warn_of(std::size_t rank, const std::map<std::size_t, double>& values, std::int64_t step) {
    const double value = values.at(rank);
    const double others = mean_of_others(rank, values);
    // The larger of two is named. Written so that a value that is not a number departs too.
    const bool departs = std::isfinite(others) && !(value - others <= options_.tolerance * std::abs(others));
    if (!departs || !warned_of_.insert(rank).second) return;
    levin::rank_zero_warn(options_.monitor, " of rank ", rank, " is ", value, " at step ", step, "; the other ranks' mean is ",
                          others);
  }

  RankSpreadOptions options_;
  std::set<std::size_t> warned_of_;
};

LEVIN_REGISTER_CALLBACK(RankSpread, "Watches how far the ranks' values of one metric lie apart");

}  // namespace
