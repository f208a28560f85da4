// Windows of tokens and packed documents.
#include "levin/text/token_dataset.h"

#include <torch/types.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/text/token_writer.h"
#include "levin/text/tokens_data_module.h"
#include "support/temporary_folder.h"

using Catch::Matchers::Contains;

namespace fs = std::filesystem;

namespace levin::test {
namespace {

using Tokens = std::vector<std::int64_t>;

/// Documents of these lengths whose tokens count on.
TokenFile counting_file(const fs::path& path, const std::vector<std::int64_t>& lengths) {
  TokenWriter writer(path, {.vocab_size = 60'000});
  std::int64_t next = 0;
  for (const std::int64_t length : lengths) {
    Tokens document;
    for (std::int64_t index = 0; index < length; ++index) document.push_back(next++);
    writer.add_document(document);
  }
  writer.finish();
  return TokenFile(path);
}

Tokens row(const at::Tensor& tensor, std::int64_t index) {
  const at::Tensor values = tensor[index].to(at::kLong).contiguous();
  return {values.const_data_ptr<std::int64_t>(), values.const_data_ptr<std::int64_t>() + values.numel()};
}

Tokens range(std::int64_t begin, std::int64_t end) {
  Tokens tokens;
  for (std::int64_t token = begin; token < end; ++token) tokens.push_back(token);
  return tokens;
}

}  // namespace

TEST_CASE("consecutive windows hold each token once, and targets are one further") {
  const TemporaryFolder folder;
  const TokenDataset data(counting_file(folder / "a.bin", {30}), {.block_size = 7, .windows = TokenWindows::kConsecutive});
  REQUIRE(data.size() == 4);
  const Batch batch = data.get_batch(std::vector<std::int64_t>{3, 0});
  CHECK(row(batch["input"], 0) == range(21, 28));
  CHECK(row(batch["target"], 0) == range(22, 29));
  CHECK(row(batch["input"], 1) == range(0, 7));
  CHECK(batch["target"].scalar_type() == at::kLong);
  CHECK_THROWS_AS(data.get_batch(std::vector<std::int64_t>{4}), MisuseError);
}

TEST_CASE("random windows depend on seed, epoch and index alone, and reach both ends") {
  const TemporaryFolder folder;
  const TokenDataset data(counting_file(folder / "a.bin", {20}), {.block_size = 4});
  const auto begin_of = [&](std::int64_t seed, std::int64_t epoch, std::int64_t index) {
    const SampleSeedScope scope(seed, epoch);
    const Batch batch = data.get_batch(std::vector<std::int64_t>{index});
    const Tokens input = row(batch["input"], 0);
    CHECK(input == range(input[0], input[0] + 4));
    CHECK(row(batch["target"], 0) == range(input[0] + 1, input[0] + 5));
    return input[0];
  };
  CHECK(begin_of(1, 2, 3) == begin_of(1, 2, 3));
  std::map<std::int64_t, int> counts;
  for (std::int64_t epoch = 0; epoch < 400; ++epoch) {
    for (std::int64_t index = 0; index < data.size(); ++index) ++counts[begin_of(5, epoch, index)];
  }
  // Places 0 to 15, 100 times each on average; 5 deviations are 48.
  CHECK(counts.size() == 16);
  for (const auto& [place, count] : counts) {
    CAPTURE(place, count);
    CHECK(std::abs(count - 100) < 48);
  }
}

TEST_CASE("a part of a file is read alone") {
  const TemporaryFolder folder;
  const TokenFile file = counting_file(folder / "a.bin", {30});
  const TokenDataset data(file, {.block_size = 4, .windows = TokenWindows::kConsecutive, .range = TokenRange{10, 20}});
  REQUIRE(data.size() == 2);
  CHECK(row(data.get_batch(std::vector<std::int64_t>{1})["target"], 0) == range(15, 19));
  CHECK_THROWS_AS(TokenDataset(file, {.block_size = 4, .range = TokenRange{10, 31}}), MisuseError);
  CHECK_THROWS_AS(TokenDataset(file, {.block_size = 10, .range = TokenRange{10, 20}}), MisuseError);
  CHECK(data.fingerprint() != TokenDataset(file, {.block_size = 4}).fingerprint());
}

TEST_CASE("documents are packed whole, each into the first block with room") {
  const TemporaryFolder folder;
  // Targets: 4, 3, 0, 0, 1, 6 (that fills a block), 2.
  const PackedTokenDataset data(counting_file(folder / "a.bin", {5, 4, 1, 0, 2, 7, 3}), {.block_size = 6});
  REQUIRE(data.size() == 3);
  const Batch batch = data.get_batch(std::vector<std::int64_t>{0, 1, 2});
  CHECK(row(batch["input"], 0) == Tokens{0, 1, 2, 3, 10, 0});
  CHECK(row(batch["target"], 0) == Tokens{1, 2, 3, 4, 11, -100});
  CHECK(row(batch["document"], 0) == Tokens{0, 0, 0, 0, 1, -1});
  CHECK(row(batch["position"], 0) == Tokens{0, 1, 2, 3, 0, 0});
  CHECK(row(batch["mask"], 0) == Tokens{1, 1, 1, 1, 1, 0});
  CHECK(row(batch["input"], 1) == Tokens{5, 6, 7, 19, 20, 0});
  CHECK(row(batch["document"], 1) == Tokens{0, 0, 0, 1, 1, -1});
  CHECK(row(batch["input"], 2) == range(12, 18));
  CHECK(batch["mask"].scalar_type() == at::kBool);
}

TEST_CASE("a document that is longer than a block is cut, and has each target once") {
  const TemporaryFolder folder;
  const PackedTokenDataset data(counting_file(folder / "a.bin", {12, 3}), {.block_size = 4});
  REQUIRE(data.size() == 4);
  std::multiset<std::int64_t> targets;
  for (std::int64_t block = 0; block < data.size(); ++block) {
    for (const std::int64_t target : row(data.get_batch(std::vector<std::int64_t>{block})["target"], 0)) {
      if (target >= 0) targets.insert(target);
    }
  }
  Tokens expected = range(1, 12);
  for (const std::int64_t target : {13, 14}) expected.push_back(target);
  CHECK(Tokens(targets.begin(), targets.end()) == expected);
}

TEST_CASE("first fit is that of the plain search") {
  std::mt19937 random(3);
  const TemporaryFolder folder;
  std::vector<std::int64_t> lengths;
  for (int index = 0; index < 400; ++index) lengths.push_back(std::uniform_int_distribution<std::int64_t>(0, 40)(random));
  const std::int64_t block_size = 33;
  const PackedTokenDataset data(counting_file(folder / "a.bin", lengths), {.block_size = block_size});
  std::vector<std::int64_t> room;
  std::vector<Tokens> inputs;
  std::int64_t begin = 0;
  for (const std::int64_t length : lengths) {
    for (std::int64_t at = begin; at + 1 < begin + length; at += block_size) {
      const std::int64_t part = std::min(block_size, begin + length - 1 - at);
      std::size_t block = 0;
      while (block < room.size() && room[block] < part) ++block;
      if (block == room.size()) {
        room.push_back(block_size);
        inputs.emplace_back();
      }
      room[block] -= part;
      for (const std::int64_t token : range(at, at + part)) inputs[block].push_back(token);
    }
    begin += length;
  }
  REQUIRE(data.size() == std::ssize(room));
  for (std::int64_t block = 0; block < data.size(); ++block) {
    Tokens& expected = inputs[static_cast<std::size_t>(block)];
    expected.resize(static_cast<std::size_t>(block_size));
    CHECK(row(data.get_batch(std::vector<std::int64_t>{block})["input"], 0) == expected);
  }
}

TEST_CASE("documents may be divided by a token") {
  const TemporaryFolder folder;
  TokenWriter writer(folder / "a.bin");
  writer.add_document(Tokens{1, 2, 9, 3, 9, 9, 4});
  writer.finish();
  const TokenFile file(folder / "a.bin");
  CHECK(find_document_ends(file, {0, file.size()}, 9) == Tokens{3, 5, 6, 7});
  CHECK(find_document_ends(file, {0, file.size()}, 8) == Tokens{7});
  const PackedTokenDataset data(file, {.block_size = 3, .document_ends = {3, 5, 6, 7}});
  REQUIRE(data.size() == 1);
  CHECK(row(data.get_batch(std::vector<std::int64_t>{0})["target"], 0) == Tokens{2, 9, 9});
  CHECK_THROWS_AS(PackedTokenDataset(file, {.block_size = 3, .document_ends = {3, 2}}), MisuseError);
  CHECK_THROWS_AS(PackedTokenDataset(file, {.block_size = 3, .document_ends = {8}}), MisuseError);
}

TEST_CASE("a data module divides a file at a document, and knows the vocabulary") {
  const TemporaryFolder folder;
  counting_file(folder / "a.bin", {40, 33, 27});
  const auto set_up = [&](TokensDataOptions options) {
    options.path = folder / "a.bin";
    options.block_size = 5;
    options.batch_size = 100;
    TokensDataModule data(options);
    data.setup(Stage::kTrain);
    return data;
  };
  const auto batch_of = [](const LoaderPtr& loader) {
    loader->start_epoch(0);
    return *loader->next();
  };
  TokensDataModule data = set_up({.val_fraction = 0.3});
  CHECK(data.facts().classes == 60'000);
  const Batch validation = batch_of(data.val_dataloaders()[0]);
  CHECK(validation.batch_size() == 5);
  CHECK(row(validation["input"], 0) == range(73, 78));
  CHECK(batch_of(data.test_dataloaders()[0]).batch_size() == 5);
  const at::Tensor training = batch_of(data.train_dataloader())["target"];
  CHECK(training.size(0) == 14);
  CHECK(training.max().item<std::int64_t>() < 73);
  TokensDataModule in_order = set_up({.val_fraction = 0.0, .shuffle = false});
  CHECK(row(batch_of(in_order.train_dataloader())["input"], 1) == range(5, 10));
  CHECK(in_order.val_dataloaders().empty());
  TokensDataModule packed = set_up({.val_fraction = 0.3, .mode = TokenMode::kPacked, .shuffle = false});
  CHECK(row(batch_of(packed.val_dataloaders()[0])["target"], 0) == range(74, 79));
  CHECK_THROWS_WITH(set_up({.val_fraction = 0.01}), Contains("block_size"));
}

TEST_CASE("tokens beyond the vocabulary that options give are errors where they are read") {
  const TemporaryFolder folder;
  counting_file(folder / "a.bin", {40, 33, 27});
  fs::remove(index_of(folder / "a.bin"));
  TokensDataOptions options{.path = folder / "a.bin", .val_fraction = 0.6, .block_size = 4, .shuffle = false};
  options.end_token = 39;
  options.mode = GENERATE(TokenMode::kWindows, TokenMode::kPacked);
  const auto read = [&](std::int64_t vocab_size, bool is_validation) {
    options.vocab_size = vocab_size;
    TokensDataModule data(options);
    data.setup(Stage::kTrain);
    const LoaderPtr loader = is_validation ? data.val_dataloaders().at(0) : data.train_dataloader();
    loader->start_epoch(0);
    std::int64_t batches = 0;
    while (loader->next()) ++batches;
    return batches;
  };
  CHECK(read(100, true) > 0);
  CHECK(read(50 + 1, false) > 0);  // what is not read is not looked at
  CHECK_THROWS_WITH(read(90, true),
                    Contains("vocab_size: ") && Contains("a.bin' has the token 90 at 90, and a vocabulary of 90"));
  CHECK_THROWS_WITH(read(7, false), Contains("a.bin' has the token 7 at 7"));
}

TEST_CASE("a checkpoint's vocabulary stays the model's") {
  const TemporaryFolder folder;
  counting_file(folder / "a.bin", {100});
  TokensDataModule data({.path = folder / "a.bin", .block_size = 4});
  data.setup(Stage::kTrain);
  Value state = data.state_dict();
  CHECK(state.at("vocab_size").as_int() == 60'000);
  state["vocab_size"] = std::int64_t{70'000};
  data.load_state_dict(state);
  CHECK(data.facts().classes == 70'000);
  TokensDataModule other({.path = folder / "a.bin", .block_size = 4});
  other.setup(Stage::kTest);
  state["vocab_size"] = std::int64_t{50'000};
  CHECK_THROWS_WITH(other.load_state_dict(state),
                    Contains("a vocabulary of 60000 tokens, and the checkpoint's model one of 50000"));
}

}  // namespace levin::test
