#include <levin/levin.h>

#include <iostream>

/// What an experiment measures of pendulums: length, mass and amplitude, each scaled to about 1, and the period.
levin::Batch measured(std::int64_t count) {
  const torch::Tensor features = torch::rand({count, 3});
  const torch::Tensor angle = features.select(1, 2).square() / 16;
  return {{"features", features}, {"label", 2 * M_PI * (features.select(1, 0) / 9.81).sqrt() * (1 + angle)}};
}

int main() {
  return levin::run_main([] {
    levin::Session session = levin::Session::from_yaml("config.yaml", {"data=null", "trainer.max_steps=500"});
    session.begin();
    while (!session.step(measured(64)).stops) {
    }
    const levin::Batch seen = measured(4);
    std::cout << torch::stack({session.predict(seen)["period"], seen["label"]}, 1) << '\n';
    session.save("loop.ckpt");
    session.end();
  });
}
