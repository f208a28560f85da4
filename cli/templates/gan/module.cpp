#include "module.h"

LEVIN_REGISTER_MODULE(@CLASS @, "Makes points that look like the data");
LEVIN_REGISTER_DATA_MODULE(@CLASS @Data, "Points on a ring");
