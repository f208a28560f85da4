#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "data/fixtures.h"
#include "data/tables.h"
#include "levin/core/config/options.h"
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
  const LoaderPtr predict = data.predict_dataloaders().at(0);
  predict->start_epoch(0);
  CHECK((*predict->next())["features"].equal(floats({7, 8}, 2)));
  CHECK(data.facts().features == std::vector<std::int64_t>{2});

  options.ignore_columns = {"name", "when", "whem"};
  CHECK_THAT(error_of(options), Contains("ignore_columns") && Contains("no column 'whem'") && Contains("'when'"));
  options.ignore_columns = {"name", "when", "kind"};
  CHECK_THAT(error_of(options), Contains("label_column: column '-1' of") && Contains("is in ignore_columns too"));
  options.ignore_columns = {"name", "when"};
  options.one_hot_columns = {"name"};
  CHECK_THAT(error_of(options), Contains("one_hot_columns: column 'name' of") && Contains("is in ignore_columns too"));
}

TEST_CASE("columns are left out of files without names, and of arrays, by their numbers") {
  const TemporaryFolder folder;
  TableDataOptions options = whole(write(folder, "train.csv", "1,a,0,2\n3,b,1,4\n"));
  options.ignore_columns = {"1"};
  options.label_column = "2";
  options.predict_path = write(folder, "with.csv", "5,c,0,6\n");
  const auto predicted = [&] {
    Ready data(options);
    const LoaderPtr loader = data.predict_dataloaders().at(0);
    loader->start_epoch(0);
    return (*loader->next())["features"];
  };
  CHECK(features_of(options).equal(floats({1, 2, 3, 4}, 2)));
  CHECK(predicted().equal(floats({5, 6}, 2)));
  options.predict_path = write(folder, "without.csv", "5,c,6\n");
  CHECK(predicted().equal(floats({5, 6}, 2)));

  TableDataOptions array = whole(kFixtures / "float64.npy");  // 0, 40, 80; 120, 160, 200
  array.ignore_columns = {"0"};
  CHECK(features_of(array).equal(floats({40, 160}, 1)));
  array.predict_path = array.path;
  Ready data(array);
  const LoaderPtr loader = data.predict_dataloaders().at(0);
  loader->start_epoch(0);
  CHECK((*loader->next())["features"].equal(floats({40, 160}, 1)));
  array.one_hot_columns = {"1"};
  array.ignore_columns = {};
  CHECK_THAT(error_of(array), Contains("columns of CSV files"));
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

TEST_CASE("categories are those of the training data, and others are errors with their place, or a code of their own") {
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

TEST_CASE("a checkpoint keeps categories, for files that have others") {
  const TemporaryFolder folder;
  TableDataOptions options = whole(write(folder, "train.csv", kColors));
  options.ignore_columns = {"id"};
  options.one_hot_columns = {"color"};
  options.standardize = true;
  const Value state = Ready(options).state_dict();

  options.path = write(folder, "other.csv", "id,size,color,kind\na,1,red,0\nb,2,white,0\n");
  options.test_path = write(folder, "test.csv", "id,size,color,kind\na,2.5,green,0\n");
  options.predict_path = write(folder, "predict.csv", "color,id,size\nblue,a,2.5\n");
  Ready data(options, Stage::kTest);
  data.load_state_dict(state);
  CHECK(all(data.test_dataloaders().at(0))["features"].equal(floats({0, 0, 1, 0}, 4)));
  const LoaderPtr predict = data.predict_dataloaders().at(0);
  predict->start_epoch(0);
  CHECK((*predict->next())["features"].equal(floats({0, 1, 0, 0}, 4)));
  CHECK(data.state_dict() == state);
  CHECK_THROWS_WITH(data.train_dataloader(), Contains("other.csv:3: 'white'"));

  options.one_hot_columns = {};
  options.ignore_columns = {"id", "color"};
  options.predict_path = {};
  Ready without(options, Stage::kTest);
  CHECK_THROWS_WITH(without.load_state_dict(state), Contains("categories of the columns 'color'") && Contains("name none"));
}

at::Tensor predicted(Ready& data) {
  const LoaderPtr loader = data.predict_dataloaders().at(0);
  loader->start_epoch(0);
  return (*loader->next())["features"];
}

TEST_CASE("columns of other files of the run are found by name, in any order and beside others") {
  const TemporaryFolder folder;
  TableDataOptions options = whole(write(folder, "train.csv", "id,size,color,kind\nr1,1,red,0\nr2,2,blue,1\n"));
  options.ignore_columns = {"id"};
  options.code_columns = {"color"};
  options.val_path = write(folder, "val.csv", "kind,color,size\n1,red,7\n0,blue,8\n");
  options.test_path = write(folder, "test.csv", ",note,color,kind,size,when\n0,good,blue,1,9,2024-01-31\n");
  options.predict_path = write(folder, "predict.csv", "color,when,size\nred,?,10\n");
  const Told told;
  Ready data(options);
  CHECK(all(data.val_dataloaders().at(0))["features"].equal(floats({7, 1, 8, 0}, 2)));
  CHECK(all(data.val_dataloaders().at(0))["label"].equal(torch::tensor({1, 0}, torch::kLong)));
  CHECK(all(data.test_dataloaders().at(0))["features"].equal(floats({9, 0}, 2)));
  CHECK(all(data.test_dataloaders().at(0))["label"].equal(torch::tensor({1}, torch::kLong)));
  CHECK(predicted(data).equal(floats({10, 1}, 2)));
  CHECK_THAT(told.text, Contains("test.csv: left out, since the training data lacks them: 'note', 'when'"));

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
  options.predict_path = options.path;
  Ready data(options);
  CHECK(all(data.test_dataloaders().at(0))["features"].equal(floats({1, 2}, 1)));
  CHECK(predicted(data).equal(floats({1, 2}, 1)));
  // Of names that do not tell columns apart, too.
  options.path = write(folder, "twice.csv", ",x,x,kind\n0.5,1,2,0\n0.7,3,4,1\n");
  options.test_path = options.path;
  options.predict_path = {};
  options.ignore_columns = {"0"};
  CHECK(all(Ready(options).test_dataloaders().at(0))["features"].equal(floats({1, 2, 3, 4}, 2)));
}

TEST_CASE("a checkpoint keeps columns and classes, for a table that has others") {
  const TemporaryFolder folder;
  TableDataOptions options =
      whole(write(folder, "train.csv", "id,size,color,kind\na,1,red,0\nb,2,blue,1\nc,3,green,2\nd,4,red,0\n"));
  options.ignore_columns = {"id"};
  options.one_hot_columns = {"color"};
  Ready trained(options);
  const Value state = trained.state_dict();
  CHECK(trained.facts().classes == 3);

  // Fewer categories and classes, in another order, beside another column.
  options.path = write(folder, "other.csv", "id,kind,color,weight,size\na,1,red,70,5\nb,0,blue,80,6\n");
  options.label_column = "kind";
  options.test_path = options.path;
  {
    const Told told;
    Ready other(options, Stage::kTest);
    CHECK(other.facts().features == std::vector<std::int64_t>{4});
    CHECK(other.facts().classes == 2);
    other.load_state_dict(state);
    CHECK(other.facts().features == std::vector<std::int64_t>{4});
    CHECK(other.facts().classes == 3);
    CHECK(all(other.test_dataloaders().at(0))["features"].equal(floats({5, 0, 0, 1, 6, 1, 0, 0}, 4)));
    CHECK(other.state_dict() == state);
    CHECK_THAT(told.text, Contains("other.csv") && Contains("'weight'"));
  }
  // The last column is the label unless another is named.
  options.label_column = "-1";
  options.task = TableTask::kRegression;
  Ready wrong(options, Stage::kTest);
  CHECK_THROWS_WITH(wrong.load_state_dict(state),
                    Contains("other.csv lacks 1 column") && Contains("'size'") && Contains("label_column"));
  // Without names columns are told by their number.
  options = whole(write(folder, "plain.csv", "1,2,0\n3,4,1\n"));
  const Value plain = Ready(options).state_dict();
  options.path = write(folder, "wider.csv", "1,2,3,0\n3,4,5,1\n");
  Ready wider(options);
  CHECK_THROWS_WITH(wider.load_state_dict(plain), Contains("of data with 2 features, this data has 3"));
}

TEST_CASE("the index that pandas writes is no feature, and columns that count rows without a name are told") {
  const TemporaryFolder folder;
  const auto told_with = [&](const std::string& text, const TableDataOptions& more = {}) {
    TableDataOptions options = more;
    options.path = write(folder, "train.csv", text);
    options.val_fraction = options.test_fraction = 0;
    const Told told;
    Ready data(options);
    return std::to_string(data.facts().features.at(0)) + " features. " + told.text;
  };
  CHECK_THAT(told_with(",a,kind\n0,5,0\n1,6,1\n"), Contains("1 features") && Contains("first column has no name"));
  CHECK_THAT(told_with("0,1,2\n5,6,0\n7,8,1\n"), Contains("2 features") && Contains("numbers the columns"));
  std::string unnamed, named = "Id,a,kind\n", meant = "hour,a,kind\n";
  for (int row = 0; row < 12; ++row) {
    const std::string text = std::to_string(row) + ",3,1\n";
    unnamed += text;
    named += text;
    meant += text;
  }
  CHECK_THAT(told_with(unnamed), Contains("2 features") && Contains("column 0 has") && Contains("counts the rows") &&
                                     Contains("ignore_columns: [0]"));
  CHECK_THAT(told_with(named), Contains("counts the rows"));
  CHECK_THAT(told_with(named, {.path = "", .ignore_columns = {"Id"}}), Contains("1 features") && !Contains("counts the rows"));
  CHECK_THAT(told_with(meant), Contains("2 features") && !Contains("counts the rows"));
  // Names of rows, wherever they stand, are told by their column's name and values.
  const auto with_column = [&](const std::string& name, const std::function<std::string(int)>& value) {
    std::string text = "a," + name + ",kind\n";
    for (int row = 0; row < 12; ++row)
      text += std::to_string(row * row % 5) + "," + value(row) + "," + std::to_string(row % 2) + "\n";
    return told_with(text);
  };
  const auto permuted = [](int row) { return std::to_string(1000 + row * 7 % 12); };
  for (const char* name : {"rownames", "PassengerId", "customer_id", "userID", "Sample Id"})
    CHECK_THAT(with_column(name, permuted),
               Contains("column '" + std::string(name) + "' has another whole number in each row"));
  for (const char* name : {"grid", "price", "Paid"}) CHECK_THAT(with_column(name, permuted), !Contains("in each row"));
  CHECK_THAT(with_column("user_id", [](int row) { return std::to_string(row % 4); }), !Contains("in each row"));
  CHECK_THAT(with_column("user_id", [](int row) { return std::to_string(row) + ".5"; }), !Contains("in each row"));
  // The label is what is named, or a number of the file's columns.
  TableDataOptions options = whole(write(folder, "train.csv", ",kind,a\n0,1,5\n1,0,6\n"));
  options.label_column = "1";
  CHECK(all(Ready(options).train_dataloader())["label"].equal(torch::tensor({1, 0}, torch::kLong)));
  options.label_column = "0";
  CHECK_NOTHROW(Ready(options));  // who names it means it
  options = whole(write(folder, "train.csv", "a,kind\n0,1\n1,0\n"));
  options.ignore_columns = {"a"};
  CHECK_THAT(error_of(options), Contains("no column is left for features"));
}

TEST_CASE("a feature that is the label under another name is told, and so are labels that are no classes") {
  const TemporaryFolder folder;
  const auto told_with = [&](const std::string& names, const std::function<std::string(int)>& row,
                             const TableDataOptions& more = {}) {
    TableDataOptions options = more;
    std::string text = names + "\n";
    for (int index = 0; index < 24; ++index) text += row(index) + "\n";
    options.path = write(folder, "train.csv", text);
    const Told told;
    Ready data(options);
    return told.text;
  };
  const auto number = [](int value) { return std::to_string(value); };
  TableDataOptions coded, regression;
  coded.code_columns = {"alive"};
  regression.task = TableTask::kRegression;
  CHECK_THAT(told_with(
                 "a,alive,survived", [&](int i) { return number(i * i % 7) + (i % 3 ? ",yes,1" : ",no,0"); }, coded),
             Contains("train.csv: 'alive' determines the label of every row: leave it out with ignore_columns"));
  CHECK_THAT(told_with("x,y,kind", [&](int i) { return number(-i % 3) + "," + number(i % 3 + 5) + "," + number(i % 3); }),
             Contains("'x', 'y' determine the label of every row: leave them out"));
  CHECK_THAT(told_with("x,kind", [&](int i) { return number(i % 4) + "," + number(i % 4 / 2); }), !Contains("the label"));
  CHECK_THAT(told_with(
                 "x,y", [&](int i) { return number(i) + "," + number(2 * i); }, regression),
             !Contains("the label"));
  CHECK_THAT(told_with(
                 "x,y", [&](int i) { return number(i * i) + "," + number(i * i); }, regression),
             Contains("'x' determines the label of every row"));

  CHECK_THAT(told_with("x,price", [&](int i) { return number(i % 5) + "," + number(100 + i * i); }),
             Contains("its 24 rows have 24 different labels in column 'price'") && Contains("or task: regression"));
  CHECK_THAT(
      told_with("x,name", [&](int i) { return number(i % 5) + ",car " + number(i); }),
      Contains("its 24 rows have 24 different labels in column 'name': set label_column") && !Contains("task: regression"));
  CHECK_THAT(told_with("x,kind", [&](int i) { return number(i % 5) + "," + number(i % 12); }), !Contains("different labels"));
  CHECK_THAT(told_with(
                 "x,price", [&](int i) { return number(i % 5) + "," + number(100 + i * i); }, regression),
             !Contains("different labels"));
}

TEST_CASE("NaN and infinite values are told with their file, place and number, and `missing` stands for NaN") {
  const TemporaryFolder folder;
  TableDataOptions options = whole(write(folder, "train.csv", "a,b,kind\n1,2,0\n\n3,NaN,1\nnan,inf,0\n"));
  {
    const Told told;
    Ready data(options);
    CHECK_THAT(told.text, Contains("train.csv: 2 values are NaN, the first in ") && Contains("train.csv:4, column 'b'") &&
                              Contains("set `missing`") && Contains("1 value is infinite") &&
                              Contains("train.csv:5, column 'b'"));
  }
  options.missing = -1;
  const Told told;
  const at::Tensor features = features_of(options);
  CHECK(features.slice(0, 0, 2).equal(floats({1, 2, 3, -1}, 2)));
  CHECK(features[2][0].item<float>() == -1);
  CHECK_THAT(told.text, !Contains("NaN"));
}

TEST_CASE("labels that are other numbers than 0, 1, 2 are no classes until they are mapped") {
  const TemporaryFolder folder;
  TableDataOptions options = whole(write(folder, "train.csv", "1,3\n2,1\n3,10\n4,1\n5,3\n"));
  options.test_path = write(folder, "test.csv", "6,10\n");
  {
    const Told told;
    Ready data(options);
    CHECK_FALSE(data.facts().classes);
    CHECK_THAT(told.text, !Contains("map_labels"));  // 1 to 10 in five rows are no classes
  }
  options.path = write(folder, "train.csv", "1,3\n2,1\n3,2\n4,1\n5,3\n");
  options.test_path = write(folder, "test.csv", "6,2\n");
  {
    const Told told;
    Ready data(options);
    CHECK_FALSE(data.facts().classes);
    CHECK(all(data.train_dataloader())["label"].equal(torch::tensor({3, 1, 2, 1, 3}, torch::kLong)));
    CHECK_THAT(told.text, Contains("labels go from 1 to 3") && Contains("map_labels: true"));
  }
  options.map_labels = true;
  const Told told;
  Ready data(options);
  CHECK(data.facts().classes == 3);
  CHECK(data.classes() == std::vector<std::string>{"1", "2", "3"});
  CHECK(all(data.train_dataloader())["label"].equal(torch::tensor({2, 0, 1, 0, 2}, torch::kLong)));
  CHECK(all(data.test_dataloaders().at(0))["label"].equal(torch::tensor({1}, torch::kLong)));
  CHECK_THAT(told.text, Contains("mapped to numbers from 0: '1', '2', '3'"));

  // By their numbers, not their texts, and as the checkpoint has them.
  options.path = write(folder, "signs.csv", "1,10\n2,-1\n3,9\n");
  options.test_path = {};
  Ready signs(options);
  CHECK(signs.classes() == std::vector<std::string>{"-1", "9", "10"});
  signs.load_state_dict(data.state_dict());
  CHECK_THROWS_WITH(signs.train_dataloader(), Contains("the label '-1' is not among the classes"));
  options.task = TableTask::kRegression;
  CHECK_THAT(error_of(options), Contains("map_labels is for task: classification"));
}

TEST_CASE("large values and labels lose nothing before their mean is taken off") {
  const TemporaryFolder folder;
  // 32-bit floats have steps of 128 there.
  TableDataOptions options =
      whole(write(folder, "train.csv", "x,y\n1700000000,2000000001\n1700000001,2000000003\n1700000002,2000000005\n"));
  options.task = TableTask::kRegression;
  const at::Tensor expected = torch::tensor({-1.0F, 0.0F, 1.0F}) * static_cast<float>(std::sqrt(1.5));
  {
    const Told told;
    Ready data(options);
    CHECK_THAT(told.text, Contains("its labels are large") && Contains("standardize_labels: true") &&
                              Contains("the values of feature 'x' are large") && Contains("standardize: true"));
    CHECK(data.facts().label_mean == 2000000003.0);
    CHECK(data.facts().label_deviation == Approx(std::sqrt(8.0 / 3)));
    CHECK(data.label_scale().mean == 0);
  }
  options.standardize = options.standardize_labels = true;
  const Told told;
  Ready data(options);
  const Batch batch = all(data.train_dataloader());
  CHECK(torch::allclose(batch["features"].squeeze(1), expected));
  CHECK(torch::allclose(batch["label"], expected));
  CHECK(batch["label"].scalar_type() == torch::kFloat);
  CHECK(told.text.empty());
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
  options.task = TableTask::kClassification;
  CHECK_THAT(error_of(options), Contains("standardize_labels is for task: regression"));
}

TEST_CASE("a file of labels with a name that looks like one is told") {
  const TemporaryFolder folder;
  TableDataOptions options = whole(write(folder, "train.csv", "0,1,2\n5,6,7\n7,8,9\n"));
  options.label_path = write(folder, "labels.csv", "0\n1\n0\n");
  CHECK_THAT(error_of(options),
             Contains("one label for each of the 2 samples") && Contains("one more") && Contains("set `header`"));
  options.header = true;
  CHECK(all(Ready(options).train_dataloader())["label"].equal(torch::tensor({1, 0}, torch::kLong)));
}

TEST_CASE("tables as pandas and spreadsheets write them are read, or say what to write") {
  const TemporaryFolder folder;
  struct Row {
    std::string text;
    std::vector<std::string> told;  ///< empty: it is read, as {{1, 2}, {3, 4}} with labels 0 and 1
    TableDataOptions options = {};
  };
  TableDataOptions semicolons, ignores, commas, in_quotes, tabs, missing;
  commas.delimiter = ";";
  commas.decimal = in_quotes.decimal = ",";
  tabs.delimiter = "\\t";
  missing.missing = 0;
  semicolons.delimiter = ";";
  ignores.ignore_columns = {"the day"};
  std::string wide = "c0", line0 = "0", line1 = "0";
  for (int column = 1; column < 3000; ++column) {
    wide += ",c" + std::to_string(column);
    line0 += ",t";
    line1 += ",t";
  }
  for (const Row& row : std::vector<Row>{
           {"\xEF\xBB\xBF\"a\",\"b\",\"kind\"\r\n1,2,0\r\n3,4,1\r\n", {}},
           {"a name,\"the, other\",kind\n1,2,0\n3,4,1\n", {}},
           {"a,a,kind\n1,2,0\n3,4,1\n", {}},
           {"a;b;kind\n1;2;0\n3;4;1\n", {}, semicolons},
           {"the day,a,b,kind\n2024-01-31,1,2,0\n2024-02-01,3,4,1\n", {}, ignores},
           {",a,b,kind\n8,1,2,0\n3,3,4,1\n", {}},
           {"0,1,2\n1,2,0\n3,4,1\n", {}},
           {"a;b;kind\n1,0;2;0\n3;4,0;1\n", {}, commas},
           {"a,b,kind\n\"1,0\",2,0\n3,\"4,0\",1\n", {}, in_quotes},
           {"a\tb\tkind\n1\t2\t0\n3\t4\t1\n", {}, tabs},
           {"a,b,kind\n1,2,0\n,,\n3,4,1\n,,\n", {}, missing},
           {"a,b,kind\n1,2,0\n3,4,\n", {"table.csv:3:5: the label is missing"}, missing},
           {"a;b;kind\n1;2;0\n", {"set `delimiter`"}},
           {"a;b;kind\n1,5;2;0\n", {"table.csv:2:3", "2 fields", "set `delimiter`"}},
           {"the day,a,kind\n2024-01-31,1,0\n", {"a date or a time", "ignore_columns", "'the day'"}},
           {"a,b,kind\n1,,0\n", {"table.csv:2:3: the value is missing", "column 'b'", "`missing`"}},
           {"a,b,kind\n1,red,0\n", {"table.csv:2:3: 'red' is not a number", "'b'", "one_hot_columns", "code_columns"}},
           {wide + "\n" + line0 + "\n" + line1 + "\n", {"'c1', 'c2'", "more"}}}) {
    CAPTURE(row.text.substr(0, 60));
    TableDataOptions options = row.options;
    options.path = write(folder, "table.csv", row.text);
    options.val_fraction = options.test_fraction = 0;
    options.shuffle = false;
    for (const std::string& told : row.told) CHECK_THAT(error_of(options), Contains(told));
    if (row.told.empty()) {
      CHECK(features_of(options).equal(floats({1, 2, 3, 4}, 2)));
      CHECK(all(Ready(options).train_dataloader())["label"].equal(torch::tensor({0, 1}, torch::kLong)));
    }
  }
  TableDataOptions other = whole(write(folder, "table.parquet", "PAR1\x15\x04"));
  CHECK_THAT(error_of(other), Contains("table.parquet") && Contains("It is a Parquet file: write it as a CSV file"));
  semicolons.path = folder / "table.csv";
  semicolons.decimal = ";";
  CHECK_THAT(error_of(semicolons), Contains("decimal must be . or ,"));
  TableDataOptions twice = whole(write(folder, "table.csv", "a,kind,kind\n1,2,0\n"));
  twice.label_column = "kind";
  CHECK_THAT(error_of(twice), Contains("several columns 'kind'") && Contains("number"));
}

TEST_CASE("options of columns are lists of names or numbers in YAML") {
  const TemporaryFolder folder;
  Value args(Value::Map{{"path", write(folder, "train.csv", kColors).string()}});
  args["ignore_columns"] = Value::List{0};
  args["one_hot_columns"] = Value::List{"color"};
  args["unknown_categories"] = "other";
  const auto options = read_options<TableDataOptions>(args);
  CHECK(options.ignore_columns == std::vector<std::string>{"0"});
  CHECK(options.unknown_categories == UnknownCategories::kOther);
  CHECK(Ready(options).facts().features == std::vector<std::int64_t>{4});
}

}  // namespace
}  // namespace levin::test
