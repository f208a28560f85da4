#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "levin/core/protocol/metric_row.h"

namespace levin {

/// A template for file names: "{epoch}-{step}-{val_loss:.2f}". A field is a metric's name and, after a colon, how to write it
/// (Python's format language: "03d", ".2f", ".3g"). "{{" and "}}" stand for braces.
class CheckpointName {
 public:
  /// auto_insert_metric_name: a field also writes its name, "val_loss=0.12". Throws ConfigError when a brace has no partner or
  /// a format is not understood.
  CheckpointName(const std::string& pattern, bool auto_insert_metric_name);

  /// The name, without extension. A metric that is not there counts as 0, as in Lightning. `epoch` and `step` can be
  /// overridden by metrics of these names.
  std::string fill(std::int64_t epoch, std::int64_t step, const MetricMap& metrics) const;

  /// True when files of this name would not lie in the folder that they are saved in, or below: the name is absolute, or goes
  /// up by "..".
  bool leaves_folder() const;

 private:
  struct Piece {
    std::string literal;  ///< text in front of the field
    std::string field;    ///< empty: no field follows
    std::string format;   ///< what stands after the colon
  };
  std::vector<Piece> pieces_;
};

}  // namespace levin
