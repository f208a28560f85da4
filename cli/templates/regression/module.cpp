#include "module.h"

LEVIN_REGISTER_MODULE(@CLASS @, "Predicts a number from the other columns of a table");
