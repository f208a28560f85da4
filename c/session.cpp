#include "levin/core/session.h"

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "levin/c/batch.h"
#include "levin/c/status.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/trainer.h"

struct levin_session {
  levin::Session session;
  std::string log_dir = {};
  std::vector<const char*> metric_names = {};
};

namespace levin::c {

namespace {

/// Calls a function of the C interface for a session.
template <class Call>
levin_status with(levin_session* session, const Call& call) {
  return guarded([&] {
    require(session, "session");
    call(session->session);
  });
}

/// What a call that cannot report an error gives; `otherwise` without a session.
template <class Number, class Call>
auto number_of(levin_session* session, Number otherwise, const Call& call) {
  auto number = static_cast<decltype(call(session->session))>(otherwise);
  guarded([&] {
    if (session != nullptr) number = call(session->session);
  });
  return number;
}

template <class Open>
levin_status opened(const char* source, const char* name, const char* const* overrides, size_t override_count,
                    levin_session** session, const Open& open) {
  return guarded([&] {
    require(source, name);
    require(session, "session");
    *session = new levin_session{open(source, texts_of(overrides, override_count, "overrides"))};
  });
}

LoaderList loaders_of(const levin_batch* const* batches, size_t count) {
  if (count == 0) return {};
  require(batches, "batches");
  std::vector<Batch> all;
  for (size_t index = 0; index < count; ++index) {
    require(batches[index], "batches[i]");
    all.push_back(batches[index]->batch);
  }
  return all;
}

void give(bool value, int32_t* result) {
  if (result != nullptr) *result = value ? 1 : 0;
}

}  // namespace

}  // namespace levin::c

using levin::c::guarded;
using levin::c::require;
using levin::c::with;

levin_status levin_session_open(const char* file, const char* const* overrides, size_t override_count,
                                levin_session** session) {
  return levin::c::opened(file, "file", overrides, override_count, session,
                          [](const char* path, const auto& texts) { return levin::Session::from_yaml(path, texts); });
}

levin_status levin_session_open_text(const char* yaml, const char* const* overrides, size_t override_count,
                                     levin_session** session) {
  return levin::c::opened(yaml, "yaml", overrides, override_count, session,
                          [](const char* text, const auto& texts) { return levin::Session::from_yaml_text(text, texts); });
}

void levin_session_close(levin_session* session) { std::unique_ptr<levin_session>{session}.reset(); }

levin_status levin_session_keep(levin_session* session, const char* name, void* data, levin_dtype dtype, int32_t dimensions,
                                const int64_t* shape, const int64_t* strides) {
  return with(session, [&](levin::Session& own) {
    require(name, "name");
    const at::Tensor memory = levin::c::tensor_of(data, dtype, dimensions, shape, strides);
    const std::string key = name;
    own.keep(key, {.save =
                       [memory] {
                         return levin::KeptState{.values = {}, .tensors = {{"memory", memory}}};
                       },
                   .load =
                       [memory, key](const levin::KeptState& kept) {
                         const at::Tensor& saved = kept.tensors.at("memory");
                         levin::c::require_shape(memory, saved, key.c_str());
                         memory.copy_(saved);
                       }});
  });
}

levin_status levin_session_begin(levin_session* session, const char* ckpt_path) {
  return with(session, [&](levin::Session& own) {
    own.begin(ckpt_path == nullptr ? std::nullopt : std::optional<std::string>(ckpt_path));
  });
}

levin_status levin_session_step(levin_session* session, const levin_batch* batch, levin_step_result* result) {
  return with(session, [&](levin::Session& own) {
    require(batch, "batch");
    const levin::StepResult step = own.step(batch->batch);
    if (result == nullptr) return;
    *result = {.loss = step.output.loss.defined() ? step.output.loss.item<double>() : std::numeric_limits<double>::quiet_NaN(),
               .ends_epoch = step.ends_epoch ? 1 : 0,
               .stops = step.stops ? 1 : 0};
  });
}

levin_status levin_session_begin_epoch(levin_session* session, int32_t* stops) {
  return with(session, [&](levin::Session& own) { levin::c::give(own.begin_epoch(), stops); });
}

levin_status levin_session_end_epoch(levin_session* session, int32_t* stops) {
  return with(session, [&](levin::Session& own) { levin::c::give(own.end_epoch(), stops); });
}

levin_status levin_session_validate(levin_session* session, const levin_batch* const* batches, size_t count) {
  return with(session, [&](levin::Session& own) { own.validate(levin::c::loaders_of(batches, count)); });
}

levin_status levin_session_test(levin_session* session, const levin_batch* const* batches, size_t count) {
  return with(session, [&](levin::Session& own) { own.test(levin::c::loaders_of(batches, count)); });
}

levin_status levin_session_predict(levin_session* session, const levin_batch* batch, levin_batch** prediction) {
  return with(session, [&](levin::Session& own) {
    require(batch, "batch");
    require(prediction, "prediction");
    *prediction = new levin_batch{own.predict(batch->batch)};
  });
}

levin_status levin_session_save(levin_session* session, const char* file) {
  return with(session, [&](levin::Session& own) {
    require(file, "file");
    own.save(file);
  });
}

levin_status levin_session_load(levin_session* session, const char* file) {
  return with(session, [&](levin::Session& own) {
    require(file, "file");
    own.load(file);
  });
}

levin_status levin_session_end(levin_session* session) {
  return with(session, [](levin::Session& own) { own.end(); });
}

levin_status levin_session_stop(levin_session* session, const char* reason) {
  return with(session, [&](levin::Session& own) { own.stop(reason == nullptr ? "" : reason); });
}

levin_status levin_session_metric(levin_session* session, const char* name, double* value) {
  return with(session, [&](levin::Session& own) {
    require(name, "name");
    require(value, "value");
    const levin::MetricMap& metrics = own.callback_metrics();
    const auto found = metrics.find(name);
    if (found == metrics.end()) {
      throw levin::MisuseError(
          levin::format("there is no metric '{}'; the module has logged {}", name,
                        metrics.empty() ? "none" : levin::join(metrics, ", ", &levin::MetricMap::value_type::first)));
    }
    *value = found->second;
  });
}

levin_status levin_session_metric_names(levin_session* session, const char* const** names, size_t* count) {
  return guarded([&] {
    require(session, "session");
    require(names, "names");
    require(count, "count");
    session->metric_names.clear();
    for (const auto& [name, value] : session->session.callback_metrics()) session->metric_names.push_back(name.c_str());
    *names = session->metric_names.data();
    *count = session->metric_names.size();
  });
}

int64_t levin_session_global_step(levin_session* session) {
  return levin::c::number_of(session, 0, [](levin::Session& own) { return own.global_step(); });
}

int64_t levin_session_epoch(levin_session* session) {
  return levin::c::number_of(session, 0, [](levin::Session& own) { return own.trainer().current_epoch(); });
}

int32_t levin_session_should_stop(levin_session* session) {
  return levin::c::number_of(session, 0, [](levin::Session& own) { return own.should_stop() ? 1 : 0; });
}

int32_t levin_session_rank(levin_session* session) {
  return levin::c::number_of(session, 0, [](levin::Session& own) { return own.trainer().rank(); });
}

int32_t levin_session_world_size(levin_session* session) {
  return levin::c::number_of(session, 1, [](levin::Session& own) { return own.trainer().world_size(); });
}

levin_status levin_session_log_dir(levin_session* session, const char** folder) {
  return with(session, [&](levin::Session& own) {
    require(folder, "folder");
    session->log_dir = own.trainer().log_dir().string();
    *folder = session->log_dir.c_str();
  });
}
