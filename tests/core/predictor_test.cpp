#include <levin/levin.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <future>

#include "support/error_of.h"
#include "support/fixed_loader.h"
#include "support/shown_messages.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

/// Rows of a table with two measures, a category as text and one as number, a column to ignore, and the two kinds of labels.
std::string table_text() {
  std::string text = "weight,id,color,grade,height,kind,price\n";
  const std::vector<std::string> colors = {"red", "green", "blue"}, kinds = {"cat", "dog"};
  for (int row = 0; row < 60; ++row) {
    const double weight = 3.7 + 0.37 * (row % 11), height = 170.5 - 1.3 * (row % 7);
    text += c10::str(weight, ",", row, ",", colors[row % 3], ",", row % 4 * 10, ",", height, ",", kinds[row % 5 == 0], ",",
                     1000 + 250 * weight - height, "\n");
  }
  return text;
}

/// The same rows as records, and as a tensor with a column for each that is not ignored.
std::vector<Value> records_of_rows() {
  std::vector<Value> all;
  const std::vector<std::string> colors = {"red", "green", "blue"};
  for (int row = 0; row < 60; ++row) {
    const auto number = [](double value) { return std::stod(c10::str(value)); };  // as the file has it
    all.emplace_back(Value::Map{{"height", number(170.5 - 1.3 * (row % 7))},
                                {"color", colors[static_cast<std::size_t>(row % 3)]},
                                {"grade", row % 4 * 10},
                                {"weight", number(3.7 + 0.37 * (row % 11))},
                                {"unknown to the data", 1}});
  }
  return all;
}

TableDataOptions labelled(const TemporaryFolder& folder, const std::string& label) {
  std::ofstream(folder / "table.csv") << table_text();
  TableDataOptions options{.path = folder / "table.csv",
                           .predict_path = folder / "table.csv",
                           .label_column = label,
                           .ignore_columns = {"id", label == "kind" ? "price" : "kind"},
                           .one_hot_columns = {"color"},
                           .code_columns = {"grade"},
                           .scale = 0.5,
                           .standardize = true,
                           .batch_size = 60};
  if (label == "price") {
    options.task = TableTask::kRegression;
    options.standardize_labels = true;
  }
  return options;
}

/// Predicts with the scale of its data.
struct Priced final : Module {
  struct Options {
    std::int64_t inputs = 6;
    static void declare(OptionList<Options>& options) { options.add("inputs", &Options::inputs, "Numbers of a sample"); }
  };
  explicit Priced(const Options& options) : net(register_module("net", torch::nn::Linear(options.inputs, 1))) {
    save_hyperparameters(options);
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    return torch::mse_loss(net(batch["features"]).squeeze(1), batch["label"]);
  }
  Batch on_after_batch_transfer(Batch batch, std::int64_t) override {
    batch.set("features", batch["features"] + 0.25);
    return batch;
  }
  Batch predict_step(const Batch& batch, std::int64_t) override {
    const auto [mean, deviation] = label_scale_of(data_module());
    return {{"price", net(batch["features"]).squeeze(1) * deviation + mean}, {"is training", torch::tensor(is_training())}};
  }
  OptimizerSetups configure_optimizers() override { return SGD(parameters(), 0.1); }
  torch::nn::Linear net;
};
LEVIN_REGISTER_MODULE(Priced);

struct Unregistered final : Module {
  Unregistered() : weight(register_parameter("weight", torch::ones({1}))) {}
  Batch predict_step(const Batch& batch, std::int64_t) override { return weight * batch[0] * trainer().world_size(); }
  at::Tensor weight;
};

struct Identity final : Module {
  Identity() : net(register_module("net", torch::nn::Linear(1, 1))) {}
  Batch predict_step(const Batch& batch, std::int64_t) override { return batch; }
  torch::nn::Linear net;
};

/// Trains, saves, and predicts all rows as `levin predict` does.
struct Trained {
  Trained(Module& module, const TableDataOptions& options, TrainerOptions given, bool weights_only = false) {
    seed_everything(3);
    given.max_epochs = 3;
    given.threads = 1;
    given.quiet = true;
    const PrecisionFormat precision = given.precision;
    TableDataModule data(options);
    Trainer trainer(std::move(given));
    trainer.fit(module, data);
    file = folder / "trained.ckpt";
    trainer.save_checkpoint(file, weights_only);
    TableDataModule fresh(options);
    Trainer other({.threads = 1, .precision = precision, .quiet = true});
    expected = other.predict(module, fresh, {.ckpt_path = file.string()}).at(0).at(0);
  }
  TemporaryFolder folder;
  std::filesystem::path file;
  Batch expected;
};

/// Every tensor has the same bits.
void check_equal(const Batch& found, const Batch& expected) {
  REQUIRE(found.size() == expected.size());
  for (const auto& [name, tensor] : expected.items()) {
    INFO(name);
    CHECK(torch::equal(found[name], tensor));
  }
}

TEST_CASE("a Predictor gives the numbers of a prediction by a Trainer, to the bit, of records and of tensors") {
  const TemporaryFolder folder;
  SECTION("classes by their texts") {
    MLPClassifier module({.hidden = {8}});
    const Trained trained(module, labelled(folder, "kind"), {});
    const Predictor predictor = Predictor::load(trained.file);
    check_equal(predictor.predict_records(records_of_rows()), trained.expected);
    CHECK(predictor.facts().class_names == std::vector<std::string>{"cat", "dog"});
    CHECK(predictor.facts().features == std::vector<std::int64_t>{6});

    // Columns in the order of the file: weight, color, grade, height.
    at::Tensor rows = torch::empty({60, 4}, torch::kDouble);
    for (int row = 0; row < 60; ++row) {
      const std::vector<double> color = {2, 1, 0};  // of red, green, blue, in the order of the alphabet
      const Value record = records_of_rows()[static_cast<std::size_t>(row)];
      rows[row] = torch::tensor({record.at("weight").as_double(), color[static_cast<std::size_t>(row % 3)],
                                 static_cast<double>(row % 4), record.at("height").as_double()},
                                torch::kDouble);
    }
    check_equal(predictor.predict({{"features", rows}}), trained.expected);
    check_equal(predictor.predict(rows), trained.expected);
    TableDataModule data(labelled(folder, "kind"));
    data.setup(Stage::kPredict);
    const LoaderPtr loader = data.predict_dataloaders().at(0);
    loader->start_epoch(0);
    check_equal(predictor.predict_prepared(*loader->next()), trained.expected);
  }
  SECTION("a measure in the unit of the data, of a module of the user's own, with weights alone") {
    Priced module({});
    const Trained trained(module, labelled(folder, "price"), {}, /*weights_only=*/GENERATE(false, true));
    const Predictor predictor = Predictor::load(trained.file);
    check_equal(predictor.predict_records(records_of_rows()), trained.expected);
    CHECK(trained.expected["price"].mean().item<double>() > 500);
    CHECK_FALSE(trained.expected["is training"].item<bool>());
  }
  SECTION("averages of weights, which are evaluated") {
    MLPRegressor module({.hidden = {8}});
    const Trained trained(module, labelled(folder, "price"), {.callbacks = {EMAWeightAveraging({.decay = 0.5})}});
    check_equal(Predictor::load(trained.file).predict_records(records_of_rows()), trained.expected);
    const TensorFile file = TensorFile::open(trained.file);
    CHECK_FALSE(torch::equal(file.content.tensors.at("state_dict.net.0.weight"),
                             file.content.tensors.at("current_model_state.net.0.weight")));
  }
  SECTION("other precisions, which the file names") {
    const auto [format, type] =
        GENERATE(std::pair{PrecisionFormat::kFloat64, at::kDouble}, std::pair{PrecisionFormat::kBfloat16Mixed, at::kFloat},
                 std::pair{PrecisionFormat::kBfloat16, at::kFloat});
    MLPClassifier module({.hidden = {8}});
    const Trained trained(module, labelled(folder, "kind"), {.precision = format});
    CHECK(trained.expected["probability"].scalar_type() == type);
    check_equal(Predictor::load(trained.file).predict_records(records_of_rows()), trained.expected);
    if (format == PrecisionFormat::kBfloat16Mixed) {
      const Batch other =
          Predictor::load(trained.file, {.precision = PrecisionFormat::kFloat32}).predict_records(records_of_rows());
      CHECK_FALSE(torch::equal(other["probability"], trained.expected["probability"]));
      CHECK(torch::allclose(other["probability"], trained.expected["probability"], 0, 0.02));
    }
  }
}

TEST_CASE("threads that predict with one Predictor get what one gets alone") {
  const TemporaryFolder folder;
  MLPClassifier module({.hidden = {8}});
  const Trained trained(module, labelled(folder, "kind"), {.precision = PrecisionFormat::kBfloat16Mixed});
  const Predictor predictor = Predictor::load(trained.file);
  std::vector<std::future<bool>> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.push_back(std::async(std::launch::async, [&] {
      for (int call = 0; call < 50; ++call) {
        const Batch found = predictor.predict_records(records_of_rows());
        if (!torch::equal(found["probability"], trained.expected["probability"])) return false;
      }
      return true;
    }));
  }
  for (auto& thread : threads) CHECK(thread.get());
}

TEST_CASE("a Predictor's module knows that it has no run, and is free when the Predictor has gone") {
  const TemporaryFolder folder;
  const auto module = std::make_shared<Unregistered>();
  Trainer trainer({.max_epochs = 0, .quiet = true});
  trainer.fit(*module, std::make_shared<FixedLoader>(std::vector<Batch>{torch::ones({1})}));
  trainer.save_checkpoint(folder / "a.ckpt");
  {
    const Predictor predictor = Predictor::load(folder / "a.ckpt", {.module = module});
    CHECK(&predictor.module() == module.get());
    CHECK(predictor.data_module() == nullptr);
    CHECK_THROWS_WITH(predictor.predict(torch::ones({2})), Catch::Contains("in a Predictor, which has no Trainer"));
    CHECK_THROWS_WITH(predictor.predict_records({}), Catch::Contains("nothing of a data module"));
  }
  CHECK_THROWS_WITH(module->trainer(), Catch::Contains("not attached to a Trainer"));
  CHECK_THROWS_WITH(Predictor::load(folder / "a.ckpt"),
                    Catch::Contains("is of a Unregistered") && Catch::Contains("LEVIN_REGISTER_MODULE(Unregistered)"));
}

TEST_CASE("values of records are those that the file's texts say, also of categories, and missing ones") {
  const TemporaryFolder folder;
  std::ofstream(folder / "table.csv") << "flag,city,color,n,kind\nTrue,1.0,red,0.5,a\nFalse,2.0,NA,,b\nTrue,10.0, red,nan,a\n"
                                         "False,1.0,,-1.5,b\nTrue,2.0,green,2,b\n";
  MLPClassifier module({.hidden = {8}});
  const Trained trained(module,
                        {.path = folder / "table.csv",
                         .predict_path = folder / "table.csv",
                         .label_column = "kind",
                         .one_hot_columns = {"color", "flag"},
                         .code_columns = {"city"},
                         .unknown_categories = UnknownCategories::kOther,
                         .missing = MissingValues(7.0),
                         .standardize = true,
                         .batch_size = 5},
                        {});
  const Predictor predictor = Predictor::load(trained.file);
  const auto record = [](const Value& flag, const Value& city, const Value& color, const Value& n) {
    return Value(Value::Map{{"flag", flag}, {"city", city}, {"color", color}, {"n", n}});
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  SECTION("numbers and truth values") {
    check_equal(
        predictor.predict_records({record(true, 1, "red", 0.5), record(false, 2, Value(), Value()),
                                   record(true, 10, "red", nan), record(false, 1, nan, -1.5), record(true, 2.0, "green", 2)}),
        trained.expected);
  }
  SECTION("the file's texts") {
    check_equal(predictor.predict_records({record("True", "1.0", "red", 0.5), record("False", "2.0", "NA", Value()),
                                           record("True", "10.0", " red", nan), record("False", " 1.0", "", -1.5),
                                           record("True", "2.0 ", "green", 2)}),
                trained.expected);
  }
  SECTION("a list is none of them") {
    const auto list = record(Value::List{Value(1)}, 1, "red", 0.5);
    CHECK_THROWS_WITH(predictor.predict_records({list}),
                      Catch::Contains("record 0: 'flag' is") && Catch::Contains("has categories"));
  }
}

TEST_CASE("records and batches that do not fit the data are refused with what fits") {
  const TemporaryFolder folder;
  MLPClassifier module({.hidden = {}});
  const Trained trained(module, labelled(folder, "kind"), {});
  const Predictor predictor = Predictor::load(trained.file);
  const auto error_with = [&](const std::string& column, const Value& value) {
    Value record = records_of_rows()[0];
    record[column] = value;
    return error_of<Error>([&] { predictor.predict_records({record}); });
  };
  CHECK_THAT(error_with("color", "purple"), Catch::Contains("'purple' in column 'color' is not among the categories"));
  CHECK_THAT(error_with("height", "tall"), Catch::Contains("record 0: 'height' is string 'tall'"));
  CHECK_THAT(error_with("height", Value()), Catch::Contains("data.missing"));
  CHECK_THAT(error_with("color", Value()), Catch::Contains("record 0: 'color' is null, which is a missing value"));
  CHECK_THAT(error_of<Error>([&] {
               predictor.predict_records({Value::Map{{"weight", 1}}});
             }),
             Catch::Contains("record 0 has no 'color'; the columns of the data are 'weight', 'color', 'grade', 'height'"));
  CHECK_THAT(error_of<Error>([&] {
               predictor.predict(torch::ones({2, 5}));
             }),
             Catch::Contains("\"features\" has the shape [2, 5], and a row of the data has 4 numbers"));
  CHECK_THAT(error_of<Error>([&] { predictor.predict(torch::full({1, 4}, 7.0)); }), Catch::Contains("'number 7' in column"));
}

TEST_CASE("a data module that a program lacks is an error where it prepared batches, and else a warning") {
  struct Absent final : DataModule {
    explicit Absent(std::vector<std::string> does) : does(std::move(does)) {}
    LoaderPtr train_dataloader() override { return std::make_shared<FixedLoader>(std::vector<Batch>{torch::ones({1})}); }
    Value state_dict() const override { return Value::Map{{"unit", 1000}}; }
    void load_state_dict(const Value& state) override { unit = state.at("unit").as_double(); }
    Batch prepare(Batch batch) const override { return batch[0] / unit; }
    std::vector<std::string> preparations() const override { return does; }
    std::vector<std::string> does;
    double unit = 1;
  };
  const TemporaryFolder folder;
  const bool prepares = GENERATE(false, true);
  Absent data(prepares ? std::vector<std::string>{"values are divided by 1000"} : std::vector<std::string>());
  const auto module = std::make_shared<Priced>(Priced::Options{.inputs = 1});
  Trainer trainer({.max_epochs = 0, .quiet = true});
  trainer.fit(*module, data);
  trainer.save_checkpoint(folder / "a.ckpt");
  if (prepares) {
    CHECK_THROWS_WITH(Predictor::load(folder / "a.ckpt"),
                      Catch::Contains("data module prepared, Absent, which is not registered"));
  } else {
    CHECK_THAT(warned_by([&] { Predictor::load(folder / "a.ckpt"); }), Catch::Contains("the module predicts without it"));
  }
  const auto given = std::make_shared<Absent>(data.does);
  const Predictor predictor = Predictor::load(folder / "a.ckpt", {.module = std::make_shared<Identity>(), .data = given});
  CHECK(predictor.predict(torch::full({1}, 500.0))[0].item<double>() == 0.5);
}

TEST_CASE("a run's folder, and its best, stand for the checkpoint, wherever weights are read") {
  const TemporaryFolder folder;
  Priced module({});
  const Trained trained(module, labelled(folder, "price"), {});
  std::filesystem::create_directories(folder / "run" / "checkpoints");
  std::filesystem::copy_file(trained.file, folder / "run" / "checkpoints" / "last.ckpt");
  for (const std::filesystem::path& given : {folder / "run", folder / "run:last"}) {
    CHECK(checkpoint_at(given) == folder / "run" / "checkpoints" / "last.ckpt");
    CHECK(torch::equal(Module::load_from_checkpoint<Priced>(given)->net->weight, module.net->weight));
    Priced other({});
    load_weights(other, given);
    CHECK(torch::equal(other.net->weight, module.net->weight));
    CHECK(Predictor::load(given).predict_records(records_of_rows()).size() == 2);
  }
  CHECK_THROWS_WITH(checkpoint_at(folder / "run:best"), Catch::Contains("needs a run with checkpoints"));
  CHECK(checkpoint_at(trained.file) == trained.file);
  CHECK(checkpoint_at(folder / "none.ckpt") == folder / "none.ckpt");
  CHECK_THROWS_AS(Predictor::load(folder / "none.ckpt"), ConfigError);
  CHECK_THROWS_WITH(Predictor::load(folder / "none.ckpt"), Catch::Contains("none.ckpt"));
}

TEST_CASE("a Predictor for a device that this machine lacks says so") {
  const TemporaryFolder folder;
  Priced module({});
  const Trained trained(module, labelled(folder, "price"), {});
  CHECK_THROWS_WITH(Predictor::load(trained.file, {.device = "cuda:63"}), Catch::Contains("cuda") || Catch::Contains("GPU"));
  CHECK_THROWS_AS(Predictor::load(trained.file, {.device = "cuda:63"}), ConfigError);
  CHECK_THROWS_WITH(Predictor::load(trained.file, {.device = "cpu:7"}), Catch::Contains("there is no 'cpu:7'"));
}

TEST_CASE("load_from_checkpoint() warns where a data module had prepared batches") {
  const TemporaryFolder folder;
  Priced module({});
  const Trained trained(module, labelled(folder, "price"), {});
  const ShownMessages messages;
  Module::load_from_checkpoint<Priced>(trained.file);
  CHECK_THAT(messages.text(), Catch::Contains("takes nothing of that (scale: features are multiplied by 0.5; categories of "
                                              "'color', 'grade' become numbers; standardize: features have mean 0 and "
                                              "deviation 1; standardize_labels: labels have mean 0 and deviation 1)"));
}

}  // namespace
}  // namespace levin::test
