#include <torch/torch.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/logger.h"
#include "levin/core/trainer.h"
#include "support/error_of.h"
#include "support/queued_device/queued_device.h"
#include "support/recording.h"

using namespace levin;
using namespace levin::test;

namespace {

/// Stores all items; the first may wait for let_go().
class KeepingLogger : public Logger {
 public:
  bool log_item(const LoggedItem& item) override {
    opened_.wait();
    if (item.name == failing) throw IoError("the disk is full");
    items.push_back(item);
    return true;
  }
  void finalize(const std::string&) override { items_at_finalize = items.size(); }
  void close() {
    gate_ = {};
    opened_ = gate_.get_future().share();
  }
  void let_go() { gate_.set_value(); }

  const LoggedItem& named(const std::string& name) const {
    const auto found = std::ranges::find_if(items, [&](const LoggedItem& item) { return item.name == name; });
    if (found == items.end()) throw std::runtime_error("no item " + name);
    return *found;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const LoggedItem& item : items) names.push_back(item.name);
    return names;
  }

  std::vector<LoggedItem> items;
  std::size_t items_at_finalize = 0;
  std::string failing;

 private:
  std::promise<void> gate_;
  std::shared_future<void> opened_ = [] {
    std::promise<void> open;
    open.set_value();
    return open.get_future().share();
  }();
};

/// A fit of two epochs of two batches and a validation, in one hook of which a test logs something.
struct Fit {
  explicit Fit(const std::string& in_hook, std::function<void(Module&)> log, int sanity_steps = 0) {
    trace.on_entry = [this, in_hook, log = std::move(log)](const std::string& entry) {
      if (entry == in_hook) log(module);
    };
    TrainerOptions options = quiet({.max_epochs = 2, .num_sanity_val_steps = sanity_steps});
    options.logger = Loggers(std::static_pointer_cast<Logger>(logger));
    trainer = std::make_unique<Trainer>(options);
  }
  void run() { trainer->fit(module, FixedLoader::of_rows(2, 4), {FixedLoader::of_rows(1, 4)}); }
  std::string error() {
    return error_of<Error>([this] { run(); });
  }

  std::shared_ptr<KeepingLogger> logger = std::make_shared<KeepingLogger>();
  HookTrace trace;
  RecordingModule module{trace};
  std::unique_ptr<Trainer> trainer;
};

const std::vector<const char*> kHooks = {"M.setup(fit)",         "M.configure_optimizers", "M.on_fit_start",
                                         "M.on_train_start",     "M.on_train_epoch_start", "M.on_train_batch_start",
                                         "M.training_step",      "M.on_after_backward",    "M.on_before_optimizer_step",
                                         "M.on_train_batch_end", "M.validation_step",      "M.on_validation_epoch_end",
                                         "M.on_validation_end",  "M.on_train_epoch_end",   "M.on_train_end",
                                         "M.on_fit_end",         "M.teardown(fit)"};

std::vector<std::int64_t> steps_of(const std::vector<LoggedItem>& items) {
  std::vector<std::int64_t> steps;
  for (const LoggedItem& item : items) steps.push_back(item.step);
  return steps;
}

}  // namespace

TEST_CASE("items are legal in every hook of a run, and with the loggers before they end; a sanity check shows none") {
  for (const char* hook : kHooks) {
    INFO(hook);
    Fit fit(hook, [](Module& module) { module.log_text("note", "text"); });
    fit.run();
    CHECK_FALSE(fit.logger->items.empty());
    CHECK(fit.logger->items_at_finalize == fit.logger->items.size());
  }
  const auto log = [](Module& module) { module.log_text("note", "text"); };
  Fit sane("M.validation_step", log, /*sanity_steps=*/1);
  sane.run();
  CHECK(sane.logger->items.size() == 2);
}

TEST_CASE("items have the step of the rows of metrics that are logged in the same hook") {
  const auto steps_in = [](const char* hook) {
    Fit fit(hook, [](Module& module) { module.log_text("note", "text"); });
    fit.run();
    return steps_of(fit.logger->items);
  };
  using Steps = std::vector<std::int64_t>;
  CHECK(steps_in("M.training_step") == Steps{0, 1, 2, 3});
  CHECK(steps_in("M.on_train_batch_end") == Steps{0, 1, 2, 3});
  CHECK(steps_in("M.on_train_epoch_end") == Steps{1, 3});
  CHECK(steps_in("M.on_fit_end") == Steps{3});
}

TEST_CASE("what a tensor was when it was logged is shown, whatever becomes of it") {
  Fit fit("M.on_train_end", [](Module& module) {
    at::Tensor image = torch::zeros({2, 3});
    at::Tensor numbers = torch::tensor({1.0, 2.0, 3.0}, torch::kDouble).requires_grad_();
    module.log_image("image", image);
    module.log_histogram("numbers", numbers * 2);
    module.log_histogram("half", torch::tensor({1.0, 2.0}).to(torch::kHalf));
    module.log_histogram("whole", torch::arange(5).reshape({5, 1}).t());
    image.fill_(1);
  });
  fit.run();
  const auto image = std::get<LoggedImage>(fit.logger->named("image").content);
  CHECK((image.width == 3 && image.height == 2 && image.channels == 1));
  CHECK(image.png.substr(1, 3) == "PNG");
  CHECK(std::get<LoggedHistogram>(fit.logger->named("numbers").content).sum == 12);
  CHECK(std::get<LoggedHistogram>(fit.logger->named("half").content).max == 2);
  CHECK(std::get<LoggedHistogram>(fit.logger->named("whole").content).sum_squares == 30);
}

TEST_CASE("images come in all shapes that people have, and others are refused at the call") {
  const auto error_with = [](const at::Tensor& image) {
    return Fit("M.on_train_start", [&](Module& module) { module.log_image("samples", image); }).error();
  };
  for (const at::Tensor& image : {torch::zeros({4, 6}), torch::zeros({1, 4, 6}), torch::zeros({3, 4, 6}),
                                  torch::zeros({4, 4, 6}), torch::zeros({2, 3, 4, 6}), torch::zeros({4, 6}, torch::kDouble),
                                  torch::zeros({4, 6}, torch::kBFloat16), torch::zeros({4, 6}, torch::kByte)}) {
    CHECK(error_with(image).empty());
  }
  using Row = std::pair<at::Tensor, const char*>;
  for (const auto& [image, error] :
       {Row{torch::zeros({5, 4, 6}), "log_image('samples'): got Float [5, 4, 6]; it takes [H, W], [C, H, W]"},
        Row{torch::zeros({5, 6, 3}), "permute() it first"}, Row{torch::zeros({4, 6}, torch::kLong), "got Long [4, 6]"},
        Row{torch::zeros({3, 0, 6}), "has no pixels"}, Row{torch::zeros({6}), "got Float [6]"},
        Row{at::Tensor(), "got no tensor"}}) {
    CHECK_THAT(error_with(image), Catch::Contains(error));
  }
}

TEST_CASE("a figure is drawn of what its tensors were, and a logger has the numbers too") {
  Fit fit("M.on_train_end", [](Module& module) {
    at::Tensor counts = torch::tensor({{3, 1}, {0, 4}});
    module.log_figure("confusion", Figure::heat_map(counts, {.x_label = "taken for", .columns = {"a", "b"}}));
    counts.zero_();
    module.log_figure("curve", Figure::lines({{"one", torch::tensor({1.0, 2.0}, torch::kHalf), torch::tensor({5, 7})}}));
    module.log_figure("heights", Figure::bars({{"one", torch::tensor({1.0, 2.0}).requires_grad_() * 2}}));
  });
  fit.run();
  const auto map = std::get<LoggedFigure>(fit.logger->named("confusion").content);
  CHECK(map.kind == FigureKind::kHeatMap);
  CHECK(map.series.front().y == std::vector<double>{3, 1, 0, 4});
  CHECK(map.width == 2);
  CHECK(map.x_label == "taken for");
  CHECK(map.image.png.substr(1, 3) == "PNG");
  const auto curve = std::get<LoggedFigure>(fit.logger->named("curve").content);
  CHECK(curve.series.front().x == std::vector<double>{5, 7});
  CHECK(curve.series.front().y == std::vector<double>{1, 2});
  CHECK(std::get<LoggedFigure>(fit.logger->named("heights").content).series.front().y == std::vector<double>{2, 4});
}

TEST_CASE("a figure whose parts do not fit together is refused at the call") {
  const auto error_of_figure = [](const Figure& figure) {
    return Fit("M.on_train_start", [&](Module& module) { module.log_figure("roc", figure); }).error();
  };
  const at::Tensor two = torch::zeros({2}), three = torch::zeros({3}), square = torch::zeros({2, 2});
  using Row = std::pair<Figure, const char*>;
  for (const auto& [figure, error] :
       {Row{Figure::lines({}), "log_figure('roc'): it has nothing to draw"},
        Row{Figure::lines({{"car", two, three}}), "'car': it has 3 x, but 2 y"},
        Row{Figure::lines({{"car", square}}), "'car': got Float [2, 2]; it takes a dense tensor of real numbers [N]"},
        Row{Figure::lines({{"car", {}}}), "got no tensor"},
        Row{Figure::bars({{"car", two}}, {.columns = {"one"}}), "names of columns: 1 are given for 2"},
        Row{Figure::heat_map(two), "[rows, columns]"},
        Row{Figure::heat_map(square, {.rows = {"a", "b", "c"}}), "names of rows: 3 are given for 2"}}) {
    CHECK_THAT(error_of_figure(figure), Catch::Contains(error));
  }
  CHECK(error_of_figure(Figure::heat_map(torch::zeros({0, 0}))).empty());
}

TEST_CASE("what is no histogram, table, file or name is refused at the call") {
  using Row = std::pair<std::function<void(Module&)>, const char*>;
  const Table uneven{{"a", "b"}, {{1, 2}, {3}}};
  const Table nested{{"a"}, {{Value(Value::List{1})}}};
  for (const auto& [log, error] :
       {Row{[](Module& module) { module.log_histogram("h", torch::zeros({2}, torch::kComplexFloat)); },
            "log_histogram('h'): got ComplexFloat [2]"},
        Row{[&](Module& module) { module.log_table("t", uneven); },
            "log_table('t'): row 1 has 1 cell, but there are 2 columns"},
        Row{[&](Module& module) { module.log_table("t", nested); }, "row 0 has a cell that is a list or a map"},
        Row{[](Module& module) { module.log_file("f", "/nowhere/notes.txt"); },
            "log_file('f'): there is no file /nowhere/notes.txt"},
        Row{[](Module& module) { module.log_text("", "text"); }, "the name is empty"},
        Row{[](Module& module) { module.log_text("a\nb", "text"); }, "a line break"},
        Row{[](Module& module) { std::async(std::launch::async, [&] { module.log_text("a", "b"); }).get(); },
            "on another thread"}}) {
    CHECK_THAT(Fit("M.on_train_start", log).error(), Catch::Contains(error));
  }
}

TEST_CASE("outside of a run it is an error") {
  HookTrace trace;
  RecordingModule module(trace);
  CHECK_THAT(error_of<MisuseError>([&] { module.log_text("note", "text"); }),
             Catch::Contains("log_text(\"note\") is called outside of a run"));
  Fit fit("", [](Module&) {});
  fit.run();
  CHECK_THAT(error_of<MisuseError>([&] {
               fit.module.log_image("image", torch::zeros({2, 2}));
             }),
             Catch::Contains("log_image('image'): it is called outside of a run"));
}

TEST_CASE("logging does not wait for a device, nor for a logger") {
  std::int64_t waits = 0;
  Fit fit("M.on_train_start", [&](Module& module) {
    const std::int64_t before = QueuedDevice::counts().waits;
    module.log_text("first", "text");  // at the gate, so that what follows waits in the queue
    module.log_image("image", torch::zeros({3, 8, 8}, QueuedDevice::device()));
    module.log_histogram("numbers", torch::ones({8}, at::TensorOptions(torch::kHalf).device(QueuedDevice::device())));
    module.log_figure("map", Figure::heat_map(torch::ones({8, 8}, QueuedDevice::device())));
    waits = QueuedDevice::counts().waits - before;
  });
  fit.logger->close();
  const std::int64_t before = QueuedDevice::counts().waits;
  fit.trace.before_entry = [&](const std::string& entry) {
    if (entry == "M.on_fit_end") fit.logger->let_go();
  };
  fit.run();
  CHECK(waits == 0);
  CHECK(QueuedDevice::counts().waits - before == 3);
  CHECK(std::get<LoggedHistogram>(fit.logger->named("numbers").content).number == 8);
}

TEST_CASE("what a logger throws ends the run, as what it throws of a row does") {
  Fit fit("M.on_train_end", [](Module& module) { module.log_text("broken", "text"); });
  fit.logger->failing = "broken";
  CHECK(fit.error() == "log_text('broken') of step 3: the disk is full");
}

TEST_CASE("a run that fails still shows what it logged") {
  Fit fit("M.on_train_batch_end", [](Module& module) {
    module.log_text("note", "text");
    if (module.global_step() == 2) throw std::runtime_error("the test's");
  });
  CHECK_THROWS_WITH(fit.run(), Catch::Contains("the test's"));
  CHECK(fit.logger->items.size() == 2);
  CHECK(fit.logger->items_at_finalize == 2);
}
