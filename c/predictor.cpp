#include "levin/core/predictor.h"

#include <memory>

#include "levin/c/batch.h"
#include "levin/c/status.h"

struct levin_predictor {
  levin::Predictor predictor;
};

using levin::c::guarded;
using levin::c::require;

levin_status levin_predictor_open(const char* file, const char* const* plugins, size_t plugin_count,
                                  levin_predictor** predictor) {
  return guarded([&] {
    require(file, "file");
    require(predictor, "predictor");
    const std::vector<std::string> names = levin::c::texts_of(plugins, plugin_count, "plugins");
    *predictor = new levin_predictor{levin::Predictor::load(file, {.plugins = {names.begin(), names.end()}})};
  });
}

void levin_predictor_close(levin_predictor* predictor) { std::unique_ptr<levin_predictor>{predictor}.reset(); }

levin_status levin_predictor_predict(const levin_predictor* predictor, const levin_batch* batch, levin_batch** prediction) {
  return guarded([&] {
    require(predictor, "predictor");
    require(batch, "batch");
    require(prediction, "prediction");
    *prediction = new levin_batch{predictor->predictor.predict(batch->batch)};
  });
}

const char* levin_predictor_class_name(const levin_predictor* predictor, int64_t number) {
  if (predictor == nullptr) return nullptr;
  const std::vector<std::string>& names = predictor->predictor.facts().class_names;
  return number >= 0 && number < std::ssize(names) ? names[static_cast<size_t>(number)].c_str() : nullptr;
}
