// Not part of any program: levin_add_plugin() has to refuse it.
struct Loss {
  double value;
};
Loss training_step() {
  Loss loss{0.5};
  (void)loss;
}
