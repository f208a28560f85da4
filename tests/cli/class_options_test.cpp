#include <catch2/catch.hpp>
#include <fstream>
#include <string>
#include <vector>

#include "levin/cli/load_config.h"
#include "support/temporary_folder.h"

namespace {

/// What is wrong with a YAML text, without the name of its folder; "" when nothing is.
std::string error_of(const std::string& yaml) {
  const levin::test::TemporaryFolder folder;
  std::ofstream(folder / "table.csv") << "1\n";
  std::ofstream(folder / "run.yaml") << yaml;
  levin::cli::CommandLine line;
  line.sources.push_back(levin::cli::ConfigFile{(folder / "run.yaml").string()});
  try {
    levin::cli::load_config(line);
  } catch (const levin::ConfigError& error) {
    const std::string text = error.what();
    const std::string prefix = folder.path().string() + "/";
    return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
  }
  return "";
}

struct Wrong {
  std::string yaml;
  std::string error;
};

void check_all(const std::string& before, const std::vector<Wrong>& table, const std::string& after) {
  for (const Wrong& wrong : table) {
    CAPTURE(wrong.yaml);
    CHECK(error_of(before + wrong.yaml + after) == wrong.error);
  }
}

/// `{CLASS: {arguments}}` in each row becomes a class with its init_args.
void check_class(const std::string& before, const std::string& name, const std::vector<Wrong>& table,
                 const std::string& after = "}\n") {
  check_all(before + "\n  class_path: " + name + "\n  init_args: {", table, after);
}

}  // namespace

TEST_CASE("wrong flags of the Trainer are errors at their place before anything is launched") {
  check_all("trainer:\n  ",
            {{"accumulate_grad_batches: 0", "run.yaml:2:28: trainer: accumulate_grad_batches: must be at least 1, got int 0"},
             {"uneven: padd",
              "run.yaml:2:11: trainer: uneven: must be one of 'pad', 'drop', 'keep', got string 'padd'; did you mean 'pad'?"},
             {"precision: 16",
              "run.yaml:2:14: trainer: precision: must be one of '32-true', '32', '64-true', '64', 'bf16-mixed', '16-mixed', "
              "'bf16-true', got int 16"},
             {"max_time: 2 hours",
              "run.yaml:2:13: trainer: max_time: got string '2 hours', which is no duration. Write days, hours, minutes and "
              "seconds: DD:HH:MM:SS."},
             {"{min_epochs: 5, max_epochs: 2}", "run.yaml:2:16: trainer: min_epochs is above max_epochs"},
             {"{max_steps: 2, min_steps: 5}", "run.yaml:2:29: trainer: min_steps is above max_steps"},
             {"strategy: null", "run.yaml:2:13: trainer: there is no strategy; it is auto, single_device or ddp"},
             {"{barebones: true, enable_model_summary: true}",
              "run.yaml:2:43: trainer: barebones: true leaves no place for enable_model_summary"},
             {"{barebones: true, logger: CSVLogger}", "run.yaml:2:29: trainer: barebones: true leaves no place for logger"},
             {"{check_val_every_n_epoch: null, val_check_interval: 0.5}",
              "run.yaml:2:55: trainer: check_val_every_n_epoch: null counts training batches across epochs, so "
              "val_check_interval must be a number of batches (an int), not a share of an epoch"},
             {"{enable_progress_bar: false, callbacks: [ProgressBar]}",
              "run.yaml:2:25: trainer: enable_progress_bar is false, but callbacks hold a ProgressBar; remove one of the two"},
             {"{enable_checkpointing: false, callbacks: [pytorch.ModelCheckpoint]}",
              "run.yaml:2:26: trainer: enable_checkpointing is false, but callbacks hold ModelCheckpoint; remove one of the "
              "two"},
             {"{enable_checkpointing: false, barebones: true, callbacks: [ModelCheckpoint]}", ""},
             {"{min_epochs: 5, max_epochs: -1}", ""},
             {"{min_epochs: 5, max_epochs: 5, precision: 64, max_time: '00:00:00:01'}", ""}},
            "\n");
}

TEST_CASE("wrong arguments of a callback are errors at their place") {
  const auto check = [](const std::string& name, const std::vector<Wrong>& table) {
    check_all("trainer:\n  callbacks:\n  - class_path: " + name + "\n    init_args: {", table, "}\n");
  };
  const std::string at = "run.yaml:4:";
  const std::string where = ": trainer: callbacks: ";
  check("EarlyStopping",
        {{"monitor: m, patience: -1", at + "39" + where + "patience: must be at least 0, got int -1"},
         {"monitor: ''", at + "26" + where + "monitor: is an empty string"},
         {"monitor: m, mode: low", at + "35" + where + "mode: must be one of 'min', 'max', got string 'low'"},
         {"monitor: m, stopping_threshold: 0.5, divergence_threshold: 0.1",
          at + "49" + where + "divergence_threshold is better than stopping_threshold: every value would stop the training"},
         {"monitor: m, mode: max, stopping_threshold: 0.5, divergence_threshold: 0.1", ""},
         {"monitor: m, stopping_threshold: 0.1, divergence_threshold: 0.5", ""}});
  check("ModelCheckpoint",
        {{"save_top_k: -2", at + "29" + where + "save_top_k: must be at least -1, got int -2"},
         {"save_top_k: 2", at + "29" + where +
                               "without a monitor nothing says which checkpoints are best: set 'monitor', or save_top_k to "
                               "-1, 0 or 1"},
         {"every_n_epochs: 1, every_n_train_steps: 5",
          at + "57" + where +
              "every_n_train_steps, every_n_epochs and train_time_interval exclude each other; use one callback for each"},
         {"train_time_interval: 10 minutes", at + "38" + where +
                                                 "train_time_interval: got string '10 minutes', which is no duration. Write "
                                                 "days, hours, minutes and seconds: DD:HH:MM:SS."},
         {"filename: ../x",
          at + "27" + where +
              "filename is '../x', which leads out of the folder for checkpoints: say with dirpath where to save, or give an "
              "absolute dirpath that the name starts from"},
         {"filename: '{epoch'",
          at + "27" + where + "Checkpoint file name '{epoch': a '{' has no '}'. Write fields like {val_loss:.2f}."},
         {"monitor: ''", at + "26" + where + "monitor: is an empty string"},
         {"every_n_epochs: 0, every_n_train_steps: 5", ""},
         {"filename: ../x, dirpath: /tmp", ""}});
  check("Timer", {{"interval: batch", at + "27" + where + "interval: must be one of 'step', 'epoch', got string 'batch'"}});
  check("LearningRateMonitor", {{"logging_interval: batch", at + "35" + where +
                                                                "logging_interval: must be one of 'step', 'epoch', got string "
                                                                "'batch'"}});
  check("GradientSyncCheck",
        {{"every_n_steps: 0", at + "32" + where + "every_n_steps: must be at least 1, got int 0"},
         {"on_difference: fix", at + "32" + where + "on_difference: must be one of 'warn', 'error', got string 'fix'"}});
  check("OnExceptionCheckpoint",
        {{"dirpath: ''", at + "26" + where + "dirpath: is an empty string"},
         {"dirpath: a, filename: ../b",
          at + "39" + where + "filename is '../b', which leads out of dirpath: say with dirpath where to save"}});
  check("GradientAccumulationScheduler",
        {{"scheduling: {}", at + "29" + where + "scheduling: is an empty map"},
         {"scheduling: {0: 0}", at + "33" + where + "scheduling: epoch 0 accumulates 0 batches; 1 is the least"},
         {"scheduling: {-1: 2}", at + "34" + where + "scheduling: epoch -1 is below 0; epochs count from 0"}});
  check("ModelSummary", {{"max_depth: -2", at + "28" + where + "max_depth: must be at least -1, got int -2"}});
  check("ProgressBar", {{"refresh_rate: -1", at + "31" + where + "refresh_rate: must be at least 0, got int -1"}});
}

TEST_CASE("an accelerator that nobody has registered is an error at its place") {
  check_all("trainer:\n  accelerator: ",
            {{"cudaa", "run.yaml:2:16: trainer: accelerator: unknown accelerator class 'cudaa'; did you mean 'cuda'?"},
             {"null", "run.yaml:2:16: trainer: there is no accelerator; it is auto, cpu or cuda"},
             {"{class_path: cpu, init_args: {index: 1}}",
              "run.yaml:2:46: trainer: accelerator: unknown key 'index'; there are no keys"},
             {"gpu", ""}},
            "\n");
}

TEST_CASE("wrong arguments of loggers, strategies, data, optimizers and schedulers are errors at their place") {
  check_all("trainer:\n  logger:\n    class_path: CSVLogger\n    init_args: {",
            {{"version: -1",
              "run.yaml:4:26: trainer: logger: version is the number of a run (from 0 on), or the name of its "
              "folder"},
             {"name: ../a",
              "run.yaml:4:23: trainer: logger: name is '../a', which leads out of save_dir: say with save_dir where to write"},
             {"every_n_steps: 0", "run.yaml:4:32: trainer: logger: every_n_steps: must be at least 1, got int 0"}},
            "}\n");
  check_all("trainer:\n  strategy:\n    class_path: ddp\n    init_args: {",
            {{"comm_hook: fp8",
              "run.yaml:4:28: trainer: strategy: comm_hook: must be one of 'none', 'fp16_compress', 'bf16_compress', "
              "'power_sgd', got string 'fp8'"},
             {"comm_hook: power_sgd, matrix_approximation_rank: 0",
              "run.yaml:4:66: trainer: strategy: matrix_approximation_rank: must be at least 1, got int 0"},
             {"comm_hook: power_sgd, min_compression_rate: 0",
              "run.yaml:4:61: trainer: strategy: min_compression_rate: must be above 0, got int 0"},
             {"static_graph: true, find_unused_parameters: true",
              "run.yaml:4:31: trainer: strategy: static_graph finds unused parameters once and find_unused_parameters at each "
              "step; set one of them"},
             {"control_group: pigeon",
              "run.yaml:4:32: trainer: strategy: control_group: must be one of 'auto', 'shared_memory', 'gloo', got string "
              "'pigeon'"},
             {"timeout: 0", "run.yaml:4:26: trainer: strategy: timeout: must be at least 0.1, got int 0"}},
            "}\n");
  check_class("data:", "TableDataModule",
              {{"path: table.csv, delimiter: ab", "run.yaml:3:43: data: delimiter must be one character"},
               {"path: table.csv, test_label_path: table.csv", "run.yaml:3:49: data: test_label_path needs test_path"},
               {"path: table.csv, task: guess",
                "run.yaml:3:38: data: task: must be one of 'classification', 'regression', got "
                "string 'guess'"},
               {"path: table.csv, val_fraction: 0.5, test_fraction: 0.5",
                "run.yaml:3:46: data: val_fraction and test_fraction leave nothing to train on"}});
  check_class("optimizer:", "SGD",
              {{"nesterov: true", "run.yaml:3:25: optimizer: nesterov needs a momentum above 0 and a dampening of 0"},
               {"lr: -1.0", "run.yaml:3:19: optimizer: lr: must be at least 0, got float -1.0"},
               {"nesterov: true, momentum: 0.9", ""}});
  check_class("lr_scheduler:", "LinearLR",
              {{"start_factor: 0", "run.yaml:3:29: lr_scheduler: start_factor: must be above 0 and at most 1, got int 0"}});
  check_class("lr_scheduler:", "ReduceLROnPlateau",
              {{"factor: 1", "run.yaml:3:23: lr_scheduler: factor: must be below 1, got int 1"}});
  check_class(
      "lr_scheduler:", "OneCycleLR",
      {{"max_lr: 0.1, epochs: 3",
        "run.yaml:3:36: lr_scheduler: the length of the cycle is not known: epochs and steps_per_epoch go together; or give "
        "total_steps"},
       {"max_lr: 0.1, total_steps: 5, div_factor: 0", "run.yaml:3:56: lr_scheduler: div_factor: must be above 0, got int 0"}});
  check_class("lr_scheduler:", "SequentialLR",
              {{"schedulers: [{class_path: StepLR, init_args: {step_size: 1}}], milestones: [3]",
                "run.yaml:3:90: lr_scheduler: there must be one scheduler more than milestones, but there are 1 schedulers and "
                "1 milestones"}});
  check_class("optimizer: SGD\nlr_scheduler:", "OneCycleLR", {{"max_lr: 0.1", ""}, {"max_lr: 0.1, total_steps: null", ""}});
  check_class("optimizer: SGD\nlr_scheduler:", "CosineAnnealingLR",
              {{"eta_min: 0.1", ""}, {"T_max: 0", "run.yaml:4:22: lr_scheduler: T_max: must be at least 1, got int 0"}});
  check_all("lr_scheduler: {class_path: StepLR, init_args: {step_size: 1}, ",
            {{"interval: batch", "run.yaml:1:73: lr_scheduler: interval: must be one of 'step', 'epoch', got string 'batch'"}},
            "}\n");
}

TEST_CASE("parameter groups stand beside class_path, and are checked with the options of the class") {
  check_all(
      "optimizer:\n  class_path: AdamW\n  ",
      {{"no_decay: [bias, norm]", ""},
       {"groups: [{parameters: [bias], weight_decay: 0}, {parameters: ['^head\\.'], lr: 0.01}]", ""},
       {"groups: [{parameters: [bias], lr: -1.0}]", "run.yaml:3:37: optimizer: groups: lr: must be at least 0, got float -1.0"},
       {"groups: [{parameters: [bias], lrr: 1.0}]", "run.yaml:3:33: optimizer: groups: unknown key 'lrr'; did you mean 'lr'?"},
       {"groups: [{lr: 1.0}]",
        "run.yaml:3:12: optimizer: groups: missing key 'parameters' (which parameters the group is of: [bias, norm])"},
       {"groups: [{parameters: []}]", "run.yaml:3:25: optimizer: groups: parameters: is an empty list"},
       {"no_decay: bias",
        "run.yaml:3:13: optimizer: no_decay: expected list of string, got string 'bias'; write it in brackets: [a, b]"},
       {"init_args: {no_decay: [bias]}",
        "run.yaml:3:15: optimizer: no_decay goes beside class_path and init_args, not into init_args"}},
      "\n");
  CHECK_THAT(error_of("optimizer:\n  class_path: AdamW\n  no_decay: ['head(']\n"),
             Catch::StartsWith("run.yaml:3:14: optimizer: no_decay: 'head(' is no regular expression"));
  CHECK(error_of("optimizer:\n  class_path: LBFGS\n  no_decay: [bias]\n") ==
        "run.yaml:3:14: optimizer: no_decay: LBFGS has no weight_decay");
}
