#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "acceptance/digits_run.h"
#include "acceptance/readme_commands.h"
#include "levin/data/csv_file.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;

/// The 64 images that lie in one of 64×64 pixels: a row of brightnesses, from 0 to 1, for each.
at::Tensor read_samples(const fs::path& file) {
  std::string text = read_text(file);
  const std::string head = "P5 64 64 255\n";
  INFO(file.string());
  REQUIRE(text.starts_with(head));
  REQUIRE(text.size() == head.size() + 64 * 64);
  const at::Tensor pixels = at::from_blob(text.data() + head.size(), {8, 8, 8, 8}, at::kByte);
  return pixels.transpose(1, 2).reshape({64, 64}).to(at::kDouble) / 255;
}

/// How samples differ from digits. A generator that always makes the mean digit has no distance of means, but one of
/// deviations; one that makes noise of the right brightness is far from every digit.
struct Likeness {
  double means;        ///< mean over pixels of the difference of their means
  double deviations;   ///< the same of their standard deviations
  double nearest;      ///< mean over samples of the distance (2-norm) from the nearest digit
  std::int64_t kinds;  ///< how many of the digits 0 to 9 these nearest ones are
};

Likeness likeness(const at::Tensor& samples) {
  const at::Tensor rows = read_csv(LEVIN_SOURCE_DIR "/examples/digits/data/digits.csv").values.to(at::kDouble);
  const at::Tensor images = rows.slice(1, 0, -1) / 16;
  const auto difference = [](const at::Tensor& one, const at::Tensor& other) {
    return (one - other).abs().mean().item<double>();
  };
  const auto [distances, nearest] = at::cdist(samples, images).min(1);
  return {difference(samples.mean(0), images.mean(0)), difference(samples.std(0, false), images.std(0, false)),
          distances.mean().item<double>(), std::get<0>(at::_unique(rows.select(1, -1).index_select(0, nearest))).numel()};
}

at::Tensor samples_after(const fs::path& folder, int version, int epoch) {
  return read_samples(version_folder(folder, version) / ("samples_" + std::to_string(epoch) + ".pgm"));
}

void fit_gan(const TemporaryFolder& folder, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"fit", "--config", LEVIN_SOURCE_DIR "/examples/gan/config.yaml",
                                        "--trainer.default_root_dir=" + folder.path().string()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome outcome = levin(arguments);
  INFO(outcome.text());
  REQUIRE(outcome.ok());
}

TEST_CASE("the GAN's samples become like digits, on one rank and on two") {
  const TemporaryFolder untrained;
  fit_gan(untrained, {"--trainer.max_epochs=1", "--model.lr=0", "--model.sample_every=1"});
  const Likeness before = likeness(samples_after(untrained.path(), 0, 0));
  CHECK(before.means > 0.2);
  CHECK(before.deviations > 0.2);
  CHECK(before.nearest > 2.5);
  CHECK(before.kinds <= 2);

  // The commands of its README, of which the last has two ranks with batches of 32 that see the global batches of one with 64.
  const TemporaryFolder folder;
  REQUIRE(run_from_root(shell_blocks(LEVIN_SOURCE_DIR "/examples/gan/README.md"), folder.path()).size() == 1);
  for (const auto& [version, epochs] : {std::pair(0, 60), std::pair(2, 40)}) {
    for (int epoch = 9; epoch < epochs - 1; epoch += 10) samples_after(folder.path(), version, epoch);
    const Likeness after = likeness(samples_after(folder.path(), version, epochs - 1));
    INFO("means " << after.means << ", deviations " << after.deviations << ", nearest " << after.nearest << ", kinds "
                  << after.kinds);
    CHECK(after.means < 0.15);
    CHECK(after.deviations < 0.12);
    CHECK(after.nearest < 2);
    CHECK(after.kinds >= 7);
  }
}

TEST_CASE("the GAN makes the same samples of the same seed") {
  const auto samples = [](const std::string& seed) {
    const TemporaryFolder folder;
    fit_gan(folder, {"--trainer.max_epochs=2", "--model.sample_every=2", "--seed_everything=" + seed});
    return samples_after(folder.path(), 0, 1);
  };
  const at::Tensor first = samples("1");
  CHECK(first.equal(samples("1")));
  CHECK_FALSE(first.equal(samples("2")));
}

}  // namespace
}  // namespace levin::test
