// An application that embeds levin: with handlers, threads, a log and handlers of exit() of its own, which trains in a thread
// beside others. docs/embedding.md shows parts of it. Run by cases/embedding.txt.
// Arguments: what to do (see kScenarios); a folder.
#include <levin/levin.h>
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <future>
#include <iostream>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace {
std::atomic<int> settings_of_malloc = 0;
}

/// In place of glibc's: levin would call it.
extern "C" __attribute__((visibility("default"))) int mallopt(int, int) noexcept {
  ++settings_of_malloc;
  return 1;
}

namespace {

std::mutex log_mutex;
std::string folder;

void application_log(const std::string& text) {
  const std::lock_guard lock(log_mutex);
  std::cout << "log: " << text << std::endl;
}

class Net : public levin::Module {
 public:
  explicit Net(std::function<void(Net&)> in_step = {}) : in_step_(std::move(in_step)) {}
  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    if (in_step_) in_step_(*this);
    const at::Tensor loss = net_->forward(batch[0]).square().mean();
    log("loss", loss);
    return loss;
  }
  levin::OptimizerSetups configure_optimizers() override { return std::make_shared<levin::SGD>(parameters(), 0.01); }

 private:
  torch::nn::Sequential net_ =
      register_module("net", torch::nn::Sequential(torch::nn::Linear(8, 64), torch::nn::ReLU(), torch::nn::Linear(64, 1)));
  std::function<void(Net&)> in_step_;
};

levin::LoaderPtr make_data(int workers = 0) {
  const auto samples = std::make_shared<levin::TensorDataset>(levin::Batch{{"x", torch::ones({256, 8})}});
  return std::make_shared<levin::DataLoader>(samples, levin::DataLoaderOptions{.batch_size = 8, .num_workers = workers});
}

levin::TrainerOptions make_options() {
  levin::TrainerOptions options;
  options.max_epochs = 2;
  options.accelerator = "cpu";
  options.logger = false;
  options.enable_checkpointing = false;
  options.default_root_dir = folder;
  return options;
}

/// A run that another thread waits for: until its third step, and for its end.
class Training {
 public:
  explicit Training(levin::TrainerOptions options = make_options(), int workers = 0) {
    options.max_epochs = -1;
    trainer.emplace(options);
    data = make_data(workers);
    worker = std::thread([this] { trainer->fit(module, data); });
    third_step.get_future().wait();
  }

  std::promise<void> third_step;
  Net module{[this](Net& net) {
    if (net.trainer().global_step() == 2) third_step.set_value();
  }};
  levin::LoaderPtr data;
  std::optional<levin::Trainer> trainer;
  std::thread worker;
};

void tell_error(const std::function<void(Net&)>& in_step) {
  auto data = make_data();
  Net module(in_step);
  levin::Trainer trainer(make_options());
  try {
    trainer.fit(module, data);
  } catch (const levin::Interrupted& stopped) {
    application_log("signal " + std::to_string(stopped.signal()));
  } catch (const levin::Error& error) {
    application_log(error.what());  // failed in training_step (train, epoch 0, step 3): …
  } catch (const std::exception& error) {
    application_log(trainer.failure()->place() + ": " + error.what());
  }
}

// ---- What it does -----------------------------------------------------------------------------------------------------------

void errors() {
  tell_error([](Net& net) {
    if (net.trainer().global_step() == 3) throw levin::IoError("the disk is gone");
  });
  tell_error([](Net& net) {
    if (net.trainer().global_step() == 5) throw std::out_of_range("no such camera");
  });
  tell_error([](Net&) { torch::ones({2, 3}).matmul(torch::ones({2, 3})); });
}

void cancel() {
  levin::TrainerOptions options = make_options();
  options.max_epochs = -1;
  auto data = make_data();
  Net module;
  levin::Trainer trainer(options);
  std::thread worker([&] { trainer.fit(module, data); });
  trainer.stop("the client has gone");  // from any thread; all ranks stop at the same step
  worker.join();
  application_log(trainer.stop_reason());
  // Nothing of it is left for the next one.
  levin::Trainer next(make_options());
  next.fit(module, data);
  application_log(next.stop_reason() + " after " + std::to_string(next.global_step()) + " steps");
}

void progress() {
  levin::seed_everything(1);  // with weights of which none fit at once
  auto data = make_data();
  Net module;
  levin::TrainerOptions options = make_options();
  options.enable_progress_bar = false;
  options.callbacks = {std::make_shared<levin::LambdaCallback>(
      levin::LambdaCallbackOptions{.on_train_epoch_end = [](levin::Trainer& trainer, levin::Module&) {
        const double loss = trainer.monitored("loss").value();
        application_log("epoch " + std::to_string(trainer.current_epoch()) + (loss >= 0 ? ": it learns" : ": it does not"));
      }})};
  levin::Trainer(options).fit(module, data);
}

void sink() {
  levin::set_message_sink([](const levin::Message& message) {
    const std::string place = message.place ? " " + levin::describe_place(*message.place) : "";
    application_log(std::string(levin::choice_name(message.level)) + place + ": " + message.text);
  });
  auto data = make_data();
  Net module([](Net& net) {
    if (net.trainer().global_step() == 3) levin::rank_warn("watch out");
  });
  levin::Trainer(make_options()).fit(module, data);
  std::thread([] { levin::rank_info("from another thread"); }).join();
  levin::set_message_sink(nullptr);
  levin::rank_info("on standard output again");
}

void quiet() {
  auto data = make_data();
  Net module([](Net&) { levin::rank_error("not shown"); });
  levin::TrainerOptions options = make_options();
  options.log_level = levin::LogLevel::kNone;
  levin::Trainer(options).fit(module, data);
}

void several() {
  auto data = make_data();
  Net module;
  levin::Trainer(make_options()).fit(module, data);  // one after another: as often as you like
  levin::Trainer(make_options()).fit(module, data);

  const auto train = [] {  // and in threads, each with another module, data and Trainer
    auto own_data = make_data();
    Net own_module;
    levin::Trainer trainer(make_options());
    trainer.fit(own_module, own_data);
    return trainer.global_step();
  };
  auto one = std::async(std::launch::async, train);
  auto another = std::async(std::launch::async, train);
  application_log(std::to_string(one.get()) + " and " + std::to_string(another.get()) + " steps");
}

std::map<int, void (*)(int)> handlers() {
  std::map<int, void (*)(int)> found;
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGPIPE, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGCHLD}) {
    struct sigaction present {};
    sigaction(signal, nullptr, &present);
    found[signal] = present.sa_handler;
  }
  return found;
}

void takes_nothing() {
  const auto before = handlers();
  stack_t stack{};
  Net module([&](Net&) {
    sigaltstack(nullptr, &stack);
    if (handlers() != before) application_log("a handler was taken");
    if ((stack.ss_flags & SS_DISABLE) == 0) application_log("a stack was set");
  });
  levin::Trainer(make_options()).fit(module, make_data());
  application_log(std::to_string(settings_of_malloc) + " settings of malloc");
}

void takes_what_it_is_asked_to() {
  signal(SIGSEGV, SIG_DFL);
  const auto before = handlers();
  levin::TrainerOptions options = make_options();
  options.process = {.signals = true, .crash_reports = true, .memory = true};
  Net module([&](Net& net) {
    if (net.trainer().global_step() != 3) return;
    const auto present = handlers();
    application_log(std::string("taken:") + (present.at(SIGINT) != before.at(SIGINT) ? " SIGINT" : "") +
                    (present.at(SIGTERM) != before.at(SIGTERM) ? " SIGTERM" : "") +
                    (present.at(SIGSEGV) != before.at(SIGSEGV) ? " SIGSEGV" : "") + (settings_of_malloc > 0 ? " malloc" : ""));
    raise(SIGUSR1);
  });
  try {
    levin::Trainer(options).fit(module, make_data());
  } catch (const levin::Interrupted& stopped) {
    application_log(stopped.what());
  }
  application_log(handlers() == before ? "all given back" : "not given back");
}

void gets_its_signals() {
  Training training;
  raise(SIGTERM);
  training.trainer->stop("SIGTERM");
  training.worker.join();
  application_log(training.trainer->stop_reason());
}

[[noreturn]] void exits(int workers = 0) {
  auto* const training = new Training(make_options(), workers);
  training->worker.detach();
  std::exit(0);
}

/// As static objects of many programs do.
struct Server {
  ~Server() {
    training.trainer->stop();
    training.worker.join();
    std::cout << "the server has joined its thread" << std::endl;
  }
  Training training;
};

[[noreturn]] void exits_with_server() {
  static Server server;
  std::exit(0);
}

/// Small files, of which a thread still writes when static objects go.
[[noreturn]] void exits_while_writing() {
  Net module([](Net& net) {
    if (net.trainer().global_step() == 1) std::exit(3);
    net.trainer().save_checkpoint_in_background(folder + "/one.ckpt");
    net.trainer().save_checkpoint_in_background(folder + "/two.ckpt");
    for (int work = 0; work < 50; ++work) {
      net.trainer().checkpoint_files().then([] { levin::Checkpoint::load(folder + "/one.ckpt"); });
    }
    net.trainer().checkpoint_files().then([] { std::rename((folder + "/two.ckpt").c_str(), (folder + "/last.ckpt").c_str()); });
  });
  levin::Trainer(make_options()).fit(module, make_data());
  std::abort();
}

[[noreturn]] void crash() {
  Training training;
  std::thread([] { raise(SIGSEGV); }).join();
  std::abort();
}

[[noreturn]] void crash_by_default() {
  signal(SIGSEGV, SIG_DFL);
  crash();
}

/// As a program of levin's own; it crashes in a thread that is not that of the hooks.
[[noreturn]] void crash_of_own_process() {
  signal(SIGSEGV, SIG_DFL);
  levin::run_main([] { crash(); });
  std::abort();
}

[[noreturn]] void exit_of_own_process() {
  levin::run_main([] { exits(); });
  std::abort();
}

void devices_without_permission() {
  levin::TrainerOptions options = make_options();
  options.devices = 2;
  try {
    levin::Trainer trainer(options);
  } catch (const levin::MisuseError& error) {
    application_log(error.what());
  }
}

void launch() {
  levin::TrainerOptions options = make_options();
  options.devices = 2;
  options.log_level = levin::LogLevel::kError;
  options.allow_same_batches = true;
  const auto before = handlers();
  levin::launch([&] {
    levin::Trainer trainer(options);  // in the application, the constructor does not return
    Net module;
    trainer.fit(module, make_data());
    application_log("rank " + std::to_string(trainer.rank()) + " of " + std::to_string(trainer.world_size()) + " is done");
  });
  application_log("the application continues");
  try {
    levin::launch([&] {
      levin::Trainer trainer(options);
      Net module([](Net& net) {
        if (net.trainer().rank() == 1 && net.trainer().global_step() == 3) throw levin::IoError("the disk is gone");
      });
      trainer.fit(module, make_data());
    });
  } catch (const levin::Error& error) {
    application_log(std::to_string(error.exit_code()) + ", " + error.what());
  }
  try {
    levin::launch([&] {
      levin::Trainer trainer(options);
      Net module([](Net& net) {
        if (net.trainer().rank() == 0 && net.trainer().global_step() == 3) raise(SIGUSR1);
      });
      trainer.fit(module, make_data());
    });
  } catch (const levin::Interrupted& stopped) {
    application_log(stopped.what());
  }
  levin::launch([] {  // one device: here and now
    levin::Trainer trainer(make_options());
    Net module;
    trainer.fit(module, make_data());
    application_log(std::to_string(trainer.global_step()) + " steps");
  });
  application_log(handlers() == before ? "all given back" : "not given back");
}

const std::map<std::string, std::function<void()>> kScenarios = {
    {"errors", errors},
    {"cancel", cancel},
    {"progress", progress},
    {"sink", sink},
    {"quiet", quiet},
    {"several", several},
    {"takes_nothing", takes_nothing},
    {"takes_what_it_is_asked_to", takes_what_it_is_asked_to},
    {"gets_its_signals", gets_its_signals},
    {"exits", [] { exits(); }},
    {"exits_beside_workers", [] { exits(/*workers=*/2); }},
    {"exits_with_server", exits_with_server},
    {"exits_while_writing", exits_while_writing},
    {"crash", crash},
    {"crash_by_default", crash_by_default},
    {"crash_of_own_process", crash_of_own_process},
    {"exit_of_own_process", exit_of_own_process},
    {"devices_without_permission", devices_without_permission},
    {"launch", launch},
};

void on_terminate(int) {
  constexpr char kText[] = "handler: SIGTERM\n";
  [[maybe_unused]] const ssize_t written = write(STDOUT_FILENO, kText, sizeof(kText) - 1);
}

void on_crash(int) {
  constexpr char kText[] = "handler: SIGSEGV\n";
  [[maybe_unused]] const ssize_t written = write(STDOUT_FILENO, kText, sizeof(kText) - 1);
  _exit(77);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  folder = argv[2];
  std::cout << "main" << std::endl;
  signal(SIGTERM, on_terminate);
  signal(SIGSEGV, on_crash);
  std::atexit([] { std::cout << "at exit" << std::endl; });
  std::atomic<bool> ends = false;
  std::thread ticker([&] {
    while (!ends) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  kScenarios.at(argv[1])();
  ends = true;
  ticker.join();
}
