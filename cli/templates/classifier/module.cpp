#include "module.h"

LEVIN_REGISTER_MODULE(@CLASS @, "Says which class a point is of");
LEVIN_REGISTER_DATA_MODULE(@CLASS @Data, "Points on spirals");
