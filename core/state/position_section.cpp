#include "levin/core/state/position_section.h"

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/state/checkpoint_values.h"
#include "levin/core/state/trainer_state.h"

namespace levin {

namespace {

Value to_value(const Iteration& iteration) {
  return Value::Map{{"iteration", iteration.index},
                    {"ends_window", iteration.ends_window},
                    {"is_last", iteration.is_last},
                    {"end_epoch", iteration.end_epoch},
                    {"is_finished", iteration.is_finished},
                    {"row_is_left", iteration.row_is_left},
                    {"validation_is_left", iteration.validation_is_left}};
}

ResumePoint resume_point(const Value& loops) {
  ResumePoint resume;
  resume.resumes = true;
  const std::string& name = loops.at("place").as_string();
  const auto place = choice_of<Place>(name);
  if (!place)
    throw ConfigError(format("ckpt_path: the checkpoint says that its run was at '{}', which is no such point.", name));
  resume.place = *place;
  resume.batches_done = saved_count(loops, "batches_done");
  const Value& iteration = loops.at("iteration");
  resume.iteration = {.index = saved_count(iteration, "iteration"),
                      .ends_window = iteration.at("ends_window").as_bool(),
                      .is_last = iteration.at("is_last").as_bool(),
                      .end_epoch = iteration.at("end_epoch").as_bool(),
                      .is_finished = iteration.at("is_finished").as_bool(),
                      .row_is_left = iteration.at("row_is_left").as_bool(),
                      .validation_is_left = iteration.at("validation_is_left").as_bool()};
  resume.completed = loops.at("completed").as_bool();
  resume.data = {.samples = optional_count(loops, "samples_done"),
                 .world_size = saved_count(loops, "world_size"),
                 .batch_size = saved_count(loops, "batch_size"),
                 .description = loops.contains("training_data") ? loops.at("training_data").as_string() : ""};
  return resume;
}

}  // namespace

void PositionSection::save(TrainerState& run, Checkpoint& checkpoint) {
  const LoopPosition& position = run.resume.position;
  const Progress& progress = run.progress;
  const bool uncounted = position.step_is_taken && progress.batch.in_work;
  Value& manifest = checkpoint.manifest;
  // After its end an epoch counts as done, even if a resumed run is still in it.
  manifest["epoch"] = position.place == Place::kStopped ? position.epochs_done : progress.epoch;
  manifest["global_step"] = progress.global_step;
  manifest["loops"] = Value::Map{{"place", choice_name(position.place)},
                                 {"epochs_done", position.epochs_done},
                                 {"loaders_epoch", progress.loaders_epoch},
                                 {"batches_done", position.batches_done},
                                 {"total_batches_done", progress.total_batch_idx + (uncounted ? 1 : 0)},
                                 {"logging_step", progress.logging_step},
                                 {"iteration", to_value(position.iteration)},
                                 {"completed", position.completed},
                                 {"world_size", run.world_size()},
                                 {"batch_size", run.accumulation.full_batch_size},
                                 {"training_data", progress.training_data},
                                 {"samples_done", position.samples_done ? Value(*position.samples_done) : Value()}};
  manifest["data_seed"] = run.setup.data_seed;
  if (run.setup.batch_size) manifest["found_batch_size"] = *run.setup.batch_size;
}

void PositionSection::load(TrainerState& run, const Checkpoint& checkpoint) {
  const Value& loops = checkpoint.manifest.at("loops");
  loaded_ = resume_point(loops);
  Progress& progress = run.progress;
  progress.epoch = saved_count(loops, "epochs_done");
  // Lightning's files have no loaders_epoch.
  progress.loaders_epoch = loops.contains("loaders_epoch") ? saved_count(loops, "loaders_epoch") : 0;
  progress.global_step = saved_count(checkpoint.manifest, "global_step");
  progress.logging_step = saved_count(loops, "logging_step");
  progress.total_batch_idx = saved_count(loops, "total_batches_done");
  run.resume.resumed_step = progress.global_step;
  run.resume.position.epochs_done = progress.epoch;
}

}  // namespace levin
