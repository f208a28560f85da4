#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include "acceptance/digits_run.h"
#include "acceptance/readme_commands.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPixels = 8 * 8;

/// Brightness of each pixel, from 0 to 1.
using Image = std::array<double, kPixels>;

struct Digit {
  Image image = {};
  int digit = 0;
};

std::vector<Digit> real_digits() {
  std::ifstream file(LEVIN_SOURCE_DIR "/examples/digits/data/digits.csv");
  std::vector<Digit> digits;
  for (std::string line; std::getline(file, line);) {
    std::istringstream cells(line);
    Digit digit;
    char comma = 0;
    for (double& pixel : digit.image) {
      cells >> pixel >> comma;
      pixel /= 16;
    }
    cells >> digit.digit;
    REQUIRE(cells);
    digits.push_back(digit);
  }
  return digits;
}

/// The 64 images that lie in one of 64×64 pixels.
std::vector<Image> read_samples(const fs::path& file) {
  const std::string text = read_text(file);
  const std::string head = "P5 64 64 255\n";
  INFO(file.string());
  REQUIRE(text.starts_with(head));
  REQUIRE(text.size() == head.size() + 64 * 64);
  std::vector<Image> images(64);
  for (std::size_t y = 0; y < 64; ++y) {
    for (std::size_t x = 0; x < 64; ++x) {
      const auto pixel = static_cast<unsigned char>(text[head.size() + y * 64 + x]);
      images[y / 8 * 8 + x / 8][y % 8 * 8 + x % 8] = pixel / 255.0;
    }
  }
  return images;
}

struct Statistics {
  Image mean = {};
  Image deviation = {};
};

Statistics statistics_of(const std::vector<Image>& images) {
  Statistics found;
  const auto count = static_cast<double>(images.size());
  for (std::size_t pixel = 0; pixel < kPixels; ++pixel) {
    double squares = 0;
    for (const Image& image : images) found.mean[pixel] += image[pixel] / count;
    for (const Image& image : images) squares += std::pow(image[pixel] - found.mean[pixel], 2);
    found.deviation[pixel] = std::sqrt(squares / count);
  }
  return found;
}

double mean_distance(const Image& one, const Image& other) {
  double sum = 0;
  for (std::size_t pixel = 0; pixel < kPixels; ++pixel) sum += std::abs(one[pixel] - other[pixel]);
  return sum / kPixels;
}

/// How samples differ from digits. A generator that always makes the mean digit has no distance of means, but one of
/// deviations; one that makes noise of the right brightness is far from every digit.
struct Likeness {
  double means = 0;       ///< mean over pixels of the difference of their means
  double deviations = 0;  ///< the same of their standard deviations
  double nearest = 0;     ///< mean over samples of the distance (2-norm) from the nearest digit
  std::size_t kinds = 0;  ///< how many of the digits 0 to 9 these nearest ones are
};

Likeness likeness(const std::vector<Image>& samples) {
  const std::vector<Digit> digits = real_digits();
  std::vector<Image> images;
  for (const Digit& digit : digits) images.push_back(digit.image);
  const Statistics made = statistics_of(samples);
  const Statistics real = statistics_of(images);
  Likeness found{mean_distance(made.mean, real.mean), mean_distance(made.deviation, real.deviation)};
  std::set<int> kinds;
  for (const Image& sample : samples) {
    double least = INFINITY;
    int kind = -1;
    for (const Digit& digit : digits) {
      double squares = 0;
      for (std::size_t pixel = 0; pixel < kPixels; ++pixel) squares += std::pow(sample[pixel] - digit.image[pixel], 2);
      if (squares < least) {
        least = squares;
        kind = digit.digit;
      }
    }
    found.nearest += std::sqrt(least) / static_cast<double>(samples.size());
    kinds.insert(kind);
  }
  found.kinds = kinds.size();
  return found;
}

std::vector<Image> samples_after(const TemporaryFolder& folder, int epoch) {
  return read_samples(version_folder(folder.path()) / ("samples_" + std::to_string(epoch) + ".pgm"));
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
  const Likeness before = likeness(samples_after(untrained, 0));
  CHECK(before.means > 0.2);
  CHECK(before.deviations > 0.2);
  CHECK(before.nearest > 2.5);
  CHECK(before.kinds <= 2);

  // The commands of its README, of which the last has two ranks with batches of 32 that see the global batches of one with 64.
  const TemporaryFolder folder;
  REQUIRE(run_from_root(shell_blocks(LEVIN_SOURCE_DIR "/examples/gan/README.md"), folder.path()).size() == 1);
  const auto check_likeness = [&folder](int version, int epochs) {
    const auto samples = [&](int epoch) {
      return read_samples(version_folder(folder.path(), version) / ("samples_" + std::to_string(epoch) + ".pgm"));
    };
    for (int epoch = 9; epoch < epochs - 1; epoch += 10) samples(epoch);
    const Likeness after = likeness(samples(epochs - 1));
    INFO("means " << after.means << ", deviations " << after.deviations << ", nearest " << after.nearest << ", kinds "
                  << after.kinds);
    CHECK(after.means < 0.15);
    CHECK(after.deviations < 0.12);
    CHECK(after.nearest < 2);
    CHECK(after.kinds >= 7);
  };
  check_likeness(0, 60);
  check_likeness(2, 40);
}

TEST_CASE("the GAN makes the same samples of the same seed") {
  const auto samples = [](const std::string& seed) {
    const TemporaryFolder folder;
    fit_gan(folder, {"--trainer.max_epochs=2", "--model.sample_every=2", "--seed_everything=" + seed});
    return samples_after(folder, 1);
  };
  const std::vector<Image> first = samples("1");
  CHECK(first == samples("1"));
  CHECK(first != samples("2"));
}

}  // namespace
}  // namespace levin::test
