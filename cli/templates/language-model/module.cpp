#include "module.h"

LEVIN_REGISTER_MODULE(@CLASS @, "Predicts the next character of a text");
LEVIN_REGISTER_DATA_MODULE(@CLASS @Data, "A text file");
