// What a new user gets wrong, and what levin must say of it: the exit status, and what the message has to name. An entry is one
// mistake in a run that is otherwise right.
#include <catch2/catch.hpp>
#include <fstream>
#include <functional>

#include "acceptance/digits_run.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;

struct Mistake {
  std::string what;                    ///< in a person's words
  std::vector<std::string> arguments;  ///< after `levin`; {yaml} is the file with `yaml`, {folder} the folder that it is in
  std::string yaml;
  int status = 2;
  std::vector<std::string> named;  ///< all of which the messages hold
  std::vector<std::pair<std::string, std::string>> environment = {};
};

const std::string kDigits = LEVIN_SOURCE_DIR "/examples/digits/data/digits.csv";

/// A YAML file that would run, but for what stands under `trainer:`, `data: init_args:` and after both.
std::string run_yaml(const std::string& trainer, const std::string& data = "", const std::string& more = "") {
  return "plugins: [libdigits.so]\nmodel: Digits\ndata: {class_path: TableDataModule, init_args: {path: \"" + kDigits +
         "\", shape: [1, 8, 8]" + (data.empty() ? "" : ", " + data) + "}}\ntrainer: {accelerator: cpu, max_epochs: 1" +
         (trainer.empty() ? "" : ", " + trainer) + "}\n" + more;
}

Mistake in_trainer(const std::string& text, std::vector<std::string> named, int status = 2) {
  return {"trainer: " + text, {"fit", "--config", "{yaml}"}, run_yaml(text), status, std::move(named)};
}

Mistake in_data(const std::string& text, std::vector<std::string> named, int status = 2) {
  return {"data: " + text, {"fit", "--config", "{yaml}"}, run_yaml("", text), status, std::move(named)};
}

Mistake in_yaml(const std::string& text, std::vector<std::string> named, int status = 2) {
  return {"yaml: " + text, {"fit", "--config", "{yaml}"}, run_yaml("", "", text), status, std::move(named)};
}

Mistake whole_yaml(const std::string& what, const std::string& text, std::vector<std::string> named, int status = 2) {
  return {what, {"fit", "--config", "{yaml}"}, text, status, std::move(named)};
}

Mistake typed(const std::vector<std::string>& arguments, std::vector<std::string> named, int status = 2) {
  return {"typed", arguments, run_yaml(""), status, std::move(named)};
}

Mistake in_environment(const std::string& name, const std::string& text, std::vector<std::string> named) {
  return {"environment: " + name, {"fit", "--config", "{yaml}"}, run_yaml(""), 2, std::move(named), {{name, text}}};
}

/// A table of its own in place of the digits.
Mistake in_table(const std::string& what, const std::string& table, const std::string& options, std::vector<std::string> named,
                 int status = 2) {
  Mistake mistake = whole_yaml("table: " + what,
                               "plugins: [" LEVIN_BINARY_DIR
                               "/tests/plugins/libmistakes.so]\nmodel: Mistaken\ntrainer: {max_epochs: 1}\n"
                               "data: {class_path: TableDataModule, init_args: {path: table.csv, " +
                                   options + "}}\n",
                               std::move(named), status);
  mistake.arguments.push_back("table:" + table);
  return mistake;
}

/// In the code of a module: tests/acceptance/plugins/mistakes.cpp.
Mistake in_code(const std::string& mistake, std::vector<std::string> named, int status = 1) {
  return {"code: " + mistake,
          {"fit", "--config", "{yaml}", "--model.mistake=" + mistake},
          "plugins: [" LEVIN_BINARY_DIR
          "/tests/plugins/libmistakes.so]\nmodel: Mistaken\n"
          "trainer: {accelerator: cpu, max_epochs: 1, enable_progress_bar: false}\n",
          status,
          std::move(named)};
}

std::string filled(std::string text, const std::string& place, const std::string& value) {
  for (std::size_t at = text.find(place); at != std::string::npos; at = text.find(place, at + value.size()))
    text.replace(at, place.size(), value);
  return text;
}

Outcome outcome_of(const Mistake& mistake, const TemporaryFolder& folder) {
  std::ofstream(folder / "run.yaml", std::ios::binary) << mistake.yaml;
  std::vector<std::string> command = {loaded_levin_program()};
  for (std::string argument : mistake.arguments) {
    if (argument.starts_with("table:")) {
      std::ofstream(folder / "table.csv") << argument.substr(6);
      continue;
    }
    argument = filled(std::move(argument), "{folder}", folder.path().string());
    command.push_back(filled(std::move(argument), "{yaml}", "run.yaml"));
  }
  std::vector<std::pair<std::string, std::string>> environment = {{"OMP_NUM_THREADS", "1"}};
  environment.insert(environment.end(), mistake.environment.begin(), mistake.environment.end());
  return run({.arguments = std::move(command), .folder = folder.path(), .environment = std::move(environment), .copied = true});
}

/// A terminal shows all of it, and none of it looks like a bug of levin's.
void check_message(const Mistake& mistake, const Outcome& outcome) {
  const std::string text = outcome.out + outcome.err;
  for (const std::string& part : mistake.named) {
    INFO("expected: " << part);
    CHECK(text.find(part) != std::string::npos);
  }
  for (const char* unwanted : {"terminate called", "Exception raised from", "what():", "c10::Error"}) {
    INFO("unwanted: " << unwanted);
    CHECK(text.find(unwanted) == std::string::npos);
  }
}

void check_all(const std::vector<Mistake>& mistakes) {
  for (const Mistake& mistake : mistakes) {
    const TemporaryFolder folder;
    const Outcome outcome = outcome_of(mistake, folder);
    INFO(mistake.what << "\n" << mistake.yaml.substr(0, 500) << "\n" << outcome.text().substr(0, 4000));
    CHECK(outcome.status == mistake.status);
    check_message(mistake, outcome);
    // What never ran leaves nothing behind.
    if (mistake.status == 2) CHECK_FALSE(fs::exists(version_folder(folder.path())));
  }
}

TEST_CASE("mistakes on the command line") {
  check_all({
      typed({}, {"a command is needed"}),
      typed({"fitt"}, {"'fitt'", "did you mean 'fit'"}),
      typed({"fit", "{yaml}"}, {"'run.yaml'", "give it with --config"}),
      typed({"fit", "--config"}, {"--config", "needs a value"}),
      typed({"fit", "--config", "none.yaml"}, {"none.yaml"}),
      typed({"fit", "--config", "{folder}"}, {"folder"}),
      typed({"fit"}, {"there is no model"}),
      typed({"fit", "--config", "{yaml}", "--trianer.max_epochs=3"},
            {"--trianer.max_epochs=3", "did you mean '--trainer.max_epochs=3'"}),
      typed({"fit", "--config", "{yaml}", "--trainer.max_epoch=3"},
            {"command line: --trainer.max_epoch", "did you mean 'max_epochs'"}),
      typed({"fit", "--config", "{yaml}", "--trainer.max_epochs=abc"}, {"command line: --trainer.max_epochs", "string 'abc'"}),
      typed({"fit", "--config", "{yaml}", "--trainer.max_epochs"}, {"--trainer.max_epochs", "needs a value"}),
      typed({"fit", "--config", "{yaml}", "--model.lrr=1"}, {"command line: --model.lrr", "did you mean 'lr'"}),
      typed({"fit", "--config", "{yaml}", "--model=Digit"}, {"command line: --model", "'Digit'", "did you mean 'Digits'"}),
      typed({"fit", "test", "--config", "{yaml}"}, {"one command at a time", "'fit'", "'test'"}),
      typed({"fit", "--help", "EarlyStoping"}, {"did you mean 'EarlyStopping'"}),
      typed({"list", "calbacks"}, {"did you mean 'callbacks'"}),
      typed({"fit", "--config", "{yaml}", "--ckpt_path=none.ckpt"}, {"none.ckpt"}),
      typed({"test", "--config", "{yaml}", "--ckpt_path=best"}, {"ckpt_path", "best"}),
      typed({"test", "--config", "{yaml}", "--ckpt_path="}, {"ckpt_path"}),
      typed({"fit", "--config", "{yaml}", "--plugin", "libnone.so"}, {"--plugin", "libnone.so"}),
      typed({"fit", "--config", "{yaml}", "--trainer..max_epochs=1"}, {"empty part"}),
      typed({"fit", "--config", "{yaml}", "--print_confg"}, {"--print_confg", "did you mean '--print_config'"}),
      typed({"fit", "--config", "{yaml}", "--trainer.callbacks.3.patience=1"}, {"trainer.callbacks"}),
      typed({"new"}, {"name"}),
      typed({"new", "robot", "--template", "gans"}, {"'gans'", "did you mean 'gan'"}),
      typed({"new", "2fast"}, {"'2fast'"}),
      in_environment("LEVIN_TRAINER__MAX_EPOCH", "3", {"environment: LEVIN_TRAINER__MAX_EPOCH", "did you mean 'max_epochs'"}),
      in_environment("LEVIN_TRAINR__MAX_EPOCHS", "3", {"LEVIN_TRAINR__MAX_EPOCHS", "did you mean 'trainer'"}),
      in_environment("LEVIN_CONFIG", "none.yaml", {"none.yaml"}),
      {"environment: one underscore",
       {"fit", "--config", "{yaml}"},
       run_yaml("fast_dev_run: true"),
       0,
       {"LEVIN_TRAINER_MAX_STEPS is not used", "LEVIN_TRAINER__MAX_STEPS"},
       {{"LEVIN_TRAINER_MAX_STEPS", "3"}}},
      in_environment("RANK", "1", {"RANK", "WORLD_SIZE"}),
  });
}

TEST_CASE("mistakes in the YAML's form") {
  check_all({
      whole_yaml("an empty file", "", {"run.yaml", "empty"}),
      whole_yaml("a list", "- trainer\n", {"run.yaml:1:1", "list"}),
      whole_yaml("a tab", "trainer:\n\tmax_epochs: 3\n", {"run.yaml:2"}),
      whole_yaml("a brace that is left open", "trainer: {max_epochs: 3\n", {"run.yaml"}),
      whole_yaml("a key twice", "trainer: {max_epochs: 3, max_epochs: 4}\n", {"run.yaml:1:26", "max_epochs", "second time"}),
      whole_yaml("an alias without an anchor", "trainer: *none\n", {"run.yaml:1", "none"}),
      whole_yaml("two documents", "trainer: {}\n---\ntrainer: {}\n", {"more than one YAML document"}),
      whole_yaml("no UTF-8", "trainer: {max_epochs: \xff}\n", {"run.yaml:1:23"}),
      whole_yaml("a section that is misspelt", "trianer: {max_epochs: 3}\n", {"run.yaml:1:1", "did you mean 'trainer'"}),
      whole_yaml("a section as text", "trainer: fast\nmodel: Digits\nplugins: [libdigits.so]\n",
                 {"run.yaml:1:10", "map", "'fast'"}),
      whole_yaml("plugins as text", "plugins: libdigits.so\n", {"run.yaml:1:10", "list"}),
      whole_yaml("a plug-in that is missing", "plugins: [libnone.so]\nmodel: Digits\n", {"run.yaml:1:11", "libnone.so"}),
      whole_yaml("a plug-in that is no library", "plugins: [run.yaml]\nmodel: Digits\n", {"run.yaml:1:11"}),
      whole_yaml("forgotten plugins", "model: Digits\n", {"run.yaml:1:8", "'Digits'", "plugins:"}),
      whole_yaml("no model", "plugins: [libdigits.so]\n", {"there is no model", "Digits"}),
      in_yaml("include: none.yaml\n", {"run.yaml:5:10", "none.yaml"}),
      in_yaml("include: run.yaml\n", {"run.yaml", "includes itself"}),
      in_yaml("fit: {trianer: {}}\n", {"run.yaml:5:7", "did you mean 'trainer'"}),
      in_yaml("seed_everything: ${env:LEVIN_NO_SUCH_VARIABLE}\n", {"run.yaml:5:18", "LEVIN_NO_SUCH_VARIABLE", "is not set"}),
      in_yaml("seed_everything: ${trainer.max_epoch}\n", {"run.yaml:5:18", "did you mean 'max_epochs'"}),
      in_yaml("seed_everything: -1\n", {"run.yaml:5:18", "at least 0"}),
      in_yaml("seed_everything: yes please\n", {"run.yaml:5:18", "'yes please'"}),
      in_yaml("ckpt_path: none.ckpt\n", {"run.yaml:5:12", "none.ckpt"}),
      in_yaml("optimizer: AdamWW\n", {"run.yaml:5:12", "did you mean 'AdamW'"}),
      in_yaml("optimizer: {class_path: AdamW, init_args: {lrr: 1}}\n", {"run.yaml:5:44", "did you mean 'lr'"}),
      in_yaml("optimizer: {class_path: AdamW, lr: 1}\n", {"run.yaml:5:32", "init_args"}),
      in_yaml("optimizer: {class_path: AdamW, init_args: {lr: -1}}\n", {"run.yaml:5:48", "at least 0"}),
      in_yaml("optimizer: {class_path: AdamW, init_args: {betas: [0.9]}}\n", {"run.yaml:5:51", "betas"}),
      in_yaml("optimizer: {class_path: AdamW, no_decay: [bais]}\n", {"run.yaml:5:43", "did you mean 'bias'"}),
      in_yaml("optimizer: {class_path: AdamW, init_args: {no_decay: [bias]}}\n", {"run.yaml:5:44", "beside class_path"}),
      in_yaml("optimizer: {class_path: AdamW, groups: [{parameters: ['net(']}]}\n", {"run.yaml:5:55", "no regular expression"}),
      in_yaml("optimizer: {class_path: AdamW, groups: [{parameters: [bias], lrr: 1}]}\n",
              {"run.yaml:5:62", "did you mean 'lr'"}),
      in_yaml("lr_scheduler: StepLR\n", {"run.yaml:5:15", "step_size"}),
      in_yaml("lr_scheduler: {class_path: StepLR, init_args: {step_size: 1}}\n", {"optimizer"}),
      in_yaml("optimizer: SGD\nlr_scheduler: {class_path: StepLR, init_args: {step_size: 1}, interval: batch}\n",
              {"run.yaml:6:", "interval", "'batch'"}),
      in_yaml("optimizer: SGD\nlr_scheduler: ReduceLROnPlateau\n", {"monitor"}),
  });
}

TEST_CASE("mistakes in the Trainer's flags") {
  check_all({
      in_trainer("max_epoch: 1", {"run.yaml:4:44", "did you mean 'max_epochs'"}),
      in_trainer("max_steps: many", {"run.yaml:4:55", "int", "'many'"}),
      in_trainer("max_steps: -2", {"run.yaml:4:55", "at least -1"}),
      in_trainer("max_steps: 1.5", {"run.yaml:4:55", "1.5"}),
      in_trainer("min_epochs: 3", {"min_epochs is above max_epochs"}),
      in_trainer("accumulate_grad_batches: 0", {"accumulate_grad_batches", "at least 1"}),
      in_trainer("precision: 31", {"precision", "bf16-mixed"}),
      in_trainer("max_time: 30 minutes", {"max_time", "DD:HH:MM:SS"}),
      in_trainer("devices: 0", {"devices"}),
      in_trainer("devices: many", {"devices", "'many'"}),
      in_trainer("num_nodes: 0", {"num_nodes", "at least 1"}),
      in_trainer("threads: 0", {"threads", "at least 1"}),
      in_trainer("strategy: dpp", {"'dpp'", "did you mean 'ddp'"}),
      in_trainer("strategy: {class_path: ddp, init_args: {bucket_cap: 1}}", {"bucket_cap", "did you mean 'bucket_cap_mb'"}),
      in_trainer("limit_train_batches: 1.5", {"limit_train_batches"}),
      in_trainer("limit_val_batches: -1", {"limit_val_batches"}),
      in_trainer("val_check_interval: 1.5", {"val_check_interval"}),
      in_trainer("gradient_clip_val: -1", {"gradient_clip_val", "at least 0"}),
      in_trainer("gradient_clip_algorithm: sign", {"gradient_clip_algorithm", "norm", "value"}),
      in_trainer("fast_dev_run: -1", {"fast_dev_run"}),
      in_trainer("log_level: loud", {"log_level", "info"}),
      in_trainer("timeout_seconds: 0", {"timeout_seconds"}),
      in_trainer("callbacks: EarlyStoping", {"'EarlyStoping'", "did you mean 'EarlyStopping'"}),
      in_trainer("callbacks: [{class_path: EarlyStopping}]", {"EarlyStopping", "monitor"}),
      in_trainer("callbacks: [{class_path: EarlyStopping, init_args: {monitor: val_loss, mode: low}}]",
                 {"mode", "'min', 'max'"}),
      in_trainer("callbacks: [{class_path: EarlyStopping, init_args: {monitor: val_loss, patient: 3}}]",
                 {"did you mean 'patience'"}),
      in_trainer("callbacks: [CSVLogger]", {"'CSVLogger'"}),
      in_trainer("callbacks: [null]", {"callbacks"}),
      in_trainer("callbacks: [{class_path: ModelCheckpoint, init_args: {save_top_k: 3}}]", {"monitor"}),
      in_trainer("callbacks: [{class_path: ModelCheckpoint, init_args: {filename: ../../x}}]", {"filename"}),
      in_trainer("callbacks: [ModelCheckpoint], enable_checkpointing: false", {"enable_checkpointing", "ModelCheckpoint"}),
      in_trainer("callbacks: [{class_path: Timer, init_args: {duration: yesterday}}]", {"duration", "'yesterday'"}),
      in_trainer("logger: 5", {"logger"}),
      in_trainer("logger: TensorBoardLogger", {"'TensorBoardLogger'", "CSVLogger"}),
      in_trainer("callbacks: [{class_path: EarlyStopping, init_args: {monitor: val_los}}]", {"'val_los'", "val_loss"}, 1),
      in_trainer("callbacks: [{class_path: ModelCheckpoint, init_args: {monitor: val_los}}]", {"'val_los'", "val_loss"}, 1),
  });
}

TEST_CASE("mistakes in data") {
  check_all({
      in_data("batch_size: 0", {"batch_size", "at least 1"}),
      in_data("num_workers: -1", {"num_workers", "at least 0"}),
      in_data("val_fraction: 1.5", {"val_fraction"}),
      in_data("batch_sise: 3", {"did you mean 'batch_size'"}),
      in_data("label_column: nosuch", {"label_column", "nosuch"}),
      in_data("task: clustering", {"task", "'classification', 'regression'"}),
      in_data("sampler: RandomSampelr", {"'RandomSampelr'"}),
      in_data("test_path: none.csv", {"none.csv"}),
      in_table("ragged", "a,b,c\n1,2,3\n1,2\n", "batch_size: 1", {"table.csv:3"}, 1),
      in_table("empty", "", "batch_size: 1", {"table.csv", "no data"}),
      in_table("a header alone", "a,b,c\n", "batch_size: 1", {"table.csv", "no data"}),
      in_table("a word among numbers", "a,b,c\n1,2,3\n1,x,3\n", "batch_size: 1", {"table.csv:3", "'x'"}, 1),
      in_table("fractions as classes", "1,0.5\n2,0.7\n", "batch_size: 1", {"no whole number", "regression"}),
      in_table("a shape that does not fit", "1,2,3,0\n4,5,6,1\n", "shape: [2, 2]", {"shape"}),
  });
}

TEST_CASE("mistakes in a module's code") {
  check_all({
      in_code("no_training_step", {"training_step"}),
      in_code("vector_loss", {"(train, epoch 0, step 0)", "one number", "[4]"}),
      in_code("detached_loss", {"loss", "gradient"}),
      in_code("integer_loss", {"loss"}),
      in_code("unknown_key", {"batch[\"labels\"]", "\"features\""}),
      in_code("wrong_shape", {"training_step (train, epoch 0, step 0)", "mat1 and mat2"}),
      whole_yaml("a shape that is left out",
                 "plugins: [libdigits.so]\nmodel: Digits\ntrainer: {accelerator: cpu, max_epochs: 1, num_sanity_val_steps: 0}\n"
                 "data: {class_path: TableDataModule, init_args: {path: " +
                     kDigits + "}}\n",
                 {"training_step (train, epoch 0, step 0)", "`shape` gives a sample's"}, 1),
      in_code("wrong_type", {"training_step (train, epoch 0, step 0)", "Long"}),
      in_code("class_out_of_range", {"training_step (train, epoch 0, step 0)", "count from 1?\n"}),
      in_code("in_place", {"inplace"}),
      in_code("backward_twice", {"a second time"}),
      in_code("log_vector", {"log(\"train_loss\")", "one element"}),
      in_code("log_without_name", {"name"}),
      in_code("log_in_constructor", {"log"}),
      in_code("log_in_setup", {"log", "setup"}),
      in_code("throw", {"training_step (train, epoch 0, step 0)", "the sample is damaged"}),
      in_code("throw_in_setup", {"setup", "no such sensor"}),
      in_code("throw_a_number", {"training_step (train, epoch 0, step 0)"}),
      in_code("throw_in_dataset", {"the sample is damaged", "batch 0"}),
      in_code("crash", {"training_step", "SIGSEGV"}, 139),
      in_code("exit", {"exit(0) was called in training_step (train, epoch 0, step 0)", "not done"}),
      in_code("unregistered_layer", {"depends on 2 weights", "[1, 4], [1]", "register_module()"}, 0),
      in_code("short_batches", {"a batch of 3 rows for 4 samples"}, 0),
      in_code("broadcast_loss", {"differ in shape", "[16, 1] and [16]"}, 0),
      in_code("empty_dataset", {"training loader gives no batch"}),
      in_code("negative_size", {"size"}),
      in_code("uneven_samples", {"sample"}),
      in_code("step_without_backward", {"manual_backward(loss)"}, 0),
      in_code("no_optimizer_step", {"step_optimizer"}, 0),
      in_code("no_parameters", {"parameter"}, 0),
      in_code("forgotten_parameters", {"forgotten"}, 0),
      in_code("nan_loss", {"nan", "training_step"}, 0),
      in_code("train_only_with_validation", {"validation_step"}, 0),
  });
}

}  // namespace
}  // namespace levin::test
