#include "levin/loggers/builtins.h"

#include "levin/core/options/registry.h"
#include "levin/loggers/csv_logger.h"

namespace levin {

void register_builtin_loggers() {
  Registry<Logger>::instance().add<CsvLogger>("CSVLogger",
                                              "Writes metrics to metrics.csv and hyper-parameters to hparams.yaml");
}

}  // namespace levin
