// A plug-in that somebody compiled without optimization.
#include <levin/core/callback.h>
#include <levin/core/config/registry.h>

class Slow : public levin::Callback {};
LEVIN_REGISTER_CALLBACK(Slow, "Does nothing, slowly");
