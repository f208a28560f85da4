// A library that registers nothing.
int levin_test_empty_plugin() { return 0; }
