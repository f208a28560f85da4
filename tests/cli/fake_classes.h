#pragma once

#include <memory>
#include <string>

#include "levin/core/config/component.h"

namespace levin::test {

struct NetOptions {
  std::int64_t hidden = 128;
  std::int64_t inputs = 4;
  double lr = 1e-3;
  static void declare(OptionList<NetOptions>& options) {
    options.add("hidden", &NetOptions::hidden, "Width of the hidden layer").min(1);
    options.add("inputs", &NetOptions::inputs, "Columns of the table").linked_to("data.columns");
    options.add("lr", &NetOptions::lr, "Learning rate").min(0);
  }
};

struct DeepNetOptions {
  std::int64_t depth = 3;
  double lr = 1e-4;
  static void declare(OptionList<DeepNetOptions>& options) {
    options.add("depth", &DeepNetOptions::depth, "Number of layers").min(1).max(50);
    options.add("lr", &DeepNetOptions::lr, "Learning rate").min(0);
  }
};

struct TableOptions {
  std::filesystem::path file;
  std::int64_t batch_size = 32;
  std::int64_t columns = 6;
  static void declare(OptionList<TableOptions>& options) {
    options.add("file", &TableOptions::file, "The table").input_file().required();
    options.add("batch_size", &TableOptions::batch_size, "Samples in a batch").min(1);
    options.add("columns", &TableOptions::columns, "Columns of the table");
  }
};

struct StopperOptions {
  std::string monitor = "val_loss";
  std::string mode = "min";
  std::int64_t patience = 3;
  static void declare(OptionList<StopperOptions>& options) {
    options.add("monitor", &StopperOptions::monitor, "The metric");
    options.add("mode", &StopperOptions::mode, "Better is").choices({"min", "max"});
    options.add("patience", &StopperOptions::patience, "Checks without improvement").min(0);
  }
};

struct StepOptions {
  std::int64_t step_size = 1;
  static void declare(OptionList<StepOptions>& options) { options.add("step_size", &StepOptions::step_size, "Period").min(1); }
};

/// Registers a class that has options but can make no object: the base need not be complete, so these tests need no torch.
template <class Base, class Options>
bool add_fake(const char* name, const char* help) {
  Registry<Base>::instance().add(
      ClassInfo{name, help, describe_options<Options>(),
                [](const Value& init_args) { return write_options(read_options<Options>(init_args)); }},
      [](const Value&) { return std::shared_ptr<Base>(); });
  return true;
}

/// FakeNet, FakeDeepNet (models), FakeTable (data), FakeStopper (callback), FakeSgd (optimizer), FakeStep (scheduler).
inline void register_fake_classes() {
  static const bool once = add_fake<Module, NetOptions>("FakeNet", "One hidden layer") &&
                           add_fake<Module, DeepNetOptions>("FakeDeepNet", "Many layers") &&
                           add_fake<DataModule, TableOptions>("FakeTable", "A table of numbers") &&
                           add_fake<Callback, StopperOptions>("FakeStopper", "Stops early") &&
                           add_fake<OptimizerFactory, NetOptions>("FakeSgd", "Descends") &&
                           add_fake<LrSchedulerFactory, StepOptions>("FakeStep", "Steps");
  static_cast<void>(once);
}

}  // namespace levin::test
