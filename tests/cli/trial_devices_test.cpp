#include "levin/cli/sweep/trial_devices.h"

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "core/console/pseudo_terminal.h"
#include "levin/core/accelerator.h"
#include "levin/core/trainer_options.h"

using levin::cli::TrialDevices;

namespace {

struct SeenDevices : levin::Accelerator {
  explicit SeenDevices(int number) : count(number) {}
  std::string name() const override { return "seen"; }
  at::DeviceType device_type() const override { return at::kCPU; }
  std::string visibility_variable() const override { return "SEEN_DEVICES"; }
  int device_count() const override { return count; }
  int count;
};

std::vector<std::string> variables(int devices, std::size_t jobs, const char* asked_for = "auto") {
  levin::TrainerOptions options;
  options.accelerator = std::make_shared<SeenDevices>(devices);
  options.devices = asked_for;
  const TrialDevices divided(options, jobs);
  std::vector<std::string> all;
  for (std::size_t place = 0; place < jobs; ++place) all.push_back(divided.variable(place));
  return all;
}

using Variables = std::vector<std::string>;

}  // namespace

TEST_CASE("trials at a time have each their part of the devices that the sweep sees") {
  CHECK(variables(4, 2) == Variables{"SEEN_DEVICES=0,1", "SEEN_DEVICES=2,3"});
  CHECK(variables(3, 2) == Variables{"SEEN_DEVICES=0", "SEEN_DEVICES=1,2"});
  CHECK(variables(2, 3) == Variables{"SEEN_DEVICES=0", "SEEN_DEVICES=1", "SEEN_DEVICES=0"});
  const levin::test::EnvironmentVariable visible("SEEN_DEVICES", "5,GPU-7a");
  CHECK(variables(2, 2) == Variables{"SEEN_DEVICES=5", "SEEN_DEVICES=GPU-7a"});
}

TEST_CASE("nothing is divided where there is nothing to divide, or a run says what it takes") {
  CHECK(variables(4, 1) == Variables{""});
  CHECK(variables(1, 2) == Variables{"", ""});
  CHECK(variables(4, 2, "2") == Variables{"", ""});
  CHECK(variables(4, 2, "1,3") == Variables{"", ""});
}
