#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "data/fixtures.h"
#include "data/tables.h"
#include "levin/core/label_scale.h"

// What a TableDataModule makes of columns: those that are left out, categories, labels and their scale.

namespace levin::test {
namespace {

using Catch::Matchers::Contains;

/// All of a file is training data, in its order.
TableDataOptions whole(const std::filesystem::path& path) {
  TableDataOptions options = options_for(path);
  options.val_fraction = options.test_fraction = 0;
  options.shuffle = false;
  return options;
}

at::Tensor floats(const std::vector<float>& values, std::int64_t width) { return torch::tensor(values).view({-1, width}); }
at::Tensor features_of(const TableDataOptions& options) { return all(Ready(options).train_dataloader())["features"]; }

/// id, size, color, kind.
constexpr const char* kColors = "id,size,color,kind\nr1,1,red,0\nr2,2,blue,1\nr3,3,red,0\nr4,4,green,1\n";

TEST_CASE("columns that are left out may hold anything, in each file of the run") {
  const TemporaryFolder folder;
  TableDataOptions options =
      whole(write(folder, "train.csv", "name,x,when,y,kind\nAnn,1,2024-01-31,2,0\nBob,3,2024-02-01,4,1\n"));
  options.ignore_columns = {"name", "2"};
  options.test_path = write(folder, "test.csv", "name,x,when,y,kind\nCid,5,?,6,1\n");
  // Not there, and with a column less.
  options.predict_path = write(folder, "predict.csv", "x,when,y\n7,2024-02-01,8\n");
  Ready data(options);
  CHECK(all(data.train_dataloader())["features"].equal(floats({1, 2, 3, 4}, 2)));
  CHECK(all(data.test_dataloaders().at(0))["features"].equal(floats({5, 6}, 2)));
  CHECK(predicted(data)["features"].equal(floats({7, 8}, 2)));
  CHECK(data.facts().features == std::vector<std::int64_t>{2});
}

TEST_CASE("rows with missing values are left out, all or by column, and lines of the others stay known") {
  const TemporaryFolder folder;
  TableDataOptions options = whole(write(folder, "train.csv", "a,c,b,kind\n1,u,,0\nNaN,v,4,1\n5,,6,0\n7,u,8,NA\n9,v,10,1\n"));
  options.code_columns = {"c"};
  options.missing = MissingValues::dropped();
  const Batch batch = all(Ready(options).train_dataloader());
  CHECK(batch["features"].equal(floats({9, 0, 10}, 3)));
  CHECK(batch["label"].equal(torch::tensor({1})));
  options.missing =
      MissingValues({{"a", {.number = -1.0}}, {"b", {.drop = true}}, {"1", {.drop = true}}, {"kind", {.drop = true}}});
  CHECK(features_of(options).equal(floats({-1, 0, 4, 9, 0, 10}, 3)));
  options.val_path = {write(folder, "val.csv", "a,c,b,kind\n1,v,,0\n2,w,3,0\n")};
  try {
    Ready data(options);
    data.val_dataloaders();
    FAIL("no error");
  } catch (const ConfigError& error) {
    CHECK_THAT(error.what(), Contains("val.csv:3: 'w' in column 'c'"));
  }
  options.missing = MissingValues({{"a", {.number = -1.0}}});
  CHECK_THAT(error_of(options), Contains("train.csv:2:5: the value is missing ('', column 'b')"));
  options.missing = 0.0;
  CHECK_THAT(error_of(options), Contains("the label is missing"));
}

TEST_CASE("what `missing` names has to be a column, which may be left out") {
  const TemporaryFolder folder;
  TableDataOptions options = whole(write(folder, "train.csv", "age,name,kind\nnan,u,0\n1,v,1\n"));
  options.ignore_columns = {"name"};
  options.missing = MissingValues({{"agee", {.number = 0.0}}});
  CHECK_THAT(error_of(options), Contains("missing: ") && Contains("train.csv has no column 'agee'; it has 0 to 2, 'age'"));
  options.missing = MissingValues({{"3", {.drop = true}}});
  CHECK_THAT(error_of(options), Contains("has no column '3'"));
  options.missing = MissingValues({{"0", {.number = -1.0}}, {"name", {.drop = true}}, {"kind", {.drop = true}}});
  CHECK(features_of(options).equal(floats({-1, 1}, 1)));
}

TEST_CASE("values that are infinite in 32 bits are told with line and column, those to predict too") {
  const TemporaryFolder folder;
  TableDataOptions options = whole(write(folder, "train.csv", "a,b,kind\n1e39,1,0\n3.4e38,2,1\n2,-4e38,0\n3,-inf,1\n"));
  options.predict_path = write(folder, "predict.csv", "a,b\n1,2\n1,3.5e38\n");
  const std::string warned = warned_by([&] { CHECK(features_of(options)[0][0].isinf().item<bool>()); });
  CHECK_THAT(warned, Contains("2 values are too large for 32-bit floats") && Contains("train.csv:2, column 'a'. In batches"));
  CHECK_THAT(warned, Contains("1 value is infinite") && Contains("train.csv:5, column 'b'. No loss"));
  CHECK_THAT(warned, Contains("1 value is too large for 32-bit floats") && Contains("predict.csv:3, column 'b'"));
}

TEST_CASE("mean and deviation are those of finite values") {
  const TemporaryFolder folder;
  TableDataOptions options =
      whole(write(folder, "train.csv", "a,b,c,kind\n1,2,nan,0\nnan,4,nan,1\n3,6,nan,0\ninf,8,nan,1\n5,10,nan,0\n"));
  options.standardize = true;
  options.batch_size = 5;
  const at::Tensor features = features_of(options);
  const double deviation = std::sqrt(8.0 / 3.0);  // of 1, 3 and 5
  CHECK(features[0][0].item<double>() == Approx(-2 / deviation));
  CHECK(features[1][0].isnan().item<bool>());
  CHECK(features[2][0].item<double>() == 0);
  CHECK(features[3][0].isinf().item<bool>());
  CHECK(features[4][0].item<double>() == Approx(2 / deviation));
  CHECK(features[0][1].item<double>() == Approx(-std::sqrt(2.0)));
  CHECK(features.select(1, 2).isnan().all().item<bool>());
  CHECK_THAT(warned_by([&] { features_of(options); }), Contains("6 values are NaN") && Contains("1 value is infinite"));
}

TEST_CASE("tables of several files are one, with the texts and labels of all, and errors name the file") {
  const TemporaryFolder folder;
  write(folder, "part-1.csv", "x,c,kind\n1,v,dog\n2,u,cat\n");
  write(folder, "part-2.csv", "kind,c,x\nbird,t,3\n");
  TableDataOptions options = whole(folder / "part-*.csv");
  options.label_column = "kind";
  options.code_columns = {"c"};
  Ready data(options);
  const Batch batch = all(data.train_dataloader());
  CHECK(batch["features"].equal(floats({1, 2, 2, 1, 3, 0}, 2)));
  CHECK(data.classes() == std::vector<std::string>{"bird", "cat", "dog"});
  CHECK(batch["label"].equal(torch::tensor({2, 1, 0})));
  options.path = {folder / "part-1.csv", write(folder, "other.csv", "x,d,kind\n1,5,dog\n")};
  CHECK_THAT(error_of(options), Contains("other.csv has no column 'c'"));
  options = whole(folder / "part-*.csv");
  options.label_column = "x";
  options.one_hot_columns = {"c", "kind"};
  write(folder, "part-3.csv", "x,c,kind\n4,v,dog\n0.5,v,dog\n");
  CHECK_THAT(error_of(options), Contains("part-3.csv, row 1 (from 0): the label 0.5"));
  options.path = folder / "none-*.csv";
  CHECK_THAT(error_of(options), Contains("there is no such file"));
}

TEST_CASE("columns are left out of files without names, and of arrays, by their numbers") {
  const TemporaryFolder folder;
  TableDataOptions options = whole(write(folder, "train.csv", "1,a,0,2\n3,b,1,4\n"));
  options.ignore_columns = {"1"};
  options.label_column = "2";
  options.predict_path = write(folder, "with.csv", "5,c,0,6\n");
  const auto predicted_of = [](const TableDataOptions& its_options) {
    Ready data(its_options);
    return predicted(data)["features"];
  };
  CHECK(features_of(options).equal(floats({1, 2, 3, 4}, 2)));
  CHECK(predicted_of(options).equal(floats({5, 6}, 2)));
  options.predict_path = write(folder, "without.csv", "5,c,6\n");
  CHECK(predicted_of(options).equal(floats({5, 6}, 2)));

  TableDataOptions array = whole(kFixtures / "float64.npy");  // 0, 40, 80; 120, 160, 200
  array.ignore_columns = {"0"};
  CHECK(features_of(array).equal(floats({40, 160}, 1)));
  array.predict_path = array.path.front();
  CHECK(predicted_of(array).equal(floats({40, 160}, 1)));
}

TEST_CASE("categories become features or codes, in the order of the file's columns") {
  const TemporaryFolder folder;
  TableDataOptions options = whole(write(folder, "train.csv", kColors));
  options.ignore_columns = {"id"};
  SECTION("one-hot") {
    options.one_hot_columns = {"color"};
    CHECK(features_of(options).equal(floats({1, 0, 0, 1, 2, 1, 0, 0, 3, 0, 0, 1, 4, 0, 1, 0}, 4)));
    Ready data(options);
    CHECK(data.facts().features == std::vector<std::int64_t>{4});
    REQUIRE(data.categories().size() == 1);
    CHECK(data.categories()[0].column == "color");
    CHECK(data.categories()[0].texts == std::vector<std::string>{"blue", "green", "red"});
    CHECK(data.categories()[0].one_hot);
  }
  SECTION("codes, and another before the label") {
    options.code_columns = {"color"};
    options.label_column = "size";
    options.task = TableTask::kRegression;
    CHECK(features_of(options).equal(floats({2, 0, 0, 1, 2, 0, 1, 1}, 2)));
  }
  SECTION("numbers as categories, beside standardized ones, which scale and deviation leave alone") {
    options.code_columns = {"size"};
    options.one_hot_columns = {"color"};
    options.standardize = true;
    options.scale = 100;
    CHECK(features_of(options).equal(floats({0, 0, 0, 1, 1, 1, 0, 0, 2, 0, 0, 1, 3, 0, 1, 0}, 4)));
    options.code_columns = {};
    const at::Tensor features = features_of(options);
    CHECK(torch::allclose(features.select(1, 0), (torch::arange(4) - 1.5) / std::sqrt(1.25)));
    CHECK(features.slice(1, 1).equal(floats({0, 0, 1, 1, 0, 0, 0, 0, 1, 0, 1, 0}, 3)));
  }
  SECTION("true and false need no option") {
    options.path = write(folder, "truth.csv", "a,b,kind\nTrue,1,x\nFalse,2,y\n");
    options.ignore_columns = {};
    CHECK(features_of(options).equal(floats({1, 1, 0, 2}, 2)));
  }
  SECTION("more texts than features may be") {
    std::string rows = "name,x,kind\n";
    for (int row = 0; row < 1001; ++row) rows += "n" + std::to_string(row) + ",1,0\n";
    options.path = write(folder, "names.csv", rows);
    options.ignore_columns = {};
    options.one_hot_columns = {"name"};
    CHECK_THAT(error_of(options), Contains("column 'name'") && Contains("1001 different texts") && Contains("ignore_columns"));
  }
}

TEST_CASE("categories are those of the training data, and others are errors with their line, or a separate code") {
  const TemporaryFolder folder;
  TableDataOptions options = whole(write(folder, "train.csv", kColors));
  options.ignore_columns = {"id"};
  options.one_hot_columns = {"color"};
  options.test_path = write(folder, "test.csv", "id,size,color,kind\n\nr5,5,green,0\nr6,6,pink,1\n");
  CHECK_THAT(error_of(options),
             Contains("test.csv:4: 'pink' in column 'color' is not among the categories of the training data, "
                      "'blue', 'green', 'red'") &&
                 Contains("unknown_categories"));
  options.unknown_categories = UnknownCategories::kOther;
  CHECK(all(Ready(options).test_dataloaders().at(0))["features"].equal(floats({5, 0, 1, 0, 6, 0, 0, 0}, 4)));
  std::swap(options.one_hot_columns, options.code_columns);
  CHECK(all(Ready(options).test_dataloaders().at(0))["features"].equal(floats({5, 1, 6, 3}, 2)));

  // Of one file, too: a text in the rows that are divided off alone is not known.
  std::string rows = "x,color,kind\n";
  for (int row = 0; row < 30; ++row) rows += std::to_string(row) + ",c" + std::to_string(row) + ",0\n";
  TableDataOptions divided = options_for(write(folder, "divided.csv", rows));
  divided.code_columns = {"color"};
  divided.val_fraction = 0.2;
  divided.test_fraction = 0;
  Ready data(divided);
  CHECK(data.categories()[0].texts.size() == 24);
  CHECK_THROWS_WITH(data.val_dataloaders(), Contains("divided.csv:") && Contains("not among the categories"));
  CHECK_NOTHROW(data.train_dataloader());
  // The place is that of the row in the file: the text of row N is cN, on line N + 2.
  try {
    data.val_dataloaders();
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    const int line = std::stoi(text.substr(text.find("divided.csv:") + 12));
    CHECK_THAT(text, Contains("'c" + std::to_string(line - 2) + "'"));
  }
}

TEST_CASE("columns of other files of the run are found by name, in any order and among others") {
  const TemporaryFolder folder;
  TableDataOptions options = whole(write(folder, "train.csv", "id,size,color,kind\nr1,1,red,0\nr2,2,blue,1\n"));
  options.ignore_columns = {"id"};
  options.code_columns = {"color"};
  options.val_path = write(folder, "val.csv", "kind,color,size\n1,red,7\n0,blue,8\n");
  options.test_path = write(folder, "test.csv", ",note,color,kind,size,when\n0,good,blue,1,9,2024-01-31\n");
  options.predict_path = write(folder, "predict.csv", "color,when,size\nred,?,10\n");
  const Messages messages;
  Ready data(options);
  CHECK(all(data.val_dataloaders().at(0))["features"].equal(floats({7, 1, 8, 0}, 2)));
  CHECK(all(data.val_dataloaders().at(0))["label"].equal(torch::tensor({1, 0}, torch::kLong)));
  CHECK(all(data.test_dataloaders().at(0))["features"].equal(floats({9, 0}, 2)));
  CHECK(all(data.test_dataloaders().at(0))["label"].equal(torch::tensor({1}, torch::kLong)));
  CHECK(predicted(data)["features"].equal(floats({10, 1}, 2)));
  CHECK_THAT(messages.text(), Contains("test.csv: left out, since the training data lacks them: 'note', 'when'"));

  options.val_path = write(folder, "val.csv", "kind,id,colour\n1,a,red\n");
  CHECK_THAT(error_of(options), Contains("val_path: ") && Contains("val.csv lacks 2 columns of the training data") &&
                                    Contains("'size', 'color'") && Contains("'colour'"));
  options.val_path = write(folder, "val.csv", "size,color,size,kind\n1,red,2,0\n");
  CHECK_THAT(error_of(options), Contains("val_path: ") && Contains("several columns 'size'"));
  options.val_path = write(folder, "val.csv", "size,color\n1,red\n");
  CHECK_THAT(error_of(options), Contains("val.csv has no column 'kind'"));
}

TEST_CASE("columns without a name are left out of each file by their number") {
  const TemporaryFolder folder;
  TableDataOptions options = whole(write(folder, "train.csv", ",,x,kind\n0.5,a,1,0\n0.7,b,2,1\n"));
  options.ignore_columns = {"0", "1"};
  options.test_path = options.path;
  options.predict_path = options.path.front();
  Ready data(options);
  CHECK(all(data.test_dataloaders().at(0))["features"].equal(floats({1, 2}, 1)));
  CHECK(predicted(data)["features"].equal(floats({1, 2}, 1)));
  // Of names that do not tell columns apart, too.
  options.path = write(folder, "twice.csv", ",x,x,kind\n0.5,1,2,0\n0.7,3,4,1\n");
  options.test_path = options.path;
  options.predict_path = {};
  options.ignore_columns = {"0"};
  CHECK(all(Ready(options).test_dataloaders().at(0))["features"].equal(floats({1, 2, 3, 4}, 2)));
}

TEST_CASE("a checkpoint stores columns, categories and classes, for a table that has others") {
  const TemporaryFolder folder;
  TableDataOptions options =
      whole(write(folder, "train.csv", "id,size,color,kind\na,1,red,0\nb,2,blue,1\nc,3,green,2\nd,4,red,0\n"));
  options.ignore_columns = {"id"};
  options.one_hot_columns = {"color"};
  Ready trained(options);
  const Value state = trained.state_dict();
  CHECK(trained.facts().classes == 3);

  // Fewer categories and classes, in another order, with another column.
  options.path = write(folder, "other.csv", "id,kind,color,weight,size\na,1,red,70,5\nb,0,blue,80,6\n");
  options.label_column = "kind";
  options.test_path = options.path;
  {
    const Messages messages;
    Ready other(options, Stage::kTest);
    CHECK(other.facts().features == std::vector<std::int64_t>{4});
    CHECK(other.facts().classes == 2);
    other.load_state_dict(state);
    CHECK(other.facts().features == std::vector<std::int64_t>{4});
    CHECK(other.facts().classes == 3);
    CHECK(all(other.test_dataloaders().at(0))["features"].equal(floats({5, 0, 0, 1, 6, 1, 0, 0}, 4)));
    CHECK(other.state_dict() == state);
    CHECK_THAT(messages.text(), Contains("other.csv") && Contains("'weight'"));
  }
  TableDataOptions without = options;
  without.one_hot_columns = {};
  without.ignore_columns = {"id", "color"};
  Ready lacking(without, Stage::kTest);
  CHECK_THROWS_WITH(lacking.load_state_dict(state), Contains("categories of the columns 'color'") && Contains("name none"));
  // The last column is the label unless another is named.
  options.label_column = "-1";
  options.task = TableTask::kRegression;
  Ready wrong(options, Stage::kTest);
  CHECK_THROWS_WITH(wrong.load_state_dict(state),
                    Contains("other.csv lacks 1 column") && Contains("'size'") && Contains("label_column"));
  // Without names columns are known by their number.
  options = whole(write(folder, "plain.csv", "1,2,0\n3,4,1\n"));
  const Value plain = Ready(options).state_dict();
  options.path = write(folder, "wider.csv", "1,2,3,0\n3,4,5,1\n");
  Ready wider(options);
  CHECK_THROWS_WITH(wider.load_state_dict(plain), Contains("of data with 2 features, this data has 3"));
}

TEST_CASE("the label is the column that is named, or has this number in the file") {
  const TemporaryFolder folder;
  TableDataOptions options = whole(write(folder, "train.csv", ",kind,a\n0,1,5\n1,0,6\n"));
  options.label_column = "1";
  CHECK(all(Ready(options).train_dataloader())["label"].equal(torch::tensor({1, 0}, torch::kLong)));
  options.label_column = "0";
  CHECK_NOTHROW(Ready(options));  // the index, if the option names it
}

TEST_CASE("labels that are other numbers than 0, 1, 2 are no classes until they are mapped") {
  const TemporaryFolder folder;
  TableDataOptions options = whole(write(folder, "train.csv", "1,3\n2,1\n3,10\n4,1\n5,3\n"));
  options.test_path = write(folder, "test.csv", "6,10\n");
  {
    const Messages messages;
    Ready data(options);
    CHECK_FALSE(data.facts().classes);
    CHECK_THAT(messages.text(), !Contains("map_labels"));  // 1 to 10 in five rows are no classes
  }
  options.path = write(folder, "train.csv", "1,3\n2,1\n3,2\n4,1\n5,3\n");
  options.test_path = write(folder, "test.csv", "6,2\n");
  {
    const Messages messages;
    Ready data(options);
    CHECK_FALSE(data.facts().classes);
    CHECK(all(data.train_dataloader())["label"].equal(torch::tensor({3, 1, 2, 1, 3}, torch::kLong)));
    CHECK_THAT(messages.text(), Contains("labels go from 1 to 3") && Contains("map_labels: true"));
  }
  options.map_labels = true;
  const Messages messages;
  Ready data(options);
  CHECK(data.facts().classes == 3);
  CHECK(data.classes() == std::vector<std::string>{"1", "2", "3"});
  CHECK(all(data.train_dataloader())["label"].equal(torch::tensor({2, 0, 1, 0, 2}, torch::kLong)));
  CHECK(all(data.test_dataloaders().at(0))["label"].equal(torch::tensor({1}, torch::kLong)));
  CHECK_THAT(messages.text(), Contains("mapped to numbers from 0: '1', '2', '3'"));

  // By their numbers, not their texts, and as the checkpoint has them.
  options.path = write(folder, "signs.csv", "1,10\n2,-1\n3,9\n");
  options.test_path = {};
  Ready signs(options);
  CHECK(signs.classes() == std::vector<std::string>{"-1", "9", "10"});
  signs.load_state_dict(data.state_dict());
  CHECK_THROWS_WITH(signs.train_dataloader(), Contains("the label '-1' is not among the classes"));
}

TEST_CASE("large values and labels lose nothing before their mean is taken off") {
  const TemporaryFolder folder;
  // 32-bit floats have steps of 128 there.
  TableDataOptions options =
      whole(write(folder, "train.csv", "x,y\n1700000000,2000000001\n1700000001,2000000003\n1700000002,2000000005\n"));
  options.task = TableTask::kRegression;
  const at::Tensor expected = torch::tensor({-1.0F, 0.0F, 1.0F}) * static_cast<float>(std::sqrt(1.5));
  {
    const Messages messages;
    Ready data(options);
    CHECK_THAT(messages.text(), Contains("its labels are large") && Contains("standardize_labels: true") &&
                                    Contains("the values of feature 'x' are large") && Contains("standardize: true"));
    CHECK(data.facts().label_mean == 2000000003.0);
    CHECK(data.facts().label_deviation == Approx(std::sqrt(8.0 / 3)));
    CHECK(data.label_scale().mean == 0);
  }
  options.standardize = options.standardize_labels = true;
  const Messages messages;
  Ready data(options);
  const Batch batch = all(data.train_dataloader());
  CHECK(torch::allclose(batch["features"].squeeze(1), expected));
  CHECK(torch::allclose(batch["label"], expected));
  CHECK(batch["label"].scalar_type() == torch::kFloat);
  CHECK(messages.text().empty());
  CHECK(data.facts().label_mean == 0);
  CHECK(data.facts().label_deviation == 1);
  CHECK(label_scale_of(&data).mean == 2000000003.0);
  CHECK(label_scale_of(&data).deviation == Approx(std::sqrt(8.0 / 3)));
  CHECK(label_scale_of(nullptr).deviation == 1);

  // Of a checkpoint.
  options.path = write(folder, "other.csv", "x,y\n1700000002,2000000005\n5,6\n");
  Ready other(options, Stage::kTest);
  other.load_state_dict(data.state_dict());
  CHECK(other.label_scale().mean == 2000000003.0);
  CHECK(all(other.train_dataloader())["label"][0].item<float>() == Approx(std::sqrt(1.5)));
}

TEST_CASE("a file of labels whose name looks like a label is an error that says so") {
  const TemporaryFolder folder;
  TableDataOptions options = whole(write(folder, "train.csv", "0,1,2\n5,6,7\n7,8,9\n"));
  options.label_path = write(folder, "labels.csv", "0\n1\n0\n");
  CHECK_THAT(error_of(options),
             Contains("one label for each of the 2 samples") && Contains("one more") && Contains("set `header`"));
  options.header = true;
  CHECK(all(Ready(options).train_dataloader())["label"].equal(torch::tensor({1, 0}, torch::kLong)));
}

TEST_CASE("columns may be divided by tabs and have one name, and an error names a few of many") {
  const TemporaryFolder folder;
  TableDataOptions tabs = whole(write(folder, "table.csv", "a\ta\tkind\n1\t2\t0\n3\t4\t1\n"));
  tabs.delimiter = "\\t";
  CHECK(features_of(tabs).equal(floats({1, 2, 3, 4}, 2)));
  std::string names = "c0", texts = "0";
  for (int column = 1; column < 3000; ++column) {
    names += ",c" + std::to_string(column);
    texts += ",t";
  }
  CHECK_THAT(error_of(whole(write(folder, "wide.csv", names + "\n" + texts + "\n" + texts + "\n"))),
             Contains("'c1', 'c2'") && Contains("more"));
  CHECK_THAT(error_of(whole(write(folder, "table.data", "PAR1\x15\x04"))),
             Contains("table.data") && Contains("It is a Parquet file: give it a name that ends in .parquet"));
  CHECK_THAT(error_of(whole(write(folder, "table.data", "BZh91AY&SY"))),
             Contains("bzip2 has compressed: write it as a CSV file"));
  TableDataOptions twice = whole(write(folder, "twice.csv", "a,kind,kind\n1,2,0\n"));
  twice.label_column = "kind";
  CHECK_THAT(error_of(twice), Contains("several columns 'kind'") && Contains("number"));
}

}  // namespace
}  // namespace levin::test
